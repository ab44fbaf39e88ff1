"""Run rounds: each step on every side in sequence, in a new cluster and alone on the machine.

This module does not depend on the steps or on the comparison of the sides.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import click

from bench.peers.figures import Measured

ROUNDS: Final = 3
ROUNDS_MAX: Final = 50
SECONDS: Final = 4.0

Found = AsyncIterator[tuple[str, float]]
"""The key of a figure and one of its values."""

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Step(Generic[W]):
    """A step: its function, and the sides that it measures."""

    measure: Callable[[str, Path, W], Found]
    sides: tuple[str, ...]


rounds_option = click.option(
    "--rounds", type=click.IntRange(1, ROUNDS_MAX), default=ROUNDS, show_default=True
)
seconds_option = click.option(
    "--seconds",
    type=click.FloatRange(0.5, 600),
    default=SECONDS,
    show_default=True,
    help="Duration of each load, after a second of warm-up.",
)


async def measured(
    folder: Path, rounds: int, steps: Mapping[str, Step[W]], sides: Sequence[str], options: W
) -> Measured:
    """Measure these sides in temporary clusters in `folder`; return every value."""
    values: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for turn in range(rounds):
        for name, step in steps.items():
            for side in (each for each in step.sides if each in sides):
                click.echo(f"round {turn + 1} of {rounds}, {name}, {side}", err=True)
                home = folder / f"{side}-{name}-{turn}".lower()
                async for key, value in step.measure(side, home, options):
                    values[side].setdefault(key, []).append(value)
                    click.echo(f"  {key}: {value:.4g}", err=True)
    return values
