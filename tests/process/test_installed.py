"""The pure wheel of the sdist, installed where the tree is not: it runs, and claims one name.

The libraries are those of this environment. `test_installed_anew.py` takes them from the registry.
"""

import sysconfig
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.process.installed import (
    Installed,
    build_wheel,
    check_imports,
    check_local_cluster,
    install,
    new_environment,
)

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"), {})


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    found = new_environment(tmp_path_factory.mktemp("installed"))
    install(found, "--no-deps", "--no-index", wheel)
    # A folder that a .pth names is on the path, but the .pth files in it are not read: the tree,
    # which is installed there by one, stays out.
    (packages,) = found.environment.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return found


def test_the_wheel_is_for_any_machine_and_claims_one_name(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with ZipFile(wheel) as packed:
        names = packed.namelist()
        scripts = next(each for each in names if each.endswith("/entry_points.txt"))
        said = packed.read(scripts).decode()
    tops = {each.partition("/")[0] for each in names}
    assert sorted(each.partition("-")[0] for each in tops) == ["metaquorum", "metaquorum"]
    assert "metaquorum/py.typed" in names
    assert [each for each in names if each.split("/")[1] in {"tests", "bench"}] == []
    assert "metaquorum = metaquorum.admin.cli.main:metaquorum\n" in said


def test_the_metadata_names_licence_and_requirements(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith("/METADATA"))
        metadata: Message = Parser().parsestr(packed.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert any(each.startswith("kio") for each in metadata.get_all("Requires-Dist", []))


def test_it_says_that_it_is_pure(installed: Installed) -> None:
    assert " (pure, Python 3." in installed.run("metaquorum", "--version")


def test_every_module_is_found_and_no_package_of_the_user_is(installed: Installed) -> None:
    check_imports(installed)


def test_a_cluster_runs_of_it(installed: Installed) -> None:
    check_local_cluster(installed)
