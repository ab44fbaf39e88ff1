"""A command line starts quickly because it imports late."""

import gc
import importlib
import subprocess
import sys
from typing import Final

import pytest

from admin.cli.late_imports import nothing_collected
from tests.support.tree import ROOT

HEAVY: Final = ("kio", "aiohttp", "asyncio", "msgspec", "rich", "pyroaring", "crc32c", "orjson")


def imported(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import admin.cli.main",
        "from admin.cli import main\ntry: main.group.main(['--help'])\nexcept SystemExit: pass",
        "from admin.cli import main\nfor name in main.COMMANDS: main.load(name)",
        "from admin.cli import main\n"
        "try: main.load('metadata-quorum').main(['describe', '--help'])\nexcept SystemExit: pass",
    ],
    ids=["the module", "help", "every command loaded", "help of a command"],
)
def test_no_heavy_library_is_imported_before_a_command_runs(code: str) -> None:
    found = imported(code)
    assert "click" in found
    assert not found & set(HEAVY)


def test_nothing_is_collected_during_an_import_and_everything_after_it() -> None:
    assert gc.isenabled()
    with nothing_collected():
        assert not gc.isenabled()
    with pytest.raises(ModuleNotFoundError), nothing_collected():
        importlib.import_module("admin.cli.no_such_module")
    assert gc.isenabled()
