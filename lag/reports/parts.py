"""Which batches of a replica are part of the quorum's log, and by what clock it has them.

Plain values, no Spark.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lag.reports.clocks import Bounds, Pair
from lag.reports.epochs import EpochSpan, Leader, Span


class Part(NamedTuple):
    """What the batches of one replica and epoch are."""

    replica: str
    epoch: int
    epoch_end: int
    """Where that epoch ends in the quorum's log."""
    is_leader: bool
    clock_ms: int
    """What is taken out of the replica's clock, to have the leader's."""


def parts(
    spans: Sequence[Span],
    quorum: Mapping[int, EpochSpan],
    led: Mapping[int, Leader],
    clocks: Mapping[Pair, Bounds],
) -> dict[tuple[str, int], Part]:
    """Of what replicas and epochs there is any of the quorum's log."""
    found = {}
    for span in spans:
        if span.epoch not in quorum:
            continue
        leader = led.get(span.epoch)
        name = None if leader is None else leader.replica
        known = None if name is None else clocks.get((span.replica, name))
        found[(span.replica, span.epoch)] = Part(
            span.replica,
            span.epoch,
            quorum[span.epoch].end,
            name == span.replica,
            0 if known is None else known.certain_ms,
        )
    return found
