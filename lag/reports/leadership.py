"""The terms of leaders, the gaps between them, and the reasons that they ended.

Times are those of the records, by the leader's clock. If a leader wrote nothing for a while before
its end, that time counts as part of the gap, so a gap is an upper bound. What a hole of the log may
hide is unknown: the end of an epoch, other epochs, the reason. Plain values, no Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lag.reports.clocks import EpochPart
from lag.reports.epochs import EpochSpan, Leader, Span
from lag.reports.holes import NONE, Holes, names
from lag.reports.offset_ranges import Range, holds
from lag.reports.quorum_log import Hole
from lag.source.runs import Run
from lag.units import show_span

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
    holes: Holes = NONE
    unread: Sequence[Run] = ()
    """Batches that are damaged, or in no certain place."""
    unknown: Mapping[str, Sequence[Range]] = MappingProxyType({})
    """For each replica the offsets that it lost, and that came to it at an unknown time."""
    unknown_ends: frozenset[str] = frozenset()
    """Replicas whose log ends with damage that may have been batches of a later epoch."""


def leadership(quorum: Mapping[int, EpochSpan], evidence: Evidence) -> list[dict[str, Any]]:
    """The report `leadership`."""
    found = []
    in_order = list(quorum.values())
    neighbours = zip([None, *in_order], in_order, [*in_order[1:], None], strict=False)
    for before, epoch, after in neighbours:
        assert epoch is not None
        leader = evidence.led.get(epoch.epoch)
        ended, facts, holes = _why(epoch, after, evidence)
        if after is not None and not epoch.ends_known:
            holes = [*evidence.holes.between(epoch.first, after.first), *holes]
        if before is not None and before.end < epoch.first:
            holes = [*evidence.holes.between(before.end, epoch.first), *holes]
        elif before is None and not epoch.begins_known:
            holes = [*evidence.holes.before(epoch.first), *holes]
        begun, over = epoch.begins_known, epoch.ends_known
        found.append(
            {
                "epoch": epoch.epoch,
                "leader": None if leader is None else leader.node_id,
                "start_offset": epoch.first if begun else None,
                "end_offset": epoch.end if over else None,
                "elected_at_ms": epoch.first_ms if begun else None,
                "last_append_ms": epoch.last_ms if over else None,
                "tenure_ms": epoch.last_ms - epoch.first_ms if begun and over else None,
                "elections_lost": _elections_lost(before, epoch),
                "gap_ms": _gap_ms(before, epoch, evidence),
                "voters": None if leader is None else leader.voters,
                "ended": ended,
                "facts": facts,
                "hole": names(holes),
            }
        )
    return found


def _elections_lost(before: EpochSpan | None, epoch: EpochSpan) -> int | None:
    """The epochs without a leader between two; None if there may have been others."""
    if before is None:
        return None
    lost = epoch.epoch - before.epoch - 1
    return lost if lost == 0 or before.end == epoch.first else None


def _gap_ms(before: EpochSpan | None, epoch: EpochSpan, evidence: Evidence) -> int | None:
    """From the last record of one leader to the first of the next, by the clock of the first."""
    if before is None or not (before.ends_known and epoch.begins_known):
        return None
    leader = evidence.led.get(epoch.epoch)
    name = None if leader is None else leader.replica
    part = None if name is None else evidence.known.get((name, before.epoch))
    ahead_ms = 0 if part is None else part.clock_ms
    return max(0, epoch.first_ms - ahead_ms - before.last_ms)


Why = tuple[str, str, list[Hole]]
"""The reason for the end of an epoch, the evidence, and the holes that may hide another reason."""


def _why(epoch: EpochSpan, after: EpochSpan | None, evidence: Evidence) -> Why:
    """The reason for the end of an epoch."""
    leader, holes = evidence.led.get(epoch.epoch), evidence.holes
    if after is None:
        # Holes behind it are behind the end of the report.
        inside = [hole for hole in holes.after(epoch.first) if hole.first <= epoch.end]
        hidden = inside if not epoch.ends_known else []
        return _hidden(hidden) if hidden else ("leading", "no later epoch is in the log", [])
    if leader is None:
        reason = "the log does not have the leader of the epoch"
        return "unknown", reason, [] if epoch.begins_known else holes.before(epoch.first)[-1:]
    inside = holes.between(epoch.first, after.first)
    if not after.begins_known or (inside and not _is_voter(leader, after, evidence)):
        return _hidden(inside)
    later = [
        hole
        for hole in holes.after(after.first)
        if holes.times(hole)[0] - after.first_ms <= RESTARTED_MS
    ]
    removed = None if inside else _removed(epoch, leader, evidence)
    found = removed or _restarted(epoch, after, leader, evidence)
    if found is not None:
        return (*found, [])
    if later:
        return _hidden(later)
    unknown = ("unknown", "neither voters, nor registrations, nor append times show the reason")
    return (*(_seen_again(epoch, after, leader, evidence) or unknown), [])


def _hidden(holes: list[Hole]) -> Why:
    return "unknown", f"offsets {names(holes)} are in no copy, and may hold the reason", holes


def _is_voter(leader: Leader, after: EpochSpan, evidence: Evidence) -> bool:
    """True if the next leader says that this one is a voter, so that it was not removed."""
    following = evidence.led.get(after.epoch)
    return following is not None and leader.node_id in (following.voters or ())


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
            when = f"{show_span(abs(later_ms))} {'before' if later_ms < 0 else 'after'}"
            said = f"it registered anew at offset {each.offset}, {when} the next leader began"
            return "restarted", said
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
    name = leader.replica
    if not later:
        is_unread = any(run.replica == name and run.epoch > epoch.epoch for run in evidence.unread)
        if is_unread or name in evidence.unknown_ends:
            return None
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
    is_lost = name is not None and holds(evidence.unknown.get(name, ()), after.first)
    if later_ms > FOLLOWED_MS and is_lost:
        return None
    if later_ms > FOLLOWED_MS:
        return "away", f"its own log goes on {show_span(later_ms)} after the next leader began"
    lived = f"it lived: it had the next leader's first record {show_span(later_ms)} later"
    return "followed", lived


def registrations(rows: Iterable[Mapping[str, Any]]) -> list[Registration]:
    """The registrations of controllers, from records with their fields in `said`."""
    return [
        Registration(row["said"]["controllerId"], row["offset"], row["epoch"], row["append_ms"])
        for row in rows
        if row["type"] == "RegisterControllerRecord" and "controllerId" in row["said"]
    ]
