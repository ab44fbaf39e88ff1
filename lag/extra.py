"""The libraries of the extra `spark`, which lag reports need and nothing else does."""

import importlib.util
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LIBRARIES: Final[Mapping[str, str]] = MappingProxyType(
    {"jinja2": "3.1", "numpy": "2.4", "pyarrow": "26.0", "pyspark": "4.3"}
)
"""Their oldest versions, as in pyproject.toml; a test compares the two."""


def missing() -> str | None:
    """The sentence that says which of them are missing, and how to install them; None if none."""
    names = [name for name in LIBRARIES if not _is_installed(name)]
    if not names:
        return None
    are = "is" if len(names) == 1 else "are"
    shown = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (
        f"lag reports need {shown}, which {are} not installed: "
        f"{sys.executable} -m pip install {' '.join(map(_wanted, names))}"
    )


def without(error: ModuleNotFoundError) -> ImportError:
    """The error to raise in place of that of an import: the sentence, if a library is missing or
    lacks a module of newer versions."""
    name = (error.name or "").partition(".")[0]
    if name not in LIBRARIES:
        return error
    return ImportError(missing() or _too_old(name), name=error.name)


def _too_old(name: str) -> str:
    return (
        f"lag reports need {name} {LIBRARIES[name]} or newer, and the installed one is too old: "
        f"{sys.executable} -m pip install {_wanted(name)}"
    )


def _wanted(name: str) -> str:
    return f"'{name}>={LIBRARIES[name]}'"


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        # The entry in sys.modules is None.
        return False
