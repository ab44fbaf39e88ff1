"""The profiles that a user can name: the kind of run, and the faults of each."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from chaos.cluster.profile import ClusterProfile
from chaos.simulation.profile import (
    BETWEEN_TWO,
    BYTES_BETWEEN,
    CALM,
    NEARLY_CALM,
    NEEDS,
    ON_DISK,
    ON_THE_WIRE,
    Fault,
    Hostility,
    Profile,
    hostility_of,
    strikes_of,
)

OF_SNAPSHOTS: Final = frozenset({Fault.ROT_SNAPSHOT, Fault.STRAY_INTO_SNAPSHOT})
"""Faults that need snapshots every few records."""


@dataclass(frozen=True, slots=True)
class Focus:
    """The faults of a profile that has only some; the seed draws all else."""

    faults: tuple[Fault, ...]
    rates: tuple[str, ...] = ()
    """The background fault rates that stay."""


FOCUSES: Final[Mapping[str, Focus]] = MappingProxyType(
    {
        "calm": Focus(()),
        "network": Focus(
            (
                Fault.SPLIT,
                Fault.ISOLATE,
                Fault.DEAF,
                Fault.MUTE,
                Fault.RING,
                Fault.CLOG,
                Fault.RESET,
                Fault.MISLEAD,
                Fault.OUST,
            ),
            ("lost_requests", "lost_answers", "duplicates", "stragglers"),
        ),
        "bytes": Focus((*ON_THE_WIRE, Fault.FAULTY)),
        "crashes": Focus(
            (
                Fault.KILL,
                Fault.POWER,
                Fault.BLACKOUT,
                Fault.DIES_IN_TURN,
                Fault.DIES_IN_WRITING,
                Fault.DIES_IN_RECOVERY,
                Fault.PAUSE,
                Fault.STOP,
                Fault.ROLL,
            ),
            ("flush_ms_max", "report_ms_max"),
        ),
        "disks": Focus(
            (
                Fault.SLOW_DISK,
                Fault.FULL_DISK,
                Fault.FSYNC_FAILS,
                Fault.ROT,
                Fault.ROT_SNAPSHOT,
                Fault.MISDIRECTED,
                Fault.EXCHANGED,
                Fault.POWER,
                *ON_DISK,
            ),
            ("flush_ms_max", "report_ms_max"),
        ),
        "clocks": Focus(
            (Fault.CLOCK_JUMP, Fault.PAUSE), ("late_timers", "drift", "coarse_draws", "turn_ms_max")
        ),
        "voters": Focus(
            (Fault.ALTER, Fault.ADD, Fault.REMOVE, Fault.TRANSFER, Fault.ISOLATE, Fault.KILL),
            ("lost_requests", "flush_ms_max"),
        ),
    }
)


def drawn(seed: int, name: str) -> Profile:
    """The profile of this name and seed; with "everything", every other seed is a whole cluster.

    The profiles that are hostile have a hostile node in every run, the others in a few.
    """
    is_cluster = name in ("cluster", "hostile-cluster") or (name == "everything" and seed % 2 == 1)
    profile = ClusterProfile.drawn(seed) if is_cluster else Profile.drawn(seed)
    if name in ("hostile", "hostile-cluster"):
        return replace(profile, hostility=hostility_of(seed))
    if name in ("everything", "quorum", "cluster"):
        return profile
    return focused(profile, FOCUSES[name], random.Random(f"{seed}/{name}"))


def focused(profile: Profile, focus: Focus, rng: random.Random) -> Profile:
    """The profile with some of these faults in place of its own."""
    possible = [each for each in focus.faults if profile.voters >= NEEDS.get(each, 1)]
    if profile.replicas == 1:
        possible = [each for each in possible if each not in BETWEEN_TWO]
    if profile.snapshots.bytes_between > BYTES_BETWEEN[2]:
        possible = [each for each in possible if each not in OF_SNAPSHOTS]
    count = min(len(possible), rng.choice((1, 2, 3, len(focus.faults))))
    faults = tuple(sorted(rng.sample(possible, count), key=list(Fault).index))
    # Another object than CALM, which stands for the end of all faults.
    kept = {name: getattr(profile.rates, name) for name in focus.rates}
    rates = replace(CALM, **kept) if focus.rates else NEARLY_CALM
    return replace(
        profile,
        faults=faults,
        strikes=strikes_of(rng, faults, profile.replicas),
        rates=rates,
        hostility=Hostility.NONE,
    )
