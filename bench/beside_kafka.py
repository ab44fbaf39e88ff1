"""Compare our controllers with Kafka's, with the same Kafka brokers and the same clients.

Each round runs all steps on a cluster with three of our controllers, then on one with three of
Kafka's controllers. Each cluster has three brokers and runs alone on the machine. The table
compares the medians and gives the targets.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.tools.kafka_runtime import Runtime, Unavailable, find_runtime
from admin.tools.local_plan import LocalError, Wanted, settle
from bench import machine
from bench.faults import RunFailed
from bench.figures import table
from bench.options import document_option, folder_option, only_option, workplace
from bench.report import Section
from bench.rival_processes import RivalCluster
from bench.rivals import HEARTBEAT_MS, SESSION_MS, Rival, Side, version_of
from bench.rounds import STEPS, Subject

KAFKA: Final = "4.2.0"
ROUNDS: Final = 3
ROUNDS_MAX: Final = 50
SECTION: Final = "beside-kafka"

Values = dict[Side, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The steps to measure, and the number of rounds."""

    rounds: int
    steps: Sequence[str]

    def __str__(self) -> str:
        only = "" if len(self.steps) == len(STEPS) else "".join(f" --only {s}" for s in self.steps)
        return f"python -m bench.beside_kafka --rounds {self.rounds}{only}"


async def measure(folder: Path, options: RunOptions, runtime: Runtime) -> Values:
    """Measure both sides, in temporary clusters in `folder`; return every value."""
    values: Values = {side: {} for side in Side}
    for turn in range(options.rounds):
        for side in Side:
            rng = random.Random()
            home = folder / f"{side.name.lower()}-{turn}"
            plan = settle(home, Wanted(controllers=3, brokers=4, base_port=0), rng)
            rival = Rival(side=side, folder=home, plan=replace(plan, kafka=KAFKA), runtime=runtime)
            click.echo(f"round {turn + 1} of {options.rounds}, {side} controllers", err=True)
            async with RivalCluster(rival, rng) as cluster:
                await _round(cluster, options.steps, values[side])
    return values


async def _round(
    cluster: RivalCluster, steps: Sequence[str], values: dict[str, list[float]]
) -> None:
    async with AdminClient(cluster.listeners, is_controller=False) as admin:
        for name in (each for each in STEPS if each in steps):
            found = await STEPS[name](Subject(cluster, admin))
            for key, measured in found.items():
                values.setdefault(key, []).extend(measured)
                click.echo(f"  {key}: {', '.join(f'{each:.1f}' for each in measured)}", err=True)


def facts(folder: Path, runtime: Runtime) -> dict[str, str]:
    """The facts that a reader needs to compare the figures."""
    p50_ms, p99_ms = machine.fdatasync_ms(folder)
    return {
        **machine.facts(),
        "Java": version_of(runtime.java),
        "Kafka": f"{KAFKA}, brokers and controllers",
        "fdatasync of 250 bytes": f"{p50_ms:.2f} ms median, {p99_ms:.2f} ms p99, before the run",
        "Brokers": f"session of {SESSION_MS} ms, heartbeats every {HEARTBEAT_MS} ms",
        "Values": "median, lowest and highest in parentheses",
    }


@click.command()
@click.option(
    "--rounds",
    type=click.IntRange(1, ROUNDS_MAX),
    default=ROUNDS,
    show_default=True,
    help="Each is one cluster of ours and one of Kafka's.",
)
@only_option(STEPS)
@folder_option
@document_option
def command(rounds: int, only: tuple[str, ...], folder: Path | None, document: Path | None) -> None:
    """Compare our controllers with Kafka's on this machine."""
    options = RunOptions(rounds, only or tuple(STEPS))
    try:
        machine.check()
        section = None if document is None else Section(document, SECTION)
        runtime = find_runtime(KAFKA, click.echo)
        with workplace(folder) as (place, runner):
            known = facts(place, runtime)
            values = runner.run(measure(place, options, runtime))
    except* (RunFailed, LocalError, AdminError, NoResponse, Unavailable) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(table(values))
    if section is not None:
        section.write_run(str(options), known, table(values))


if __name__ == "__main__":
    command()
