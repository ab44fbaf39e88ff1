"""Shrinking of a failing run: less of everything that still breaks the same promise.

Strikes and background faults go first, then replicas and limits; then other seeds are tried with
the little that is left, and the shortest run is kept. The search is greedy and bounded: its result
is small, not minimal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

from chaos.cluster.profile import ClusterProfile
from chaos.simulation.profile import CALM, SLOW, Hostility, Profile, Rates
from quorum.snapshotting import SnapshotLimits

RUNS_MAX: Final = 200
RESEEDED: Final = 24
"""So many other seeds are tried."""
PLAIN_SEEDS: Final = range(15, 15 + 60 * RESEEDED, 60)
"""Seeds whose nodes know all addresses and the cluster, echo reads, and are not visited."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """The size of a failing run."""

    at_ms: int
    """The virtual time of the failure."""
    events: int


Try = Callable[[Profile], Failed | None]
"""Run a profile; return None unless it fails as the first one did."""


class Shrinking:
    """One search, bounded by its number of runs and by `is_late`."""

    def __init__(self, attempt: Try, is_late: Callable[[], bool] = lambda: False) -> None:
        self._attempt = attempt
        self._is_late = is_late
        self.runs = 0

    @property
    def is_over(self) -> bool:
        """True if there is no time left."""
        return self.runs >= RUNS_MAX or self._is_late()

    def smallest(self, profile: Profile, failed: Failed) -> Profile:
        """The smallest failing profile that was found."""
        soon = tuple(each for each in profile.strikes if each.at_ms <= failed.at_ms)
        short = replace(profile, strikes=soon)
        # Without kinds of faults nothing is struck again; some of them change the whole run.
        found = self._first_of(profile, [replace(short, faults=()), short])
        found = self._without_strikes(found)
        found = self._without_rates(found)
        for simpler in SIMPLER:
            found = self._first_of(found, [simpler(found)])
        found = self._with_another_seed(found, failed)
        return self._without_rates(self._without_strikes(self._sooner(found)))

    def _fails(self, profile: Profile) -> Failed | None:
        if self.is_over:
            return None
        self.runs += 1
        return self._attempt(profile)

    def _first_of(self, profile: Profile, others: Sequence[Profile]) -> Profile:
        """The first of the others that fails, else the profile."""
        tried = (each for each in others if each != profile)
        return next((each for each in tried if self._fails(each) is not None), profile)

    def _without_strikes(self, profile: Profile) -> Profile:
        left = _fewer(
            profile.strikes,
            lambda strikes: self._fails(replace(profile, strikes=strikes)) is not None,
        )
        return replace(profile, strikes=left)

    def _without_rates(self, profile: Profile) -> Profile:
        names = [each.name for each in fields(Rates) if _differs(profile.rates, each.name)]

        def with_rates(kept: Sequence[str]) -> Profile:
            rates = {name: getattr(profile.rates, name) for name in kept}
            return replace(profile, rates=replace(CALM, **rates))

        left = _fewer(names, lambda kept: self._fails(with_rates(kept)) is not None)
        return with_rates(left) if len(left) < len(names) else profile

    def _with_another_seed(self, profile: Profile, failed: Failed) -> Profile:
        """Of some other seeds, with and without the strikes, the one that fails with the fewest
        events."""
        least, found = failed.events, profile
        now = self._fails(profile)
        least = now.events if now is not None else least
        for seed in PLAIN_SEEDS:
            for strikes in dict.fromkeys([(), profile.strikes]):
                other = replace(profile, seed=seed, strikes=strikes)
                fails = self._fails(other)
                if fails is not None and fails.events < least:
                    least, found = fails.events, other
        return found

    def _sooner(self, profile: Profile) -> Profile:
        """The same with its strikes earlier."""
        for _ in range(4):
            strikes = tuple(replace(each, at_ms=each.at_ms // 2) for each in profile.strikes)
            sooner = self._first_of(profile, [replace(profile, strikes=strikes)])
            if sooner == profile:
                break
            profile = sooner
        return profile


def _differs(rates: Rates, name: str) -> bool:
    return bool(getattr(rates, name) != getattr(CALM, name))


SIMPLER: Final[tuple[Callable[[Profile], Profile], ...]] = (
    lambda p: replace(p, hostility=Hostility.NONE),
    lambda p: p if isinstance(p, ClusterProfile) else replace(p, observers=0),
    lambda p: replace(p, voters=min(p.voters, 3)),
    lambda p: replace(p, snapshots=SnapshotLimits(bytes_between=1 << 30)),
    lambda p: replace(p, segment_bytes=1 << 20),
    lambda p: replace(p, fetch_bytes_max=1 << 20),
    lambda p: replace(p, part_bytes_max=1 << 20),
    lambda p: replace(p, value_bytes_max=10),
    lambda p: replace(p, timeouts=SLOW),
)
"""Simpler profiles, tried one after the other."""


def _fewer(items: Sequence[T], still: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Drop ranges of items, long ranges first, while the run still fails."""
    left = tuple(items)
    for length in _lengths(len(left)):
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + length :]
            if still(fewer):
                left = fewer
            else:
                at += length
    return left


def _lengths(length: int) -> Iterator[int]:
    while length >= 1:
        yield length
        length //= 2
