"""The libraries of the extra `spark`, which lag reports need and nothing else does."""

import importlib.util
import sys
from typing import Final

LIBRARIES: Final = ("jinja2", "numpy", "pyarrow", "pyspark")


def missing() -> str | None:
    """The sentence that says which of them are missing, and how to install them; None if none."""
    names = [name for name in LIBRARIES if not _is_installed(name)]
    return _sentence(names) if names else None


def without(error: ModuleNotFoundError) -> ImportError:
    """The error to raise in place of that of an import: the sentence, if a library is missing."""
    if (error.name or "").partition(".")[0] not in LIBRARIES:
        return error
    return ImportError(missing() or _sentence([str(error.name)]), name=error.name)


def _sentence(names: list[str]) -> str:
    are = "is" if len(names) == 1 else "are"
    shown = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (
        f"lag reports need {shown}, which {are} not installed: "
        f"{sys.executable} -m pip install {' '.join(names)}"
    )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        # The entry in sys.modules is None.
        return False
