"""Spark is an extra: without it, the rest of the suite is collected and runs."""

import os
import subprocess
import sys
from typing import Final

from tests.support import tree

IMPORT_ALL: Final = """
import importlib, sys
import pytest

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jinja2", "numpy", "pandas", "py4j", "pyarrow", "pyspark"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
skipped = 0
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except pytest.skip.Exception:
        skipped += 1
print(skipped)
"""


def test_every_module_of_tests_is_imported_or_skips_itself_without_spark() -> None:
    files = sorted((tree.ROOT / "tests" / "lag").rglob("test_*.py"))
    files += sorted((tree.ROOT / "tests" / "bench").glob("test_*.py"))
    names = [".".join(file.relative_to(tree.ROOT).with_suffix("").parts) for file in files]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names],
        cwd=tree.ROOT,
        env={**os.environ, "PYTHONPATH": str(tree.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < len(names)
