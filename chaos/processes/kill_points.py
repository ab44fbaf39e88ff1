"""A node that kills itself at a named point of its code, as its own program.

The product knows nothing of it: this program wraps the functions of `POINTS`, and then runs the
command of a node. A wrapped function looks for the file that `CHAOS_POINT_FILE` names; when it
holds the name of the point, the process ends as by `kill -9`. Modules that are compiled call each
other without looking at wrapped names, so that such nodes have no points.
"""

import functools
import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from admin.own_code import PROGRAM as NODE
from quorum.log.segment_writer import SegmentWriter
from quorum.log.segmented_log import SegmentedLog
from quorum.log.snapshot_store import FileSnapshotStore

PROGRAM: Final = ("-m", __name__)
FILE: Final = "CHAOS_POINT_FILE"


class Point(NamedTuple):
    """A method at which a node can be killed, before or after its body."""

    owner: type
    method: str
    is_after: bool


POINTS: Final[dict[str, Point]] = {
    "log-before-write": Point(SegmentWriter, "write", False),
    "log-written-not-synced": Point(SegmentWriter, "_sync", False),
    "log-synced": Point(SegmentWriter, "_sync", True),
    "commit-reported": Point(SegmentedLog, "commit", True),
    "log-truncated": Point(SegmentWriter, "truncate", True),
    "snapshot-not-named": Point(FileSnapshotStore, "finish", False),
    "snapshot-named": Point(FileSnapshotStore, "finish", True),
    "log-start-not-cut": Point(SegmentedLog, "remove_obsolete", False),
}
"""By name: the step of the node that has just happened, or is about to."""


def compiled_points() -> list[str]:
    """The names of points whose module is compiled: they would never be reached."""
    return [name for name, point in POINTS.items() if not _is_interpreted(point.owner)]


def _is_interpreted(owner: type) -> bool:
    return (sys.modules[owner.__module__].__file__ or "").endswith(".py")


def wrap(name: str, armed: Path) -> None:
    """Let this process die at the point as soon as the file `armed` holds its name."""
    owner, method, is_after = POINTS[name]
    setattr(owner, method, _wrapped(vars(owner)[method], name, is_after, armed))


def _wrapped(
    function: Callable[..., Any], name: str, is_after: bool, armed: Path
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not is_after:
            _die_if(name, armed)
        result = function(*arguments, **named)
        if is_after:
            _die_if(name, armed)
        return result

    return call


def _die_if(name: str, armed: Path) -> None:
    try:
        is_armed = armed.read_text(encoding="ascii") == name
    except FileNotFoundError:
        return
    if is_armed:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Wrap all points, and run the node's command."""
    armed = Path(os.environ[FILE])
    for name in POINTS:
        wrap(name, armed)
    runpy.run_module(NODE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
