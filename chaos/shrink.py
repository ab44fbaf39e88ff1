"""Shrinking of a failing run: fewer strikes and lower rates that fail in the same way.

Each strike is named by its place in the profile of its seed, so that the small run fits in one
command. The search is greedy and bounded: its result is small, not minimal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final, TypeVar

from chaos.simulation.profile import CALM, Profile, Rates

RUNS_MAX: Final = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a profile that is kept."""

    strikes: tuple[int, ...]
    """Positions in the profile's list of strikes."""
    rates: tuple[str, ...]
    """The names of the background fault rates that stay."""

    @classmethod
    def all_of(cls, profile: Profile) -> "Kept":
        """Keep all of the profile."""
        wrong = [each.name for each in fields(Rates) if _differs(profile.rates, each.name)]
        return cls(tuple(range(len(profile.strikes))), tuple(wrong))

    def of(self, profile: Profile) -> Profile:
        """Return the profile, reduced to these strikes and rates."""
        rates = replace(CALM, **{name: getattr(profile.rates, name) for name in self.rates})
        strikes = tuple(profile.strikes[each] for each in self.strikes)
        return replace(profile, strikes=strikes, rates=rates, faults=())

    def command(self, seed: int, kind: str = "quorum") -> str:
        """Return the command that repeats the run."""
        strikes, rates = ",".join(map(str, self.strikes)), ",".join(self.rates)
        option = "" if kind == "quorum" else f" --kind {kind}"
        return f"python -m chaos run --seed {seed}{option} --strikes '{strikes}' --rates '{rates}'"


def _differs(rates: Rates, name: str) -> bool:
    return bool(getattr(rates, name) != getattr(CALM, name))


def shrink(profile: Profile, fails: Callable[[Profile], bool]) -> Kept:
    """Return the smallest failing part that at most `RUNS_MAX` calls of `fails` found."""
    runs = 0

    def still(kept: Kept) -> bool:
        nonlocal runs
        runs += 1
        return runs <= RUNS_MAX and fails(kept.of(profile))

    kept = Kept.all_of(profile)
    while runs < RUNS_MAX:
        before = kept
        kept = Kept(_fewer(kept.strikes, partial(_with_strikes, kept, still)), kept.rates)
        kept = Kept(kept.strikes, _fewer(kept.rates, partial(_with_rates, kept, still)))
        if kept == before:
            break
    return kept


def _with_strikes(kept: Kept, still: Callable[[Kept], bool], strikes: tuple[int, ...]) -> bool:
    return still(Kept(strikes, kept.rates))


def _with_rates(kept: Kept, still: Callable[[Kept], bool], rates: tuple[str, ...]) -> bool:
    return still(Kept(kept.strikes, rates))


def _fewer(items: Sequence[T], still: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Drop ranges of items, long ranges first, while the run still fails."""
    left = tuple(items)
    length = len(left)
    while length >= 1:
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + length :]
            if still(fewer):
                left = fewer
            else:
                at += length
        length = length // 2
    return left
