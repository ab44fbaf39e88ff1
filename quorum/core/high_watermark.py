"""The high watermark as one pure function."""

from collections.abc import Collection

from quorum.core.vocabulary import Offset


def high_watermark(
    durable_ends: Collection[Offset], *, epoch_start: Offset, current: Offset | None
) -> Offset | None:
    """Return the new high watermark, never below `current`; None if nothing is committed yet.

    `durable_ends` has one entry for each current voter; a majority has everything on disk below
    the result. Right after an election that is not enough: records of an older epoch may still be
    overwritten although most voters hold them (Raft §5.4.2, figure 8). So the high watermark stays
    until a majority holds a record of the leader's own epoch, that is, has passed `epoch_start`.
    """
    assert durable_ends, "a quorum without voters commits nothing"
    falling = sorted(durable_ends, reverse=True)
    reached = falling[len(falling) // 2]
    if reached <= epoch_start:
        return current
    return reached if current is None else max(current, reached)
