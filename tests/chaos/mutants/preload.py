"""The imports of programs that run mutants, before they fork: nothing of the product.

Each of them plants its fault in a product that has not been started yet.
"""

import importlib
import sys
from typing import Final

import pytest

PRODUCT: Final = ("quorum", "statemachine", "controller", "broker", "admin")
NEEDED: Final = (
    *("asyncio", "concurrent.futures.thread", "http.client", "logging", "subprocess", "uuid"),
    *("crc32c", "hypothesis.strategies", "hypothesis.stateful"),
    "chaos.mutants.catalogue",
    *(
        "kio.index",
        "kio.schema",
        "kio.serial",
        "kio.static.primitive",
        "msgspec",
        "orjson",
        "pyroaring",
    ),
)

# Pytest wants to be the first who imports its plugins, to rewrite their assertions. It does so when
# it looks for tests, of which there are none in this folder.
_found = pytest.main(["-q", "-p", "no:cacheprovider", "tests/support"])
assert _found == pytest.ExitCode.NO_TESTS_COLLECTED, _found
for _name in NEEDED:
    importlib.import_module(_name)
_early = [name for name in sys.modules if name.partition(".")[0] in PRODUCT]
assert not _early, f"imported before a fault could be planted: {_early}"
