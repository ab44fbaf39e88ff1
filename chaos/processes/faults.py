"""The schedule of faults for real processes, drawn round by round from one seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kinds of faults; the value is the name on the command line and in reports."""

    KILL_ONE = "kill-one"
    KILL_LEADER = "kill-leader"
    KILL_MAJORITY = "kill-majority"
    KILL_ALL = "kill-all"
    KILL_AT_POINT = "kill-at-point"
    """A node is killed at a named point of its code (`chaos.processes.kill_points`)."""
    PAUSE_LEADER = "pause-leader"
    CUT_LEADER = "cut-leader"
    CUT_ONE = "cut-one"
    CUT_ONE_WAY = "cut-one-way"
    """Messages from one node to another are lost, in one direction only."""
    DEAF_LEADER = "deaf-leader"
    """Nothing that other nodes send reaches the leader."""
    MUTE_LEADER = "mute-leader"
    """Nothing that the leader sends reaches other nodes."""
    DELAY = "delay"
    """Everything between nodes arrives late."""
    LOSS = "loss"
    """Packets between nodes are lost."""
    ROLLING_RESTART = "rolling-restart"
    """All nodes are stopped in order and started again, one after the other."""
    CHANGE_VOTERS = "change-voters"
    """A node is removed from the voters, and added again."""
    WIPE_ONE = "wipe-one"
    """A node loses its disk, and becomes a voter again as another directory."""
    DAMAGE_ONE = "damage-one"
    """A byte of a file of a stopped node changes. It starts, or refuses to and is wiped."""
    JUMP_CLOCK = "jump-clock"
    """The time of day of a node jumps."""
    SLOW_DISK = "slow-disk"
    """Every fsync of a node takes long."""
    FULL_DISK = "full-disk"
    """Writes of a node fail: no space left on the device."""
    FAILING_DISK = "failing-disk"
    """Each fsync of a node fails: input/output error."""

    @property
    def cuts(self) -> bool:
        """True if it cuts links and does not touch processes."""
        return self in _CUTS

    @property
    def kills(self) -> bool:
        """True if it ends processes at once."""
        return self in _KILLS

    @property
    def aims_at_the_leader(self) -> bool:
        return self in _AT_THE_LEADER

    @property
    def impairs(self) -> bool:
        """True if links stay, but become worse."""
        return self in (Kind.DELAY, Kind.LOSS)

    @property
    def is_of_disk(self) -> bool:
        """True if the operations of a disk are slow or fail."""
        return self in (Kind.SLOW_DISK, Kind.FULL_DISK, Kind.FAILING_DISK)

    @property
    def needs_preload(self) -> bool:
        """True if a library in the node carries it out (`chaos.processes.preload`)."""
        return self.is_of_disk or self is Kind.JUMP_CLOCK

    @property
    def changes_voters(self) -> bool:
        """True if a node leaves the voters and comes back."""
        return self in (Kind.CHANGE_VOTERS, Kind.WIPE_ONE, Kind.DAMAGE_ONE)


_CUTS: Final = (
    *(Kind.CUT_LEADER, Kind.CUT_ONE, Kind.CUT_ONE_WAY),
    *(Kind.DEAF_LEADER, Kind.MUTE_LEADER),
)
_KILLS: Final = (
    *(Kind.KILL_ONE, Kind.KILL_LEADER, Kind.KILL_MAJORITY, Kind.KILL_ALL),
    *(Kind.KILL_AT_POINT, Kind.WIPE_ONE, Kind.DAMAGE_ONE),
)
_AT_THE_LEADER: Final = (
    *(Kind.KILL_LEADER, Kind.PAUSE_LEADER, Kind.CUT_LEADER),
    *(Kind.DEAF_LEADER, Kind.MUTE_LEADER),
)

Link = tuple[int, int]
"""Sender and receiver."""

THE_LEADER: Final = 0
"""Stands for the node that leads when the fault begins, in a schedule that is only shown."""

KILLED_MS: Final = (200, 1_500)
"""The range of the minimum time for which a killed node stays down."""
SILENT_MS: Final = (200, 4_500)
"""The range of the minimum time for which a node is paused or a link is cut: too short for the
others to notice, or long enough for a new leader, so that a leader that continues alone is
detected."""
DELAY_MS: Final = (20, 250)
LOSS_PERCENT: Final = (2, 30)
SLOW_FSYNC_MS: Final = (20, 300)
JUMPS_S: Final = (-86_400, -3_600, -30, 30, 3_600, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The fault of one round: its nodes, the links to cut, and the duration.

    It lasts at least `hold_ms`; if the rest has a majority, until a write has succeeded.
    """

    kind: Kind
    nodes: tuple[int, ...] = ()
    links: tuple[Link, ...] = ()
    hold_ms: int
    leaves_majority: bool
    amount: int = 0
    """The delay or the fsync in ms, the loss in percent, the jump in seconds; for a file or a
    point of the code a number that chooses it."""

    def __str__(self) -> str:
        if self.kind is Kind.CUT_ONE_WAY:
            ((source, target),) = self.links
            return f"{self.kind} {source} to {target}"
        if self.kind is Kind.ROLLING_RESTART:
            return str(self.kind)
        if self.kind.impairs:
            return f"{self.kind} {self.amount} {'ms' if self.kind is Kind.DELAY else '%'}"
        nodes = ", ".join("the leader" if each == THE_LEADER else str(each) for each in self.nodes)
        match self.kind:
            case Kind.SLOW_DISK:
                return f"{self.kind} {nodes}: fsync takes {self.amount} ms"
            case Kind.JUMP_CLOCK:
                return f"{self.kind} {nodes}: {self.amount:+} s"
            case _:
                return f"{self.kind} {nodes}"


def schedule(kinds: Sequence[Kind], rng: random.Random) -> Iterator[Kind]:
    """An endless sequence of kinds: each once before any repeats, in an order drawn from the
    seed."""
    while True:
        yield from rng.sample(sorted(kinds), len(kinds))


def fault(kind: Kind, nodes: Sequence[int], leader: int, rng: random.Random) -> Fault:
    """A fault of this kind for these nodes, one of which leads.

    What is drawn does not depend on the leader: with `THE_LEADER` in its place the rest is equal.
    """
    chosen = _chosen(kind, sorted(nodes), leader, rng)
    links = _links(kind, chosen, sorted(nodes), rng)
    # With one link gone, three nodes still have a majority that hears each other.
    hurt = 0 if _hurts_nobody(kind, nodes) else len(chosen)
    found = Fault(
        kind=kind,
        nodes=chosen,
        links=links,
        hold_ms=rng.randrange(*(KILLED_MS if kind.kills else SILENT_MS)),
        leaves_majority=2 * (len(nodes) - hurt) > len(nodes),
    )
    return replace(found, amount=_amount(kind, rng))


def planned(
    kinds: Sequence[Kind], nodes: Sequence[int], rounds: int, rng: random.Random
) -> Iterator[Fault]:
    """The faults of a seed as they are known before the run: the leader has no number yet."""
    coming = schedule(kinds, rng)
    for _ in range(rounds):
        yield fault(next(coming), nodes, THE_LEADER, rng)


def _hurts_nobody(kind: Kind, nodes: Sequence[int]) -> bool:
    if kind is Kind.CUT_ONE_WAY:
        return len(nodes) > 2
    return kind.impairs or kind in (Kind.JUMP_CLOCK, Kind.SLOW_DISK)


def _amount(kind: Kind, rng: random.Random) -> int:
    match kind:
        case Kind.DELAY:
            return rng.randrange(*DELAY_MS)
        case Kind.LOSS:
            return rng.randrange(*LOSS_PERCENT)
        case Kind.SLOW_DISK:
            return rng.randrange(*SLOW_FSYNC_MS)
        case Kind.JUMP_CLOCK:
            return rng.choice(JUMPS_S)
        case Kind.DAMAGE_ONE | Kind.KILL_AT_POINT:
            return rng.getrandbits(30)
        case _:
            return 0


def _chosen(kind: Kind, nodes: Sequence[int], leader: int, rng: random.Random) -> tuple[int, ...]:
    if kind.aims_at_the_leader:
        return (leader,)
    if kind is Kind.KILL_ALL or kind.impairs:
        return tuple(nodes)
    if kind is Kind.ROLLING_RESTART:
        # One of them is down at any time.
        return tuple(nodes[:1])
    number = len(nodes) // 2 + 1 if kind is Kind.KILL_MAJORITY else 1
    return tuple(sorted(rng.sample(nodes, number)))


def _links(
    kind: Kind, chosen: Sequence[int], nodes: Sequence[int], rng: random.Random
) -> tuple[Link, ...]:
    if not kind.cuts:
        return ()
    (one,) = chosen
    others = [each for each in nodes if each != one]
    match kind:
        case Kind.CUT_ONE_WAY:
            return ((one, rng.choice(others)),)
        case Kind.DEAF_LEADER:
            return tuple((other, one) for other in others)
        case Kind.MUTE_LEADER:
            return tuple((one, other) for other in others)
        case _:
            return tuple(link for other in others for link in ((one, other), (other, one)))
