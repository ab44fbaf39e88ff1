"""The terms of leaders, the gaps between them, and the reasons that they ended.

Times are those of the records, by the leader's clock. If a leader wrote nothing for a while before
its end, that time counts as part of the gap, so a gap is an upper bound. Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.clocks import EpochPart
from lag.reports.epochs import EpochSpan, Leader, Span

FOLLOWED_MS: Final = 2_000
"""A leader that appends records of the next epoch this soon was alive: a fetch timeout."""
RESTARTED_MS: Final = 60_000
"""A leader that registers again this soon after the next one began was not alive."""


class Registration(NamedTuple):
    """The registration of a controller at its start."""

    controller_id: int
    offset: int
    epoch: int
    append_ms: int


class Evidence(NamedTuple):
    """The evidence for the end of an epoch, from the quorum's log and each replica."""

    led: Mapping[int, Leader]
    assignments: Sequence[Mapping[str, Any]]
    registrations: Sequence[Registration]
    spans: Sequence[Span]
    known: Mapping[tuple[str, int], EpochPart]


def leadership(quorum: Mapping[int, EpochSpan], evidence: Evidence) -> list[dict[str, Any]]:
    """The report `leadership`."""
    found = []
    in_order = list(quorum.values())
    neighbours = zip([None, *in_order], in_order, [*in_order[1:], None], strict=False)
    for before, epoch, after in neighbours:
        assert epoch is not None
        leader = evidence.led.get(epoch.epoch)
        ended, facts = _why(epoch, after, evidence)
        found.append(
            {
                "epoch": epoch.epoch,
                "leader": None if leader is None else leader.node_id,
                "start_offset": epoch.first,
                "end_offset": epoch.end,
                "elected_at_ms": epoch.first_ms,
                "last_append_ms": epoch.last_ms,
                "tenure_ms": epoch.last_ms - epoch.first_ms,
                "elections_lost": None if before is None else epoch.epoch - before.epoch - 1,
                "gap_ms": None if before is None else _gap_ms(before, epoch, evidence),
                "voters": None if leader is None else leader.voters,
                "ended": ended,
                "facts": facts,
            }
        )
    return found


def _gap_ms(before: EpochSpan, epoch: EpochSpan, evidence: Evidence) -> int:
    """From the last record of one leader to the first of the next, by the clock of the first."""
    leader = evidence.led.get(epoch.epoch)
    name = None if leader is None else leader.replica
    part = None if name is None else evidence.known.get((name, before.epoch))
    ahead_ms = 0 if part is None else part.clock_ms
    return max(0, epoch.first_ms - ahead_ms - before.last_ms)


def _why(epoch: EpochSpan, after: EpochSpan | None, evidence: Evidence) -> tuple[str, str]:
    """The reason for the end of an epoch, and the evidence."""
    leader = evidence.led.get(epoch.epoch)
    if after is None:
        return "leading", "no later epoch is in the log"
    if leader is None:
        return "unknown", "the log does not have the leader of the epoch"
    return (
        _removed(epoch, leader, evidence)
        or _restarted(epoch, after, leader, evidence)
        or _seen_again(epoch, after, leader, evidence)
        or ("unknown", "neither voters, nor registrations, nor append times show the reason")
    )


def _removed(epoch: EpochSpan, leader: Leader, evidence: Evidence) -> tuple[str, str] | None:
    """The evidence that the leader is not among the last voters that it wrote, or None."""
    own = [row for row in evidence.assignments if row["epoch"] == epoch.epoch]
    last = max(own, key=lambda row: int(row["offset"]), default=None)
    if last is None or str(leader.node_id) in {each.split("@")[0] for each in last["current"]}:
        return None
    return "removed", f"the voters at offset {last['offset']} are without it"


def _restarted(
    epoch: EpochSpan, after: EpochSpan, leader: Leader, evidence: Evidence
) -> tuple[str, str] | None:
    """The evidence that the leader registered again soon after, as a starting controller does, or
    None."""
    for each in sorted(evidence.registrations, key=lambda each: each.offset):
        is_later = each.epoch > epoch.epoch and each.controller_id == leader.node_id
        later_ms = each.append_ms - after.first_ms
        if is_later and later_ms <= RESTARTED_MS:
            said = (
                f"it registered anew at offset {each.offset}, {later_ms} ms after the next leader"
            )
            return "restarted", f"{said} began"
    return None


def _seen_again(
    epoch: EpochSpan, after: EpochSpan, leader: Leader, evidence: Evidence
) -> tuple[str, str] | None:
    """The evidence in the leader's own log, if it has append times."""
    own = [span for span in evidence.spans if span.replica == leader.replica]
    if not any(span.timed for span in own):
        return None
    later = [
        (span, evidence.known[key])
        for span in own
        if span.epoch > epoch.epoch and (key := (span.replica, span.epoch)) in evidence.known
    ]
    if not later:
        return "gone", "its own log holds nothing of later epochs"
    times = [
        span.first_ms if part.is_leader else span.first_here_ms - part.clock_ms
        for span, part in later
        if span.first_here_ms is not None
    ]
    if not times:
        # Its log continues, but this part of its index is lost.
        return None
    later_ms = max(0, min(times) - after.first_ms)
    if later_ms > FOLLOWED_MS:
        return "away", f"its own log goes on {later_ms} ms after the next leader began"
    return "followed", f"it lived: it had the next leader's first record {later_ms} ms later"


def registrations(rows: Iterable[Mapping[str, Any]]) -> list[Registration]:
    """The registrations of controllers, from records with their fields in `said`."""
    return [
        Registration(row["said"]["controllerId"], row["offset"], row["epoch"], row["append_ms"])
        for row in rows
        if row["type"] == "RegisterControllerRecord" and "controllerId" in row["said"]
    ]
