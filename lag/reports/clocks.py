"""The offsets between the clocks of replicas, as bounds that the logs prove.

A batch arrives at a follower after its leader appended it. The difference of the two times is the
delay, which is never negative, plus the lead of the follower's clock. So the smallest difference is
an upper bound of that lead, and a lower bound when the two change roles. Times are whole
milliseconds, which widens a bound by 1 ms. Bounds over a third replica add up. Plain values, no
Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.epochs import Leader, Span

ROUNDING_MS: Final = 1

Pair = tuple[str, str]
"""A replica, and the one that it is compared with."""


class Bounds(NamedTuple):
    """Bounds of the lead of a clock over another; None if unknown."""

    at_least_ms: int | None
    at_most_ms: int | None
    batches: int

    @property
    def contradict(self) -> bool:
        """True if no offset fits: one of the clocks was set meanwhile."""
        least, most = self.at_least_ms, self.at_most_ms
        return least is not None and most is not None and least > most

    @property
    def certain_ms(self) -> int:
        """The offset within the bounds nearest to 0, the part that is proven."""
        if self.contradict:
            return 0
        if self.at_least_ms is not None and self.at_least_ms > 0:
            return self.at_least_ms
        return min(0, 0 if self.at_most_ms is None else self.at_most_ms)


def bounds(spans: Iterable[Span], led: Mapping[int, Leader]) -> dict[Pair, Bounds]:
    """The bounds of each replica relative to each past leader, where there are any."""
    most: dict[Pair, int] = {}
    batches: dict[Pair, int] = {}
    for span in spans:
        leader = led.get(span.epoch)
        if leader is None or leader.replica is None or span.least_delay_ms is None:
            continue
        if leader.replica != span.replica:
            pair = (span.replica, leader.replica)
            bound = span.least_delay_ms + ROUNDING_MS
            most[pair] = min(bound, most.get(pair, bound))
            batches[pair] = batches.get(pair, 0) + span.timed
    shortest = dict(most)
    for (first, middle), bound in most.items():
        for (other, last), more in most.items():
            if other == middle and last != first:
                known = shortest.get((first, last), bound + more)
                shortest[(first, last)] = min(known, bound + more)
    have_led = {leader.replica for leader in led.values()}
    pairs = {*shortest, *((other, one) for one, other in shortest)}
    return {
        (one, other): Bounds(
            None if (other, one) not in shortest else -shortest[(other, one)],
            shortest.get((one, other)),
            batches.get((one, other), 0) + batches.get((other, one), 0),
        )
        for one, other in sorted(pairs)
        if other in have_led
    }


def clocks(found: Mapping[Pair, Bounds]) -> list[dict[str, Any]]:
    """The report `clocks`."""
    return [
        {
            "replica": replica,
            "relative_to": other,
            "at_least_ms": each.at_least_ms,
            "at_most_ms": each.at_most_ms,
            **_estimate(each),
            "batches": each.batches,
            "verdict": _verdict(each),
        }
        for (replica, other), each in found.items()
    ]


def _estimate(each: Bounds) -> dict[str, int | None]:
    least, most = each.at_least_ms, each.at_most_ms
    if least is None or most is None:
        return {"estimate_ms": most if least is None else least, "error_ms": None}
    error = None if each.contradict else -((least - most) // 2)
    return {"estimate_ms": (least + most) // 2, "error_ms": error}


def _verdict(each: Bounds) -> str:
    if each.contradict:
        return "stepped"
    if each.certain_ms:
        return "ahead" if each.certain_ms > 0 else "behind"
    return "one-sided" if None in (each.at_least_ms, each.at_most_ms) else "agree"


class EpochPart(NamedTuple):
    """The part of one epoch of the quorum's log that a replica holds."""

    replica: str
    epoch: int
    shared_end: int
    """The offset up to which the replica's log is the quorum's."""
    is_leader: bool
    clock_ms: int
    """The correction of the replica's clock to the leader's."""


def parts(
    spans: Sequence[Span],
    shared: Mapping[str, int],
    led: Mapping[int, Leader],
    clocks: Mapping[Pair, Bounds],
) -> dict[tuple[str, int], EpochPart]:
    """The parts of the quorum's log, by replica and epoch; `shared` is that of `QuorumLog`."""
    found = {}
    for span in spans:
        if span.first >= shared[span.replica]:
            continue
        leader = led.get(span.epoch)
        name = None if leader is None else leader.replica
        known = None if name is None else clocks.get((span.replica, name))
        found[(span.replica, span.epoch)] = EpochPart(
            span.replica,
            span.epoch,
            shared[span.replica],
            name == span.replica,
            0 if known is None else known.certain_ms,
        )
    return found
