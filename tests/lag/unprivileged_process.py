"""A process that may read only what its owner may, also as root."""

import os
import shutil
from typing import Final

import pytest

_ALL_BUT: Final = "--bounding-set=-dac_override,-dac_read_search"


def barred() -> list[str]:
    """The start of such a command; the test is skipped if root cannot give up its rights."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may read everything, and there is no setpriv to take that away")
    return ["setpriv", _ALL_BUT]
