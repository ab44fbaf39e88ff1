"""Rounds in which every side has its turn: a step, in a cluster of its own, alone on the machine.

What the steps measure, and what is compared with what, is not known here.
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
"""The key of a figure and a value of it."""

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Step(Generic[W]):
    """A step, which does as it is wished, and those it is for."""

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
    help="Of each load, after a second of warm-up.",
)


async def measured(
    folder: Path, rounds: int, steps: Mapping[str, Step[W]], sides: Sequence[str], wish: W
) -> Measured:
    """Every value of these sides, in clusters that are made in `folder` and thrown away."""
    values: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for turn in range(rounds):
        for name, step in steps.items():
            for side in (each for each in step.sides if each in sides):
                click.echo(f"round {turn + 1} of {rounds}, {name}, {side}", err=True)
                home = folder / f"{side}-{name}-{turn}".lower()
                async for key, value in step.measure(side, home, wish):
                    values[side].setdefault(key, []).append(value)
                    click.echo(f"  {key}: {value:.4g}", err=True)
    return values
