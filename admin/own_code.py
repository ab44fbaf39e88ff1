"""The place and the name of this code: for processes that run it again, and for texts that name it.

In the tree `admin` is a top-level package. What is installed has it as `metaquorum.admin`, so that
it meets no package of the user's; nothing else differs, because names are taken from here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[__name__.count(".")]
"""The folder that a process needs on its path to import this code."""
PROGRAM: Final = f"{__package__}.cli.main"
"""The module that is this program, for `python -m`."""


def sibling(*names: str) -> str:
    """The full name of a module outside this package: `sibling("lag", "session")`."""
    return ".".join([*__name__.split(".")[:-2], *names])


def own_command(*arguments: str) -> list[str]:
    """The command line of a process that runs this program.

    Its working directory is not searched for modules: a user's `json.py` there would be taken for
    that of the standard library.
    """
    return [sys.executable, "-P", "-m", PROGRAM, *arguments]


def with_own_code(variables: Mapping[str, str], folder: Path = FOLDER) -> dict[str, str]:
    """The environment `variables` of a process that finds the code in `folder`, by default this
    very code, installed or not."""
    paths = [str(folder), *filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))]
    return {**variables, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
