"""Which programs of the machine run Kafka: Java, and Maven to bring it."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

JAVA_LOWEST: Final = 17
ASK_SECONDS_MAX: Final = 30

INSTEAD: Final = "or leave --kafka out: the embedded brokers need neither Java nor Maven"


class Unavailable(Exception):
    """Kafka cannot be run here; one sentence says what is missing and what would be right."""

    def __init__(self, lacks: str, instead: str = "") -> None:
        """`lacks` says both; `instead` how a cluster of this machine does without."""
        super().__init__(f"{lacks}, {instead}" if instead else lacks)
        self.lacks = lacks


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The Java that JAVA_HOME names, or that of the path; raises `Unavailable` below 17."""
    home = environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=_path(environ))
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no java"
        raise Unavailable(f"{where}: install Java {JAVA_LOWEST} or newer", INSTEAD)
    version = _version_of(found)
    if version is None or version < JAVA_LOWEST:
        shown = "cannot be run" if version is None else f"is Java {version}"
        raise Unavailable(f"{found} {shown}: install Java {JAVA_LOWEST} or newer", INSTEAD)
    return Path(found)


def find_maven(environ: Mapping[str, str] = os.environ) -> Path:
    """Maven's program on the path; raises `Unavailable`."""
    found = shutil.which("mvn", path=_path(environ))
    if found is None:
        raise Unavailable(
            "there is no mvn, which brings Kafka's jars: install Maven 3.6 or newer", INSTEAD
        )
    return Path(found)


def _path(environ: Mapping[str, str]) -> str:
    return environ.get("PATH", os.defpath)


def _version_of(java: str) -> int | None:
    """The feature release: 17 of "17.0.15", 8 of "1.8.0_402"; None if it does not say."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return None if match is None else int(match[1])
