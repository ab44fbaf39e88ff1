"""What processes that tests start find installed: what users have, not what only tests need."""

import os
from typing import Final

import pytest

from tests.support.tree import ROOT

VARIABLE: Final = "PYTHONPATH"
NOT_FOR_USERS: Final = str(ROOT / "tests" / "not_for_users")


def hide_what_users_have_not(patch: pytest.MonkeyPatch) -> None:
    """Let processes that are started from now on not find what is not for users."""
    patch.setenv(VARIABLE, NOT_FOR_USERS, prepend=os.pathsep)


def show_all(patch: pytest.MonkeyPatch) -> None:
    """Let processes that are started from now on find everything: they run tests themselves."""
    paths = os.environ.get(VARIABLE, "").split(os.pathsep)
    patch.setenv(VARIABLE, os.pathsep.join(each for each in paths if each != NOT_FOR_USERS))
