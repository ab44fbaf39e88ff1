"""A node that kills itself at a named point of its code: `python -m chaos.processes.kill_points`.

The product knows nothing of it: this program wraps the functions of `POINTS`, and then runs the
command of a node. A wrapped function looks for the file that `CHAOS_POINT_FILE` names; when it
holds the name of the point, the process ends as by `kill -9`. Modules that are compiled call each
other without looking at wrapped names, so that such nodes have no points.
"""

import functools
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

PROGRAM: Final = ("-m", "chaos.processes.kill_points")
FILE: Final = "CHAOS_POINT_FILE"
_NODE: Final = "admin.cli.main"


class Point(NamedTuple):
    """A function at which a node can be killed, before or after its body."""

    module: str
    function: str
    """With its class: `Class.method`."""
    is_after: bool


POINTS: Final[dict[str, Point]] = {
    "log-before-write": Point("quorum.log.segment_writer", "SegmentWriter.write", False),
    "log-written-not-synced": Point("quorum.log.segment_writer", "SegmentWriter._sync", False),
    "log-synced": Point("quorum.log.segment_writer", "SegmentWriter._sync", True),
    "commit-reported": Point("quorum.log.segmented_log", "SegmentedLog.commit", True),
    "log-truncated": Point("quorum.log.segment_writer", "SegmentWriter.truncate", True),
    "snapshot-not-named": Point("quorum.log.snapshot_store", "FileSnapshotStore.finish", False),
    "snapshot-named": Point("quorum.log.snapshot_store", "FileSnapshotStore.finish", True),
    "log-start-not-cut": Point("quorum.log.segmented_log", "SegmentedLog.remove_obsolete", False),
}
"""By name: what has just happened, or is about to."""


def compiled_points() -> list[str]:
    """The names of points whose module is compiled: they would never be reached."""
    found = []
    for name, point in POINTS.items():
        origin = importlib.import_module(point.module).__file__ or ""
        if not origin.endswith(".py"):
            found.append(name)
    return found


def wrap(name: str, armed: Path) -> None:
    """Let this process die at the point as soon as the file `armed` holds its name."""
    point = POINTS[name]
    owner: Any = importlib.import_module(point.module)
    *path, last = point.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, last, _wrapped(getattr(owner, last), name, point.is_after, armed))


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
    # By name: the tests of the layers keep this package away from the command line.
    sys.argv[0] = _NODE
    runpy.run_module(_NODE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
