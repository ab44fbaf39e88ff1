"""What may go wrong in one simulated run, drawn from its seed: few kinds at a time, but often."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quorum.core.limits import Timeouts
from quorum.core.vocabulary import ReplicaId

SLOW: Final = Timeouts()
QUICK: Final = Timeouts(
    election_timeout_ms=200, election_backoff_ms_max=200, fetch_timeout_ms=400, fetch_wait_ms=100
)


class CoarseRandom(random.Random):
    """Randomness of one node that can be made coarse, so that nodes often draw the same time."""

    coarse = False

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        drawn = super().randrange(start, stop, step)
        if not self.coarse or stop is not None:
            return drawn
        return drawn - drawn % max(1, start // 2)


class Fault(StrEnum):
    SPLIT = "the network falls into two parts"
    ISOLATE = "one replica hears and reaches nobody"
    ONE_WAY = "one replica is heard by nobody"
    HEAL = "the network is whole again"
    CRASH = "a process dies"
    POWER = "power fails everywhere at once"
    STOP = "a process is stopped in good order"
    SLOW_DISK = "one disk takes seconds to flush"
    ALTER = "other voters are wanted"


ALWAYS = (Fault.HEAL,)
SOMETIMES = tuple(each for each in Fault if each not in ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    voters: int
    timeouts: Timeouts
    loss: float
    """Share of packets that never arrive."""
    duplicates: float
    """Share of packets that arrive twice, the second time up to some seconds later."""
    stragglers: float
    """Share of packets that take up to some seconds."""
    late_timers: float
    """Share of timers that fire up to some seconds late."""
    coarse_draws: bool
    """Nodes draw one of two or three times only: many stand at once, and split the vote."""
    crashes_in_step: float
    """How often a process dies between two effects of a step."""
    flush_ms_max: int
    fault_ms_mean: int
    spares: int
    """Replicas that observe to begin with, and may come to vote."""
    propose_ms_max: int
    """While there are faults, records are proposed at random intervals up to this."""
    read_ms_max: int
    """Clients read at random intervals up to this."""
    mute: int
    """Voters with ids up to this leave the rounds of reads out of their fetches."""
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(cls, rng: random.Random) -> "Profile":
        kinds = rng.sample(SOMETIMES, rng.randrange(1, len(SOMETIMES) + 1))
        return cls(
            voters=rng.choice((2, 3, 3, 3, 4, 4, 5, 5, 5, 5)),
            timeouts=rng.choice((SLOW, QUICK)),
            loss=rng.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
            duplicates=rng.choice((0.0, 0.05, 0.2)),
            stragglers=rng.choice((0.0, 0.02, 0.1, 0.4)),
            late_timers=rng.choice((0.0, 0.0, 0.05)),
            coarse_draws=rng.random() < 0.4,
            crashes_in_step=rng.choice((0.0, 0.0, 0.001, 0.01)),
            flush_ms_max=rng.choice((1, 5, 50, 400)),
            fault_ms_mean=rng.choice((300, 800, 2_000)),
            spares=rng.choice((1, 2, 3)) if Fault.ALTER in kinds else 0,
            propose_ms_max=rng.choice((150, 150, 3_000)),
            read_ms_max=rng.choice((50, 300, 10_000)),
            mute=rng.choice((0, 0, 1, 5)),
            faults=(*ALWAYS, *sorted(kinds)),
        )

    def __str__(self) -> str:
        return (
            f"{self.voters} voters, election timeout {self.timeouts.election_timeout_ms} ms; "
            f"loss {self.loss}, duplicates {self.duplicates}, stragglers {self.stragglers}, "
            f"late timers {self.late_timers}, coarse draws {self.coarse_draws}, "
            f"crashes in a step {self.crashes_in_step}; flush up to {self.flush_ms_max} ms; "
            f"reads every {self.read_ms_max} ms or sooner, "
            f"voters up to {self.mute} do not echo; "
            f"every {self.fault_ms_mean} ms one of: {', '.join(self.faults)}"
        )


def links_cut(
    rng: random.Random, fault: Fault, victim: ReplicaId, everyone: Sequence[ReplicaId]
) -> set[tuple[ReplicaId, ReplicaId]]:
    """Which links of the network a fault of that kind cuts, each from one replica to another."""
    here = {victim}
    if fault is Fault.SPLIT:
        here.update(rng.sample(everyone, rng.randrange(len(everyone))))
    there = [each for each in everyone if each not in here]
    cuts = {(a, b) for a in here for b in there}
    return cuts if fault is Fault.ONE_WAY else cuts | {(b, a) for a, b in cuts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    trace_hash: str
    committed: int
    counts: Counter[str]
