"""The environment of processes that tests start: that of users, without test-only entries."""

import os
from typing import Final

import pytest

from tests.support.tree import ROOT

VARIABLE: Final = "PYTHONPATH"
WITHOUT_HYPOTHESIS: Final = str(ROOT / "tests" / "support" / "without_hypothesis")
TESTDATA_VARIABLE: Final = "METAQUORUM_TESTDATA"
"""A node rejects it: the prefix is that of settings."""


def hide_hypothesis(patch: pytest.MonkeyPatch) -> None:
    """Hide hypothesis from the processes that are started from now on."""
    patch.setenv(VARIABLE, WITHOUT_HYPOTHESIS, prepend=os.pathsep)
    patch.delenv(TESTDATA_VARIABLE, raising=False)


def show_hypothesis(patch: pytest.MonkeyPatch) -> None:
    """Show it again to the processes that are started from now on: they run tests themselves."""
    paths = os.environ.get(VARIABLE, "").split(os.pathsep)
    patch.setenv(VARIABLE, os.pathsep.join(each for each in paths if each != WITHOUT_HYPOTHESIS))
