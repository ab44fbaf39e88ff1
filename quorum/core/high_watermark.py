"""The high watermark as one pure function."""

from collections.abc import Collection

from quorum.core.vocabulary import Offset


def high_watermark(
    durable_ends: Collection[Offset], *, epoch_start: Offset, current: Offset | None
) -> Offset | None:
    """The offset below which a majority of the voters has everything on disk, once it may count.

    `durable_ends` has one entry for each current voter. A majority is not enough right after an
    election: what an older epoch wrote may still be overwritten even where most voters hold it
    (Raft §5.4.2, figure 8). So nothing counts before a majority holds a record of the leader's
    own epoch, that is, before the majority's offset has passed `epoch_start`.

    Never below `current`.
    """
    assert durable_ends, "a quorum without voters commits nothing"
    falling = sorted(durable_ends, reverse=True)
    reached = falling[len(falling) // 2]
    if reached <= epoch_start:
        return current
    return reached if current is None else max(current, reached)
