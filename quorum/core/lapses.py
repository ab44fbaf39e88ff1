"""A voter that has forgotten what it acknowledged: its leader notices, and tells the operator.

A voter's fetch offset is what its disk holds, so it never falls. If it does, the disk has lost
records that may have been counted for a commit: a copy of it that is older was put back, or a disk
that says of a write that it is durable has lied. Nothing can be undone then; while the other voters
hold what this one has lost, nothing is lost.
"""

from quorum.core.messages import FetchRequest
from quorum.core.progress import ReplicaProgress


def lapse(progress: ReplicaProgress, request: FetchRequest) -> str | None:
    """What to tell of a voter that fetches from below what it has acknowledged in this epoch."""
    known, asked = progress.log_end, request.log_end.offset
    if known is None or asked >= known or progress.voter is None:
        return None
    return (
        f"voter {request.replica} fetches from offset {asked}, but had acknowledged everything "
        f"below {known}: its disk has lost that, or an older copy of its folder was put back. "
        "Stop none of the other voters before it has caught up. If nobody has put a copy back, "
        "do not trust its disk: let it come back with an empty folder"
    )
