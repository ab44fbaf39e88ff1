"""The schedule of faults for real processes, drawn round by round from one seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kinds of faults; the value is the name on the command line and in reports."""

    KILL_ONE = "kill-one"
    KILL_LEADER = "kill-leader"
    KILL_MAJORITY = "kill-majority"
    KILL_ALL = "kill-all"
    PAUSE_LEADER = "pause-leader"
    CUT_LEADER = "cut-leader"
    CUT_ONE = "cut-one"
    CUT_ONE_WAY = "cut-one-way"
    """Messages from one node to another are lost, in one direction only."""

    @property
    def cuts(self) -> bool:
        """True if it cuts links and does not touch processes."""
        return self in (Kind.CUT_LEADER, Kind.CUT_ONE, Kind.CUT_ONE_WAY)

    @property
    def kills(self) -> bool:
        """True if it ends processes."""
        return not self.cuts and self is not Kind.PAUSE_LEADER

    @property
    def aims_at_the_leader(self) -> bool:
        return self in (Kind.KILL_LEADER, Kind.PAUSE_LEADER, Kind.CUT_LEADER)


Link = tuple[int, int]
"""Sender and receiver."""

KILLED_MS: Final = (200, 1_500)
"""The range of the minimum time for which a killed node stays down."""
SILENT_MS: Final = (200, 4_500)
"""The range of the minimum time for which a node is paused or a link is cut: too short for the
others to notice, or long enough for a new leader, so that a leader that continues alone is
detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The fault of one round: the processes to kill or pause, the links to cut, and the duration.

    It lasts at least `hold_ms`; if the rest has a majority, until a write has succeeded.
    """

    kind: Kind
    nodes: tuple[int, ...] = ()
    links: tuple[Link, ...] = ()
    hold_ms: int
    leaves_majority: bool

    def __str__(self) -> str:
        if self.kind is Kind.CUT_ONE_WAY:
            ((source, target),) = self.links
            return f"{self.kind} {source} to {target}"
        return f"{self.kind} {', '.join(map(str, self.nodes))}"


def schedule(kinds: Sequence[Kind], rng: random.Random) -> Iterator[Kind]:
    """An endless sequence of kinds: each once before any repeats, in an order drawn from the
    seed."""
    while True:
        yield from rng.sample(sorted(kinds), len(kinds))


def fault(kind: Kind, nodes: Sequence[int], leader: int, rng: random.Random) -> Fault:
    """A fault of this kind for these nodes, one of which leads."""
    chosen = _chosen(kind, sorted(nodes), leader, rng)
    links = _links(kind, chosen, sorted(nodes), rng)
    # With one link gone, three nodes still have a majority that hears each other.
    hurt = 0 if kind is Kind.CUT_ONE_WAY and len(nodes) > 2 else len(chosen)
    return Fault(
        kind=kind,
        nodes=chosen,
        links=links,
        hold_ms=rng.randrange(*(KILLED_MS if kind.kills else SILENT_MS)),
        leaves_majority=2 * (len(nodes) - hurt) > len(nodes),
    )


def _chosen(kind: Kind, nodes: Sequence[int], leader: int, rng: random.Random) -> tuple[int, ...]:
    if kind.aims_at_the_leader:
        return (leader,)
    if kind is Kind.KILL_ALL:
        return tuple(nodes)
    count = len(nodes) // 2 + 1 if kind is Kind.KILL_MAJORITY else 1
    return tuple(sorted(rng.sample(nodes, count)))


def _links(
    kind: Kind, chosen: Sequence[int], nodes: Sequence[int], rng: random.Random
) -> tuple[Link, ...]:
    if not kind.cuts:
        return ()
    (one,) = chosen
    others = [each for each in nodes if each != one]
    if kind is Kind.CUT_ONE_WAY:
        return ((one, rng.choice(others)),)
    return tuple(link for other in others for link in ((one, other), (other, one)))
