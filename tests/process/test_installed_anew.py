"""Wheels in environments that were empty, with the libraries of the registry and by the lock."""

from pathlib import Path
from typing import Final

import pytest

from hatch_build import ASKED, OPT_LEVEL, not_here
from tests.process.installed import (
    Installed,
    build_sdist,
    build_wheel,
    check_imports,
    check_local_cluster,
    install,
    new_environment,
)
from tests.support import tree

pytestmark = [pytest.mark.process, pytest.mark.long]

LOCK: Final = tree.ROOT / "requirements" / "run.txt"
INSTALL_SECONDS_MAX: Final = 600
DEMO_SECONDS_MAX: Final = 300


@pytest.fixture(scope="module", params=["pure", "compiled"])
def installed(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Installed:
    is_compiled = request.param == "compiled"
    if is_compiled and (missing := not_here()) is not None:
        pytest.skip(missing)
    found = new_environment(tmp_path_factory.mktemp(request.param))
    install(found, "--require-hashes", "-r", LOCK, seconds=INSTALL_SECONDS_MAX)
    variables = {ASKED: str(int(is_compiled)), OPT_LEVEL: "0"}
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"), variables)
    install(found, "--no-deps", "--no-index", wheel)
    assert f" ({request.param}, Python 3." in found.run("metaquorum", "--version")
    return found


def test_every_module_is_found_and_no_package_of_the_user_is(installed: Installed) -> None:
    check_imports(installed)


def test_a_cluster_runs_of_it(installed: Installed) -> None:
    check_local_cluster(installed)


def test_the_demo_runs_of_it(installed: Installed) -> None:
    done = installed.run("metaquorum", "demo", "--once", seconds=DEMO_SECONDS_MAX)
    assert ": 0 lost, 0 twice, 0 altered, 0 out of order\n" in done


def test_pip_compiles_from_the_sdist_with_what_the_build_requires(tmp_path: Path) -> None:
    """`METAQUORUM_COMPILED=1 pip install`, in an isolated build."""
    if (missing := not_here()) is not None:
        pytest.skip(missing)
    found, variables = new_environment(tmp_path), {ASKED: "1", OPT_LEVEL: "0"}
    sdist = build_sdist(tmp_path)
    install(found, "--no-deps", sdist, seconds=INSTALL_SECONDS_MAX, variables=variables)
    (packages,) = found.environment.glob("lib/python*/site-packages")
    assert list((packages / "metaquorum" / "quorum").glob("driver.*.so"))
