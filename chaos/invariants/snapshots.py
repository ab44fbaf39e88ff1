"""R20 and R21: the contents and boundary of a snapshot, and the log prefix that it replaces.

A snapshot is read when its name becomes durable, and whenever a disk is read anew.
"""

from collections.abc import Collection, Sequence

from chaos.invariants.disk_format import SUFFIX, Checkpoint, Content
from chaos.invariants.durable_state import DurableState
from chaos.invariants.history import History
from chaos.violation import Violation
from quorum.core.messages import FetchSnapshotResponse

KEPT_MIN = 2
"""The number of snapshots that must cover a log prefix before it is deleted."""


def check_snapshots(
    who: object, new: Sequence[Checkpoint], history: History, *, damaged: str | None
) -> None:
    """Check that each snapshot is complete, ends at a committed boundary and agrees with the log.

    `damaged` is the name of a snapshot that the harness has damaged itself.
    """
    for each in new:
        if each.content is not None:
            _check_end(who, each, history)
            _check_content(who, each, each.content, history)
        elif each.name != damaged:
            raise Violation("R21", f"{who} has {each}, which is incomplete on its disk")


def _check_end(who: object, snapshot: Checkpoint, history: History) -> None:
    end, epoch = snapshot.end, snapshot.epoch
    if end > history.end:
        raise Violation("R21", f"{who} has {snapshot}, but the committed end is {history.end}")
    if not history.is_boundary(end):
        raise Violation("R21", f"{who} has {snapshot}, which ends in the middle of a batch")
    if epoch != history.epoch_before(end):
        raise Violation(
            "R21", f"{who} has {snapshot}, but the last epoch is {history.epoch_before(end)}"
        )


def _check_content(who: object, snapshot: Checkpoint, content: Content, history: History) -> None:
    wrong = history.contradiction(snapshot.end, content.values)
    if wrong is not None:
        raise Violation(wrong[0], f"{who} has {snapshot}, {wrong[1]}")
    expected = [(each.voters, each.target) for each in history.assigned_at(snapshot.end)[-1:]]
    assigned = content.assigned
    if ([] if assigned is None else [(assigned.voters, assigned.target)]) != expected:
        raise Violation("R21", f"{who} has {snapshot} with {assigned}, not {expected}")


def check_start(who: object, durable: DurableState, before: int) -> None:
    """Check that snapshots cover the deleted prefix of a log; it began at `before`."""
    ends = [each.end for each in durable.checkpoints.values() if each.end >= durable.start]
    if durable.start and not ends:
        raise Violation(
            "R21", f"{who} has a log from {durable.start} and no snapshot of earlier records"
        )
    if before < durable.start != durable.received_end and len(ends) < KEPT_MIN:
        raise Violation(
            "R21", f"{who} deletes its log below {durable.start}, but only snapshots {ends} remain"
        )


def check_names(who: object, names: Collection[str]) -> None:
    """Check that a power loss now would leave a log that continues from a snapshot.

    `names` are the durable names in the folder of the log.
    """
    # Offsets are zero-padded: the names sort by offset.
    start = int(min([each for each in names if each.endswith(".log")], default="0")[:20])
    if not start:
        return
    end = int(max([each for each in names if each.endswith(SUFFIX)], default="0")[:20])
    if end < start:
        raise Violation(
            "R21", f"{who} has a log from {start} and no durable snapshot of earlier records"
        )


def check_part(
    who: object, durable: DurableState, part: FetchSnapshotResponse, data: bytes
) -> None:
    """Check that a part of a snapshot about to be sent is durable on the sender's disk."""
    for each in durable.checkpoints.values():
        if (each.epoch, each.end) == (part.snapshot.epoch, part.snapshot.offset):
            end = part.position + len(data)
            if each.file.durable[part.position : end] != data or part.length != len(data):
                raise Violation("R21", f"{who} sends {part}, but its disk has other bytes")
            return
    raise Violation("R21", f"{who} sends {part}, which is not durable")
