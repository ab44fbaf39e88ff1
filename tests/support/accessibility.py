"""axe-core, which finds faults of accessibility in a page; npm brings it once into the cache."""

import subprocess
from functools import cache
from shutil import which
from typing import Final

from admin.tools.kafka_runtime import jar_folder

VERSION: Final = "4.11.4"
FETCH_SECONDS_MAX: Final = 120


@cache
def axe_core() -> str | None:
    """The script to run in a page; None where npm is missing, or has no network."""
    folder = jar_folder("").parent / f"axe-core-{VERSION}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    npm = which("npm")
    if not script.exists() and npm is not None:
        command = [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit"]
        try:
            subprocess.run(
                [*command, "--no-fund", f"axe-core@{VERSION}"],
                capture_output=True,
                timeout=FETCH_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return script.read_text(encoding="utf-8") if script.exists() else None
