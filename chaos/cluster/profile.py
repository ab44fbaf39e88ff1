"""The profile of a simulated cluster, drawn from random streams of its own."""

import random
from dataclasses import dataclass, fields, replace
from typing import Final

from chaos.simulation.profile import NEEDS, Fault, Hostility, Profile, Rates
from controller.event_queue import SLICE_US
from quorum.snapshotting import SnapshotLimits

FAULTS: Final = frozenset(
    {
        Fault.SPLIT,
        Fault.ISOLATE,
        Fault.DEAF,
        Fault.MUTE,
        Fault.CLOG,
        Fault.RESET,
        Fault.MISLEAD,
        Fault.OUST,
        Fault.HEAL,
        Fault.RING,
        Fault.KILL,
        Fault.POWER,
        Fault.BLACKOUT,
        Fault.DIES_IN_TURN,
        Fault.DIES_IN_WRITING,
        Fault.PAUSE,
        Fault.STOP,
        Fault.ROLL,
        Fault.SLOW_DISK,
        Fault.TRANSFER,
        Fault.CLOCK_JUMP,
        Fault.FAULTY,
    }
)
"""The quorum's faults that also strike a cluster. Damaged logs and voter changes are checked on a
quorum alone."""

KEPT: Final = "kept"
"""The topic whose partitions have a history; only one of its settings ever changes."""
MOVED: Final = "moved"
"""The topic whose partitions belong to moves and whose configuration changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of brokers and controllers, and the workload."""

    has_elr: bool
    """True if the cluster is founded with eligible leader replicas (KIP-966)."""
    min_isr: int
    """The default of topics."""
    session_timeout_ms: int
    heartbeat_interval_ms: int
    lag_ms_max: int
    partitions: int
    factor: int
    clients: int
    pause_ms_max: int
    """The longest pause between two requests of a client."""
    producers: int
    slice_us: int
    """The work of a controller in one slice; a change of a partition costs 20."""
    losses: int
    """The number of data losses at quiet moments."""
    has_delayed_isr_requests: bool
    """True if requests for a larger ISR are delayed until the joining broker has restarted."""
    sudden_losses: int
    """The number of data losses at any moment; nothing may depend on one broker then."""

    @property
    def replicas_min(self) -> int:
        """The smallest replication factor that clients ask for."""
        return 2 if self.sudden_losses else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProfile(Profile):
    """A profile of a quorum and of the cluster on top of it."""

    settings: Settings

    @property
    def kind(self) -> str:
        """See `Profile`."""
        return "cluster" if self.hostility is Hostility.NONE else "hostile-cluster"

    @property
    def is_late(self) -> bool:
        """Never: the last observer is a broker, which founds nothing."""
        return False

    @classmethod
    def drawn(cls, seed: int, *, departs: bool = False) -> "ClusterProfile":
        """The profile of this seed, always the same; no voter departs."""
        rng = random.Random(f"{seed}/cluster")
        base = Profile.drawn(seed, departs=departs)
        brokers = rng.choice((2, 3, 3, 3, 4, 5))
        voters = rng.choice((1, 3, 3, 3, 5))
        possible = {each for each in FAULTS if voters >= NEEDS.get(each, 1)}
        strikes = tuple(
            replace(each, victim=_victim(rng, each.victim, voters, brokers))
            for each in base.strikes
            if each.fault in possible
        )
        values = {each.name: getattr(base, each.name) for each in fields(Profile)}
        values |= {
            "voters": voters,
            "observers": brokers,
            "faults": tuple(each for each in base.faults if each in possible),
            "strikes": strikes,
            "rates": _rates(rng, base.rates),
            "segment_bytes": rng.choice((4_000, 1 << 20)),
            "snapshots": SnapshotLimits(
                bytes_between=rng.choice((4_000, 15_000, 1 << 30)),
                interval_ms=0,
                retention_bytes=10_000,
            ),
            "part_bytes_max": 4_000,
        }
        return cls(**values, settings=_settings(rng, brokers))


def _victim(rng: random.Random, victim: int | None, voters: int, brokers: int) -> int | None:
    return None if victim is None else rng.randrange(voters + brokers)


def _rates(rng: random.Random, rates: Rates) -> Rates:
    """Background fault rates, with fewer lost calls than in a quorum."""
    return replace(
        rates,
        lost_requests=rng.choice((0.0, 0.0, 0.02, 0.1)),
        lost_answers=rng.choice((0.0, 0.0, 0.02, 0.1)),
        stragglers=rng.choice((0.0, 0.0, 0.02, 0.1)),
        flush_ms_max=rng.choice((1, 5, 50)),
        report_ms_max=rng.choice((0, 0, 3)),
    )


def _settings(rng: random.Random, brokers: int) -> Settings:
    factor = min(brokers, rng.choice((2, 3, 3)))
    drawn = Settings(
        has_elr=rng.random() < 0.5,
        min_isr=rng.choice((1, min(2, factor))),
        session_timeout_ms=rng.choice((2_000, 9_000)),
        heartbeat_interval_ms=500,
        lag_ms_max=rng.choice((1_500, 10_000)),
        partitions=rng.choice((1, 2, 4)),
        factor=factor,
        clients=rng.choice((1, 2, 4)),
        pause_ms_max=rng.choice((200, 1_000)),
        producers=rng.choice((1, 1, 2)),
        slice_us=rng.choice((1, 30, 60, SLICE_US)),
        has_delayed_isr_requests=rng.random() < 0.25,
        losses=rng.choice((0, 0, 0, 2)),
        sudden_losses=rng.choice((0, 1, 2)),
    )
    if not drawn.has_elr or drawn.min_isr < 2 or drawn.has_delayed_isr_requests:
        drawn = replace(drawn, sudden_losses=0)
    # Short sessions: the next incarnation registers before the leader retries.
    return replace(drawn, session_timeout_ms=2_000) if drawn.has_delayed_isr_requests else drawn
