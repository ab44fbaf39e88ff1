"""Compare our controllers with Kafka's for many partitions, with byte-identical requests.

Each round runs one step on both sides in sequence, each in its own cluster of three controllers and
alone on the machine, then the next step. The brokers are simulated: the client registers them and
sends their heartbeats. The table compares the medians and gives our targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench import machine
from bench.beside_others import facts, without_kafka
from bench.faults import RunFailed
from bench.isr_connection import check_patching
from bench.options import document_option, folder_option, only_option, side_option, workplace
from bench.partition_figures import FIGURES, SIDES
from bench.partition_steps import BROKER_IDS, STEPS, RunOptions
from bench.peers.figures import KAFKA, absences, table
from bench.report import Section
from bench.turns import measured, rounds_option, seconds_option

PARTITIONS: Final = 100_000
PARTITIONS_MIN: Final = 1_000
SECTION: Final = "partitions"


@dataclass(frozen=True, slots=True)
class Run:
    """The steps and sides to measure, and the number of rounds."""

    rounds: int
    options: RunOptions
    steps: Sequence[str]
    sides: Sequence[str]

    def __str__(self) -> str:
        words = [f"--rounds {self.rounds} --seconds {self.options.seconds:g}"]
        words += [f"--partitions {self.options.partitions}"] * (
            self.options.partitions != PARTITIONS
        )
        words += [f"--only {step}" for step in self.steps if len(self.steps) < len(STEPS)]
        words += [f"--side {side}" for side in self.sides if len(self.sides) < len(SIDES)]
        return f"python -m bench.partitions {' '.join(words)}"


@click.command()
@rounds_option
@seconds_option
@click.option(
    "--partitions",
    type=click.IntRange(PARTITIONS_MIN, PARTITIONS),
    default=PARTITIONS,
    show_default=True,
    help="Number of partitions to create, move and complete.",
)
@only_option(STEPS)
@side_option(SIDES)
@folder_option
@document_option
def command(
    rounds: int,
    seconds: float,
    partitions: int,
    only: tuple[str, ...],
    sides: tuple[str, ...],
    folder: Path | None,
    document: Path | None,
) -> None:
    """Compare our controllers with Kafka's for many partitions on this machine."""
    try:
        machine.check()
        check_patching()
        kafka, left_out = without_kafka(sides or SIDES)
        wanted = [side for side in sides or SIDES if side not in left_out]
        run = Run(rounds, RunOptions(partitions, seconds), only or tuple(STEPS), wanted)
        section = None if document is None else Section(document, SECTION)
        with workplace(folder) as (place, runner):
            known = facts(place, kafka)
            steps = {name: STEPS[name] for name in run.steps}
            values = runner.run(measured(place, rounds, steps, wanted, run.options))
    except* RunFailed as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    known["Partitions"] = f"{partitions:,}, each with 3 of {len(BROKER_IDS)} brokers"
    shown = table(values, left_out, figures=FIGURES, sides=SIDES, compared=(KAFKA,))
    click.echo(shown)
    if section is not None:
        section.write_run(str(run), {**known, **absences(left_out)}, shown)


if __name__ == "__main__":
    command()
