"""The libraries of the extra `spark`: which are missing or too old, in one sentence."""

import sys
import tomllib
from typing import Final

import pytest

from lag.extra import LIBRARIES, without
from tests.support.tree import ROOT

INSTALL: Final = f"{sys.executable} -m pip install"


def test_they_are_those_of_the_package() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["optional-dependencies"]["spark"]
    assert [f"{name}>={version}" for name, version in LIBRARIES.items()] == wanted


def test_a_module_that_an_old_version_lacks_is_not_a_package_to_install() -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    name = "pyspark.sql.streaming.datasource"
    error = without(ModuleNotFoundError(f"No module named {name!r}", name=name))
    assert str(error) == (
        "lag reports need pyspark 4.3 or newer, and the installed one is too old: "
        f"{INSTALL} 'pyspark>=4.3'"
    )
    assert error.name == name


def test_an_error_about_another_package_stays_as_it_is() -> None:
    error = ModuleNotFoundError("No module named 'kio'", name="kio")
    assert without(error) is error
