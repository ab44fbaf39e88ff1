"""The source tree of a past commit, for clusters whose nodes run different releases.

`tests/data/past_commit` names the commit: the last one before nodes named their release. A release
replaces it by its own predecessor.
"""

import io
import subprocess
import zipfile
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
COMMIT_FILE: Final = _ROOT / "tests" / "data" / "past_commit"
_PACKAGES: Final = ("quorum", "statemachine", "controller", "broker", "admin", "lag")


class NoHistory(Exception):
    """The past commit cannot be read: the tree has no history, or a shallow one."""


def past_tree(folder: Path) -> Path:
    """Write the packages of the past commit into `folder`, and return it; raises `NoHistory`."""
    commit = COMMIT_FILE.read_text(encoding="ascii").strip()
    done = subprocess.run(
        ["git", "archive", "--format=zip", commit, *_PACKAGES],
        cwd=_ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise NoHistory(f"commit {commit} cannot be read: {said}; fetch the whole history")
    with zipfile.ZipFile(io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder)
    return folder
