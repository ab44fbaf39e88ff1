"""The time without commits after the leader is killed, with all of security on.

Every connection is TLS with SASL, every request is authorized, and changes are written to the audit
log. A cluster in PLAINTEXT takes turns with it, on one machine in one run.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import click

from bench import machine
from bench.faults import RunFailed
from bench.options import folder_option, workplace
from bench.peers import failover
from bench.peers.cluster import one_of
from bench.peers.ours import Ours, Secured

KILLS_MAX: Final = 100


async def measure(folder: Path, kind: Ours, kills: int) -> list[float]:
    """Return the outage of each kill, in seconds."""
    home = folder / kind.name.replace(", ", "-")
    home.mkdir()
    async with one_of(kind, home) as cluster:
        return [seconds async for seconds in failover.outages_by_kill(cluster, kills)]


async def measure_both(folder: Path, kills: int) -> list[tuple[str, list[float]]]:
    """Return the outages of each kind of cluster, by its name."""
    return [(kind.name, await measure(folder, kind, kills)) for kind in (Ours(), Secured())]


def line(name: str, outages: Sequence[float]) -> str:
    """Return one row of the table, in seconds."""
    return f"| {name} | {median(outages):.3f} | {min(outages):.3f} | {max(outages):.3f} |"


@click.command()
@click.option("--kills", type=click.IntRange(1, KILLS_MAX), default=20, show_default=True)
@folder_option
def command(kills: int, folder: Path | None) -> None:
    """Measure fail-overs with all of security on, beside those in PLAINTEXT."""
    try:
        machine.check()
        with workplace(folder) as (place, runner):
            found = runner.run(measure_both(place, kills))
    except* RunFailed as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo("| cluster | median, s | least, s | most, s |\n| --- | --- | --- | --- |")
    for name, outages in found:
        click.echo(line(name, outages))


if __name__ == "__main__":
    command()
