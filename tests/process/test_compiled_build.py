"""Compiled code behaves like interpreted code: the same events for a seed, the same promises.

The packages are compiled as `make compiled` does it, without the C compiler's optimization, which
would take as long as all the rest (`make test-compiled` tests the optimized one); two minutes and
more are left to `make long` all the same.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from hatch_build import ASKED, OPT_LEVEL, listed, not_here
from tests.support import tree

pytestmark = pytest.mark.process

SECONDS_MAX: Final = 900
"""For a build or a run, on a machine that has other things to do."""

SEEDS: Final = {"quorum": (3, 11, 20), "cluster": (2, 7, 12)}

ALL_FILES: Final = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages by their names in the tree, compiled."""
    if (missing := not_here()) is not None:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("compiled")
    run(["hatch_build.py", str(folder)], {OPT_LEVEL: "0"})
    return folder


def build_into(folder: Path) -> list[str]:
    return ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]


def run(arguments: list[str], variables: dict[str, str]) -> str:
    """The output of Python, run with `arguments` in the tree, with `variables` set as well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree.ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_compiled(compiled: Path, arguments: list[str]) -> str:
    """The same of what is compiled; benchmarks and tests are still those of the tree."""
    paths = [str(compiled), str(tree.ROOT), os.environ.get("PYTHONPATH", "")]
    return run(arguments, {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(paths)})


@pytest.mark.long
def test_every_module_that_is_listed_is_compiled(compiled: Path) -> None:
    build = tree.pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    modules = listed(tree.ROOT, build["modules"], build["interpreted"])
    names = [
        module.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in modules
    ]
    files = run_compiled(compiled, ["-c", ALL_FILES, *names]).splitlines()
    assert len(files) == len(names)
    assert [each for each in files if Path(each).suffix != ".so"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS.items() for seed in seeds]
)
def test_a_seed_is_the_same_run_event_for_event(compiled: Path, kind: str, seed: int) -> None:
    asked = ["-m", "chaos", "run", "--kind", kind, "--seed", str(seed)]
    said = run(asked, {})
    assert "hash" in said
    assert run_compiled(compiled, asked) == said


@pytest.mark.long
def test_real_controllers_commit_and_agree(compiled: Path) -> None:
    """The benchmark compares all three of them with every answer, and fails where they differ."""
    asked = ["-m", "bench.commits", "--seconds", "1", "--outstanding", "16"]
    assert "| 16 |" in run_compiled(compiled, asked)


def test_without_a_compiler_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *build_into(tmp_path)],
        cwd=tree.ROOT,
        env={**os.environ, ASKED: "1", "CC": "/nowhere/cc"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode != 0
    expected = f"{ASKED}: there is no C compiler /nowhere/cc; install one (Debian: gcc)"
    assert done.stderr.splitlines()[-1:] == [expected]
    assert list(tmp_path.iterdir()) == []
