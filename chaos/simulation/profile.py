"""The profile of a run: cluster size, limits, background fault rates and scheduled strikes.

A seed determines the profile. Each profile has few kinds of faults, and each of them often.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quorum.core.limits import Bounds, Timeouts
from quorum.core.vocabulary import HostPort
from quorum.snapshotting import SnapshotLimits


class Fault(StrEnum):
    """The kinds of faults, as they appear in the trace."""

    SPLIT = "the network falls into two parts"
    ISOLATE = "hears and reaches nobody"
    DEAF = "hears nobody"
    MUTE = "is heard by nobody"
    FLOOD = "whoever leads is asked for far more than fits"
    RING = "each hears and reaches only its neighbours in a ring"
    CLOG = "what it is sent and sends is held back, then comes in a burst"
    RESET = "its connections break"
    MISLEAD = "takes its leader for gone, most often wrongly"
    OUST = "the leader is cut off, and all others take it for gone at once"
    DEPART = "whoever stands next is cut off, and a voter no more when it comes back"
    HEAL = "the network is whole again"
    KILL = "its process dies"
    POWER = "it loses power"
    BLACKOUT = "power fails everywhere at once"
    DIES_IN_TURN = "dies between two effects"
    DIES_IN_WRITING = "dies or loses power between two operations of its disk"
    DIES_IN_RECOVERY = "loses power, and again while it starts"
    PAUSE = "stands still and wakes"
    STOP = "is stopped in good order"
    ROLL = "all are stopped and started, one after the other"
    UPGRADE = "all are stopped and started, one after the other, with a newer release"
    LOST_DISK = "its whole disk is lost"
    OLD_COPY = "comes back with an older copy of its disk"
    PAST = "comes back with an older copy of its disk, a clock that is behind, and often elsewhere"
    MISDIRECTED = "loses power, and its last write went to a wrong place in its log as well"
    EXCHANGED = "it and another one come back with each other's disks"
    ROT_SNAPSHOT = "a bit of its newest snapshot turns over, and then perhaps it loses power"
    SLOW_DISK = "its disk takes seconds"
    FULL_DISK = "its disk is full"
    FSYNC_FAILS = "its disk fails to keep what it was given"
    ROT = "loses power, and a bit of its log turns over"
    MOVE = "loses power, and comes back at another address"
    ALTER = "other voters are wanted"
    ADD = "is wanted as a voter, beside the others"
    REMOVE = "is wanted as a voter no more"
    TRANSFER = "is wanted as the leader"
    CLOCK_JUMP = "its time of day jumps"
    CUT_CALL = "a connection is reset in the middle of what it says"
    GARBLED = "what it says arrives as garbage"
    OVERSIZED = "what it says is longer than anything may be"
    FLIPPED = "a bit of the records that it sends turns over on the way"
    ASTRAY = "what it asks gets to another cluster"
    ROT_AT_END = "loses power, and a bit of the last batch of its log turns over"
    STRAY_INTO_VOTE = "loses power, and its last write went into its vote as well"
    STRAY_INTO_SNAPSHOT = "its last write went into a snapshot as well"
    STRAY_INTO_TIMES = "its last write went into its append times as well"
    FAULTY = "leads, and sends its followers what no leader can send"
    ASKED_FROM_ABROAD = "somebody of another cluster asks it what only replicas ask"


class Hostility(StrEnum):
    """The power of a hostile node, beside all faults."""

    NONE = "no hostile node"
    ANONYMOUS = "a hostile node, and no authentication"
    UNAUTHORIZED = "a hostile node that is not authorized"


HOSTILE_EVERY: Final = 18
HOSTILE_AT: Final = 10
"""One run in 18 has a hostile node. The remainder is one that no seed known for a fault has."""

FAULTY_EVERY: Final = 36
FAULTY_AT: Final = 35
"""One run in 36 has faulty leaders; the remainder is chosen like that of hostile nodes."""

ALWAYS: Final = (Fault.HEAL,)
ON_THE_WIRE: Final = (
    Fault.CUT_CALL,
    Fault.GARBLED,
    Fault.OVERSIZED,
    Fault.FLIPPED,
    Fault.ASTRAY,
    Fault.ASKED_FROM_ABROAD,
)
ON_DISK: Final = (
    Fault.ROT_AT_END,
    Fault.STRAY_INTO_VOTE,
    Fault.STRAY_INTO_SNAPSHOT,
    Fault.STRAY_INTO_TIMES,
)
APART: Final = (
    Fault.OUST,
    Fault.DEPART,
    Fault.OLD_COPY,
    Fault.PAST,
    Fault.FLOOD,
    Fault.UPGRADE,
    Fault.FAULTY,
    *ON_THE_WIRE,
    *ON_DISK,
)
"""Drawn separately."""
SOMETIMES: Final = tuple(each for each in Fault if each not in (*ALWAYS, *APART))
WISHES: Final = frozenset({Fault.ALTER, Fault.ADD, Fault.REMOVE, Fault.TRANSFER})
"""Faults that wait for a leader."""
EVERYWHERE: Final = frozenset(
    {
        Fault.HEAL,
        Fault.RING,
        Fault.BLACKOUT,
        Fault.ROLL,
        Fault.UPGRADE,
        Fault.ALTER,
        Fault.OUST,
        Fault.DEPART,
        Fault.FLOOD,
    }
)
"""Faults without a victim."""

BETWEEN_TWO: Final = frozenset(
    {
        Fault.SPLIT,
        Fault.ISOLATE,
        Fault.DEAF,
        Fault.MUTE,
        Fault.CLOG,
        Fault.RESET,
        Fault.MISLEAD,
        Fault.EXCHANGED,
    }
)
"""Faults that need two replicas; both may become voters."""
NEEDS: Final = {
    Fault.OUST: 3,
    Fault.DEPART: 3,
    Fault.RING: 4,
    Fault.LOST_DISK: 3,
    Fault.OLD_COPY: 3,
    Fault.PAST: 3,
    Fault.FAULTY: 2,
    Fault.CUT_CALL: 2,
    Fault.GARBLED: 2,
    Fault.OVERSIZED: 2,
    Fault.FLIPPED: 2,
    Fault.ASTRAY: 2,
    Fault.ASKED_FROM_ABROAD: 2,
    Fault.ROT_AT_END: 3,
}
"""The number of voters that a fault needs."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault of one run."""

    at_ms: int
    """After the beginning of the disturbed part of the run."""
    fault: Fault
    victim: int | None
    """The position of a replica in the list of all; None is the leader at that time."""
    size: int
    """Duration or intensity, from 0 to 999; its meaning depends on the fault."""

    def __str__(self) -> str:
        who = "" if self.fault in EVERYWHERE else f"{_who(self.victim)} "
        return f"{self.at_ms} ms: {who}{self.fault} ({self.size})"


def _who(victim: int | None) -> str:
    return "the leader" if victim is None else f"replica at place {victim}"


SLOW: Final = Timeouts()
QUICK: Final = Timeouts(
    election_timeout_ms=200, election_backoff_ms_max=200, fetch_timeout_ms=400, fetch_wait_ms=100
)

LITTLE: Final = Bounds(
    uncommitted_records=60,
    uncommitted_bytes=3_000,
    parked_fetches=12,
    observers=10,
    reads=40,
    voter_requests=4,
    transfer_askers=3,
)
"""The queue limits of a replica in runs with a flood of requests."""

BYTES_BETWEEN: Final = (400, 1_000, 2_000, 6_000, 1 << 30)
"""Bytes of records between two snapshots."""

LOST_AMONG_MAX: Final = 8
"""The largest number of kinds of faults in a run that loses disks: with more kinds, the remaining
replicas seldom elect a leader."""

OUSTED_AFTER_MS: Final = (4, 20)
"""The time from the removal of a leader to its isolation: too short to learn of the commit."""

DEPARTED_BEFORE_MS: Final = (1_500, 6_000)
"""The time from the last cut-off of a candidate to the end of the faults."""

FAULTS_MS: Final = 20_000
"""The duration of the faults."""
QUIET_MS: Final = 3_000
"""The length of a quiet window."""


VIP: Final = ("anybody", 9_000)
"""An address at which any one of the other running nodes answers."""
FOREIGN: Final = ("anybody-else", 9_000)
"""The address of a node of another cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Background fault rates while a run is disturbed: shares of messages, timers, draws."""

    lost_requests: float = 0.0
    lost_answers: float = 0.0
    duplicates: float = 0.0
    """Duplicate messages; the duplicate arrives up to some seconds later."""
    stragglers: float = 0.0
    """Messages that take up to some seconds, longer than every time-out."""
    late_timers: float = 0.0
    """Timers that fire up to 30 s late."""
    coarse_draws: bool = False
    """Nodes draw from a few times only: many become candidates at once and split the vote."""
    drift: float = 0.0
    """The largest error of the speed of a clock."""
    flush_ms_max: int = 2
    report_ms_max: int = 0
    """The longest delay of a disk's report to the replica."""
    turn_ms_max: int = 0
    """The longest time that a replica collects events before it takes a turn."""

    def __str__(self) -> str:
        wrong = {name: getattr(self, name) for name in self.__slots__}
        return ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in wrong.items() if value
        )


CALM: Final = Rates()
NEARLY_CALM: Final = Rates(flush_ms_max=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile of one run: everything that is drawn before it starts."""

    seed: int
    voters: int
    observers: int
    timeouts: Timeouts
    rates: Rates
    faults: tuple[Fault, ...]
    strikes: tuple[Strike, ...]
    segment_bytes: int
    fetch_bytes_max: int
    """The limit of one fetch: a follower gets a large log in slices."""
    snapshots: SnapshotLimits
    part_bytes_max: int
    """The limit of one snapshot fetch: a follower gets a snapshot in parts."""
    proposal_ms_max: int
    value_bytes_max: int
    hostility: Hostility = Hostility.NONE
    machine: str | None = None
    """The state machine of a user, as `package.module:Class`; None for our own."""

    @property
    def kind(self) -> str:
        """The kind of run."""
        return "quorum" if self.hostility is Hostility.NONE else "hostile"

    @property
    def is_mute(self) -> bool:
        """True if no replica echoes rounds of reads, like Kafka's replicas."""
        return self.seed % 4 == 1

    @property
    def asks_around(self) -> bool:
        """True if nodes know only the addresses of the bootstrap servers."""
        return self.seed % 3 == 1

    @property
    def names_cluster(self) -> bool:
        """True if nodes are configured with the cluster id; else the first leader makes one."""
        return self.seed % 5 < 3

    @property
    def is_visited(self) -> bool:
        """True if a node of another cluster sends requests and responses."""
        return self.names_cluster and self.seed % 2 == 0

    @property
    def is_late(self) -> bool:
        """True if the last observer starts later, when it could found a cluster of its own."""
        return self.observers > 0 and self.asks_around

    @property
    def bootstrap(self) -> tuple[HostPort, ...]:
        """The bootstrap servers."""
        moves = Fault.MOVE in self.faults or Fault.PAST in self.faults
        if not (self.asks_around or self.is_visited or moves):
            return ()
        return (VIP, FOREIGN) if self.is_visited else (VIP,)

    @property
    def bounds(self) -> Bounds:
        """The queue bounds of a replica: low where requests are many."""
        return LITTLE if Fault.FLOOD in self.faults else Bounds()

    @property
    def replicas(self) -> int:
        return self.voters + self.observers

    @classmethod
    def drawn(cls, seed: int, *, departs: bool = True) -> "Profile":
        """Return the profile of this seed; `departs` allows departures of voters."""
        rng = random.Random(f"{seed}/profile")
        voters = rng.choice((1, 2, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5))
        observers = rng.choice((0, 1, 1, 2))
        count = rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 8, len(SOMETIMES)))
        snapshots = _snapshots(random.Random(f"{seed}/snapshots"))
        kinds = [each for each in rng.sample(SOMETIMES, count) if voters >= NEEDS.get(each, 1)]
        if voters + observers == 1:
            kinds = [each for each in kinds if each not in BETWEEN_TWO]
        if snapshots.bytes_between > BYTES_BETWEEN[2]:
            kinds = [each for each in kinds if each is not Fault.ROT_SNAPSHOT]
        departing = random.Random(f"{seed}/departures")
        loses = Fault.LOST_DISK in kinds and len(kinds) <= LOST_AMONG_MAX
        departures = _departures(departing, voters) if departs and not loses else ()
        wire = _on_the_wire(random.Random(f"{seed}/wire"), voters, voters + observers)
        # Half of those have no other faults: any election brings the leader into a later epoch.
        calm = random.Random(f"{seed}/calm").randrange(2) == 0
        is_calm = bool(departures) and not wire and calm
        kinds = [] if is_calm else kinds
        if len(kinds) > LOST_AMONG_MAX or departures:
            kinds = [each for each in kinds if each is not Fault.LOST_DISK]
        elif Fault.LOST_DISK in kinds:
            # The next requested voter may be the one with the lost disk: the quorum would stop.
            kinds = [each for each in kinds if each not in WISHES]
        faults = _in_order(kinds)
        ousts = _ousts(random.Random(f"{seed}/ousts"), voters, Fault.LOST_DISK not in kinds)
        copies = _copies(random.Random(f"{seed}/copies"), voters, voters + observers)
        apart = [
            *ousts,
            *(() if copies else _past(random.Random(f"{seed}/past"), voters, voters + observers)),
            *copies,
            *_floods(random.Random(f"{seed}/floods")),
            *_faulty(random.Random(f"{seed}/faulty"), seed, voters),
            *_grows(random.Random(f"{seed}/grows"), voters, observers),
            *_on_disk(random.Random(f"{seed}/strays"), voters, voters + observers, snapshots),
            *wire,
        ]
        apart = [
            *departures,
            *_upgrade(random.Random(f"{seed}/upgrade"), departures),
            *(() if is_calm else apart),
        ]
        return cls(
            seed=seed,
            voters=voters,
            observers=observers,
            timeouts=rng.choice((SLOW, QUICK)),
            rates=NEARLY_CALM if is_calm else _rates(rng),
            faults=_in_order({*faults, *(each.fault for each in apart)}),
            strikes=_by_time([*strikes_of(rng, faults, voters + observers), *apart]),
            segment_bytes=rng.choice((400, 2_000, 1 << 20)),
            fetch_bytes_max=rng.choice((1, 500, 1 << 20)),
            snapshots=snapshots,
            part_bytes_max=random.Random(f"{seed}/parts").choice((50, 50, 200, 1_000)),
            proposal_ms_max=rng.choice((60, 250, 400, 1_000)),
            value_bytes_max=rng.choice((10, 10, 700)),
            hostility=hostility_of(seed) if seed % HOSTILE_EVERY == HOSTILE_AT else Hostility.NONE,
        )

    def __str__(self) -> str:
        kinds = "; ".join(self.faults) or "none"
        return (
            f"{self.voters} voters and {self.observers} observers, election time-out "
            f"{self.timeouts.election_timeout_ms} ms; segments of {self.segment_bytes} bytes, "
            f"fetches of {self.fetch_bytes_max}, snapshots every {self.snapshots.bytes_between} "
            f"in parts of {self.part_bytes_max}; always: {self.rates}; "
            f"{len(self.strikes)} strikes of these kinds: {kinds}; {self.hostility}"
        )


def hostility_of(seed: int) -> Hostility:
    """The power of the hostile node of a run, if it has one."""
    is_odd = (seed + seed // HOSTILE_EVERY) % 2 == 1
    return Hostility.UNAUTHORIZED if is_odd else Hostility.ANONYMOUS


def _snapshots(rng: random.Random) -> SnapshotLimits:
    return SnapshotLimits(
        bytes_between=rng.choice(BYTES_BETWEEN),
        interval_ms=rng.choice((0, 2_000)),
        retention_bytes=rng.choice((1, 2_000, 10_000)),
    )


def _rates(rng: random.Random) -> Rates:
    return Rates(
        lost_requests=rng.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        lost_answers=rng.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        duplicates=rng.choice((0.0, 0.0, 0.05, 0.2)),
        stragglers=rng.choice((0.0, 0.0, 0.02, 0.1, 0.4)),
        late_timers=rng.choice((0.0, 0.0, 0.0, 0.02)),
        coarse_draws=rng.random() < 0.3,
        drift=rng.choice((0.0, 0.0, 0.01, 0.2)),
        flush_ms_max=rng.choice((1, 5, 50, 400)),
        report_ms_max=rng.choice((0, 0, 3, 50)),
        turn_ms_max=rng.choice((0, 0, 1, 10)),
    )


def strikes_of(rng: random.Random, faults: tuple[Fault, ...], replicas: int) -> tuple[Strike, ...]:
    """Strikes of these kinds, each at least three times; none in a quiet window."""
    if not faults:
        return ()
    mean_ms = rng.choice((300, 800, 2_000))
    quiet = [rng.randrange(FAULTS_MS) for _ in range(rng.choice((0, 1, 2)))]
    kinds = [*faults, *faults, *faults]
    rng.shuffle(kinds)
    strikes: list[Strike] = []
    at_ms = 0
    while kinds or at_ms < FAULTS_MS:
        at_ms += rng.randrange(1, 2 * mean_ms)
        if any(start <= at_ms < start + QUIET_MS for start in quiet):
            continue
        fault = kinds.pop() if kinds else rng.choice((*ALWAYS, *faults))
        strikes.append(_strike(rng, at_ms, fault, replicas))
        if rng.randrange(3) == 0:
            strikes.append(_strike(rng, at_ms + rng.randrange(2_000), Fault.HEAL, replicas))
    return tuple(strikes)


def _ousts(rng: random.Random, voters: int, may_wish: bool) -> tuple[Strike, ...]:
    """In one run of four: leaders that are replaced without their knowledge, some right after
    removal."""
    if voters < NEEDS[Fault.OUST] or rng.randrange(4):
        return ()
    removes = may_wish and rng.randrange(2) == 0
    mean_ms = 4_000 if removes else rng.choice((1_000, 2_000))
    strikes: list[Strike] = []
    at_ms = 0
    while at_ms < FAULTS_MS:
        at_ms += rng.randrange(mean_ms // 2, mean_ms * 3 // 2)
        strikes.append(Strike(at_ms, Fault.OUST, None, rng.randrange(1_000)))
        if removes:
            # Of two voters, the remaining one leads alone, and the removed one does not know it.
            two = sum(1 << each for each in rng.sample(range(voters), 2))
            before_ms = rng.randrange(*OUSTED_AFTER_MS)
            strikes.append(Strike(at_ms - before_ms, Fault.REMOVE, None, 0))
            strikes.append(Strike(at_ms - mean_ms // 2, Fault.ALTER, None, two))
    return tuple(strikes)


def _departures(rng: random.Random, voters: int) -> tuple[Strike, ...]:
    """In one run of six: candidates that are cut off, removed, and made voters again."""
    if voters < NEEDS[Fault.DEPART] or rng.randrange(6):
        return ()
    strikes: list[Strike] = []
    at_ms = FAULTS_MS - rng.randrange(*DEPARTED_BEFORE_MS)
    while at_ms > 0:
        before_ms = rng.randrange(500, 2_000)
        strikes.append(Strike(at_ms, Fault.DEPART, None, rng.randrange(1_000)))
        strikes.append(Strike(max(0, at_ms - before_ms), Fault.ALTER, None, (1 << voters) - 1))
        at_ms -= rng.randrange(4_000, 8_000)
    return tuple(strikes)


def _copies(rng: random.Random, voters: int, replicas: int) -> tuple[Strike, ...]:
    """In one run of four: older copies of disks are restored, again and again."""
    if voters < NEEDS[Fault.OLD_COPY] or rng.randrange(4):
        return ()
    strikes: list[Strike] = []
    at_ms = 0
    while at_ms < FAULTS_MS:
        at_ms += rng.randrange(300, 2_000)
        strikes.append(_strike(rng, at_ms, Fault.OLD_COPY, replicas))
    return tuple(strikes)


def _past(rng: random.Random, voters: int, replicas: int) -> tuple[Strike, ...]:
    """In one run of six: older copies of disks are restored, and the clock goes back as well."""
    if voters < NEEDS[Fault.PAST] or rng.randrange(6):
        return ()
    times_ms = range(rng.randrange(300, 3_000), FAULTS_MS, rng.choice((1_000, 2_000)))
    return tuple(_strike(rng, each, Fault.PAST, replicas) for each in times_ms)


def _upgrade(rng: random.Random, departures: Sequence[Strike]) -> tuple[Strike, ...]:
    """In one run of six: all start with an older release and are upgraded one by one.

    In half of the runs in which voters depart, this happens while they are away: without pre-votes
    they run ahead by many epochs.
    """
    if departures and rng.randrange(2) == 0:
        after_ms = departures[0].at_ms + rng.randrange(300, 1_500)
        return (Strike(after_ms, Fault.UPGRADE, None, 0),)
    if rng.randrange(6):
        return ()
    return (Strike(rng.randrange(1_000, FAULTS_MS // 2), Fault.UPGRADE, None, 0),)


def _grows(rng: random.Random, voters: int, observers: int) -> tuple[Strike, ...]:
    """Strikes that add a voter and then cut it off, every other time that one replica founds the
    quorum."""
    if voters > 1 or observers == 0 or rng.randrange(2):
        return ()
    added_ms = rng.randrange(FAULTS_MS // 2)
    cut_ms = added_ms + rng.randrange(500, FAULTS_MS // 4)
    return (
        Strike(added_ms, Fault.ADD, 1, rng.randrange(1_000)),
        Strike(cut_ms, Fault.ISOLATE, None, rng.randrange(1_000)),
    )


def _floods(rng: random.Random) -> tuple[Strike, ...]:
    """In one run of six: leaders are overloaded, again and again."""
    if rng.randrange(6):
        return ()
    times_ms = [rng.randrange(FAULTS_MS) for _ in range(5)]
    return tuple(Strike(each, Fault.FLOOD, None, rng.randrange(1_000)) for each in times_ms)


def _faulty(rng: random.Random, seed: int, voters: int) -> tuple[Strike, ...]:
    """In one run of 36: leaders are faulty for a while, one after the other."""
    if voters < NEEDS[Fault.FAULTY] or seed % FAULTY_EVERY != FAULTY_AT:
        return ()
    every_ms = rng.choice((1_500, 4_500))
    times_ms = range(rng.randrange(every_ms), FAULTS_MS, every_ms)
    return tuple(Strike(each, Fault.FAULTY, None, rng.randrange(1_000)) for each in times_ms)


def _on_the_wire(rng: random.Random, voters: int, replicas: int) -> tuple[Strike, ...]:
    """In one run of four: the bytes of some calls are corrupted, in up to three ways."""
    if voters < NEEDS[Fault.CUT_CALL] or rng.randrange(4):
        return ()
    kinds = rng.sample(ON_THE_WIRE, rng.randrange(1, 4))
    times_ms = [rng.randrange(FAULTS_MS) for _ in range(24)]
    return tuple(_strike(rng, each, rng.choice(kinds), replicas) for each in times_ms)


def _on_disk(
    rng: random.Random, voters: int, replicas: int, snapshots: SnapshotLimits
) -> tuple[Strike, ...]:
    """In one run of five: log ends rot, or writes are misdirected."""
    chance, kinds = rng.randrange(5), rng.sample(ON_DISK, rng.randrange(1, 4))
    kinds = [each for each in kinds if voters >= NEEDS.get(each, 1)]
    if snapshots.bytes_between > BYTES_BETWEEN[2]:
        kinds = [each for each in kinds if each is not Fault.STRAY_INTO_SNAPSHOT]
    if chance or not kinds:
        return ()
    times_ms = [rng.randrange(FAULTS_MS) for _ in range(14)]
    return tuple(_strike(rng, each, rng.choice(kinds), replicas) for each in times_ms)


def _by_time(strikes: Sequence[Strike]) -> tuple[Strike, ...]:
    return tuple(sorted(strikes, key=lambda each: each.at_ms))


def _in_order(kinds: Collection[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(kinds, key=list(Fault).index))


def _strike(rng: random.Random, at_ms: int, fault: Fault, replicas: int) -> Strike:
    victim = None if rng.randrange(3) == 0 else rng.randrange(replicas)
    return Strike(at_ms, fault, victim, rng.randrange(1_000))
