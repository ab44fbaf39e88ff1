"""Our controllers beside other replicated logs: etcd and PySyncObj, side by side, in turns.

In each round every side goes through the same step, one after the other, in a cluster of its own
and alone on the machine; then the next step. Medians are compared; the table says what ours must
reach. The clients are as cheap as we could make them for each protocol: AlterPartition by patched
frames for ours, Put by patched gRPC frames for etcd, calls inside the leader for PySyncObj.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench import machine
from bench.asker import check_patching
from bench.faults import RunFailed
from bench.options import document_option, folder_option, only_option, workplace
from bench.peers.figures import SIDES, Measured, described, table
from bench.peers.steps import STEPS, Wish
from bench.report import Section
from chaos.processes.network import NetworkFault

ROUNDS: Final = 3
ROUNDS_MAX: Final = 50
SECONDS: Final = 5.0
KILLS: Final = 7
KILLS_MAX: Final = 100
SECTION: Final = "beside-others"


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be measured: these steps, of these sides, in this many rounds."""

    rounds: int
    wish: Wish
    steps: Sequence[str]
    sides: Sequence[str]

    def __str__(self) -> str:
        words = [
            f"--rounds {self.rounds} --seconds {self.wish.seconds:g} --kills {self.wish.kills}"
        ]
        words += [f"--only {step}" for step in self.steps if len(self.steps) < len(STEPS)]
        words += [f"--side {side}" for side in self.sides if len(self.sides) < len(SIDES)]
        return f"python -m bench.beside_others {' '.join(words)}"


async def measure(folder: Path, run: Run) -> Measured:
    """Every value of every side, in clusters that are made in `folder` and thrown away."""
    values: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
    for turn in range(run.rounds):
        for name in run.steps:
            for side in STEPS[name].sides:
                if side not in run.sides:
                    continue
                click.echo(f"round {turn + 1} of {run.rounds}, {name}, {side}", err=True)
                home = folder / f"{side}-{name}-{turn}".lower()
                async for key, value in STEPS[name].measure(side, home, run.wish):
                    values[side].setdefault(key, []).append(value)
                    click.echo(f"  {key}: {value:.4g}", err=True)
    return values


def facts(folder: Path) -> dict[str, str]:
    """What a reader must know to compare."""
    p50_ms, p99_ms = machine.fdatasync_ms(folder)
    return {
        **machine.facts(),
        "fdatasync of 250 bytes": f"{p50_ms:.2f} ms median, {p99_ms:.2f} ms p99, before the run",
        "Values": "median, lowest and highest in parentheses",
    }


@click.command()
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=ROUNDS, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0.5, 600),
    default=SECONDS,
    show_default=True,
    help="Of each load, after a second of warm-up.",
)
@click.option(
    "--kills",
    type=click.IntRange(1, KILLS_MAX),
    default=KILLS,
    show_default=True,
    help="Leaders lost in each round.",
)
@only_option(STEPS)
@click.option(
    "--side",
    "sides",
    type=click.Choice(SIDES),
    multiple=True,
    help="This side alone; may be given again.",
)
@folder_option
@document_option
def command(
    rounds: int,
    seconds: float,
    kills: int,
    only: tuple[str, ...],
    sides: tuple[str, ...],
    folder: Path | None,
    document: Path | None,
) -> None:
    """Compare our controllers with other replicated logs on this machine."""
    run = Run(rounds, Wish(seconds, kills), only or tuple(STEPS), sides or SIDES)
    try:
        machine.check()
        check_patching()
        section = None if document is None else Section(document, SECTION)
        with workplace(folder) as (place, runner):
            known = facts(place)
            values = runner.run(measure(place, run))
    except* (RunFailed, NetworkFault) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(table(values))
    if section is not None:
        section.write(described(str(run), known, values))


if __name__ == "__main__":
    command()
