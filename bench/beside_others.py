"""Compare our controllers with other replicated logs: etcd, Kafka's controllers and PySyncObj.

Each round runs one step on every side in sequence, each in its own cluster and alone on the
machine, then the next step. The table compares the medians and gives our targets. For each protocol
the client uses as little processor time as possible: patched AlterPartition frames for our
controllers and Kafka's, patched gRPC frames with a Put for etcd, calls inside the leader for
PySyncObj.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from admin.tools.kafka_runtime import Runtime, Unavailable, find_runtime
from bench import machine
from bench.faults import RunFailed
from bench.isr_connection import check_patching
from bench.options import document_option, folder_option, only_option, side_option, workplace
from bench.peers import downloads
from bench.peers.figures import KAFKA, SIDES, absences, table
from bench.peers.steps import STEPS, RunOptions
from bench.report import Section
from bench.rivals import version_of
from bench.turns import measured, rounds_option, seconds_option
from chaos.processes.network import NetworkFault

KILLS: Final = 20
KILLS_MAX: Final = 100
SECTION: Final = "beside-others"


@dataclass(frozen=True, slots=True)
class Run:
    """The steps and sides to measure, and the number of rounds."""

    rounds: int
    seconds: float
    kills: int
    """The number of kills in all rounds together."""
    steps: Sequence[str]
    sides: Sequence[str]

    @property
    def options(self) -> RunOptions:
        """The options of each round."""
        return RunOptions(self.seconds, math.ceil(self.kills / self.rounds))

    def __str__(self) -> str:
        words = [f"--rounds {self.rounds} --seconds {self.seconds:g} --kills {self.kills}"]
        words += [f"--only {step}" for step in self.steps if len(self.steps) < len(STEPS)]
        words += [f"--side {side}" for side in self.sides if len(self.sides) < len(SIDES)]
        return f"python -m bench.beside_others {' '.join(words)}"


def facts(folder: Path, kafka: Runtime | None) -> dict[str, str]:
    """The facts that a reader needs to compare the figures, including `kafka` if it is measured."""
    p50_ms, p99_ms = machine.fdatasync_ms(folder)
    java = {} if kafka is None else {"Java": version_of(kafka.java)}
    return {
        **machine.facts(),
        **java,
        "fdatasync of 250 bytes": f"{p50_ms:.2f} ms median, {p99_ms:.2f} ms p99, before the run",
        "Values": "median, lowest and highest in parentheses; of a fail-over, of how many",
    }


def without_kafka(sides: Sequence[str]) -> tuple[Runtime | None, dict[str, str]]:
    """The programs that run Kafka, or the reason that it is left out."""
    if KAFKA not in sides:
        return None, {}
    try:
        return find_runtime(downloads.KAFKA, click.echo), {}
    except Unavailable as error:
        click.echo(f"{KAFKA} is left out: {error.lacks}", err=True)
        return None, {KAFKA: error.lacks}


@click.command()
@rounds_option
@seconds_option
@click.option(
    "--kills",
    type=click.IntRange(1, KILLS_MAX),
    default=KILLS,
    show_default=True,
    help="Kills of our leader, in all rounds together; other leaders are killed less often.",
)
@only_option(STEPS)
@side_option(SIDES)
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
    try:
        machine.check()
        check_patching()
        kafka, left_out = without_kafka(sides or SIDES)
        wanted = [side for side in sides or SIDES if side not in left_out]
        run = Run(rounds, seconds, kills, only or tuple(STEPS), wanted)
        section = None if document is None else Section(document, SECTION)
        with workplace(folder) as (place, runner):
            known = facts(place, kafka)
            steps = {name: STEPS[name] for name in run.steps}
            values = runner.run(measured(place, rounds, steps, wanted, run.options))
    except* (RunFailed, NetworkFault) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(table(values, left_out))
    if section is not None:
        section.write_run(str(run), {**known, **absences(left_out)}, table(values, left_out))


if __name__ == "__main__":
    command()
