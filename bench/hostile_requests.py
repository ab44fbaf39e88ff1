"""Measure the waits of others while a stranger attacks: `make bench-hostile`.

Three controllers and an embedded broker run without TLS, SASL and authorizer. One well-behaved
client commits, produces and asks by HTTP all the time, from another address than the attacker.
"""

import asyncio
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.hostile_rows import ROWS, Place, Targets
from bench.options import folder_option, only_option, workplace
from chaos.fuzz.cluster import BROKER, Caller, FuzzedCluster
from chaos.fuzz.judge import MIB, errors_in
from chaos.fuzz.run import until_up
from chaos.fuzz.witness import Witness
from quorum.transport.address import Address

QUIET_SECONDS: Final = 3.0
"""The time without an attack, before each one."""
HEAD: Final = (
    "| row | others waited at most (before it), ms | leader | memory, MiB | errors in logs |\n"
    "| --- | --- | --- | --- | --- |"
)


async def _attack(name: str, targets: Targets) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.hostile_rows", name), stdin=PIPE
    )
    await process.communicate(msgspec.json.encode(targets))
    if process.returncode:
        raise click.ClickException(f"the attack {name!r} failed")


def _place(address: Address) -> Place:
    return address.host, address.port


async def _targets(witness: Witness, cluster: FuzzedCluster) -> Targets:
    quorum = await witness.client.describe_quorum()
    ids = sorted(cluster.controllers, key=lambda each: each != quorum.leader_id)
    return Targets(
        cluster_id=cluster.nodes.cluster_id,
        epoch=quorum.leader_epoch,
        ids=tuple(ids),
        controllers=tuple(map(_place, map(cluster.address_of, ids))),
        broker=_place(cluster.address_of(BROKER)),
        http=_place(cluster.http_of(ids[0])),
    )


def _longest_ms(witness: Witness) -> float:
    probes = witness.take_probes()
    failures = [failure for each in probes for failure in each.failures]
    if failures:
        click.echo(f"PROBLEM: {failures[0]}", err=True)
    return max(each.longest_ms for each in probes)


async def _measure(name: str, witness: Witness, cluster: FuzzedCluster) -> str:
    """Return the line of one row."""
    targets = await _targets(witness, cluster)
    witness.take_probes()
    await asyncio.sleep(QUIET_SECONDS)
    before_ms = _longest_ms(witness)
    rss = {id: cluster.rss_bytes(id) for id in cluster.nodes.ids}
    said = {id: len(cluster.nodes.said(id)) for id in cluster.nodes.ids}
    await _attack(name, targets)
    longest_ms = _longest_ms(witness)
    after = await _targets(witness, cluster)
    is_same = (targets.ids[0], targets.epoch) == (after.ids[0], after.epoch)
    growth = max(cluster.rss_bytes(id) - rss[id] for id in rss) / MIB
    errors = sum(len(errors_in(cluster.nodes.said(id)[said[id] :])) for id in said)
    leader = "the same" if is_same else "changed"
    return f"| {name} | {longest_ms:.0f} ({before_ms:.0f}) | {leader} | {growth:+.0f} | {errors} |"


async def _run(folder: Path, rows: Sequence[str]) -> None:
    cluster = FuzzedCluster(folder, Caller.STRANGER, controllers=3, rng=random.Random(1))
    witness = Witness(cluster)
    try:
        await cluster.start()
        await until_up(cluster, witness)
        click.echo(HEAD)
        async with witness:
            for name in rows:
                click.echo(await _measure(name, witness, cluster))
        lost = await witness.read_back()
        cluster.nodes.check()
        click.echo("\n".join(lost) or "\nNothing that others were promised is lost.")
    finally:
        await witness.close()
        await cluster.nodes.close()


@click.command()
@folder_option
@only_option(ROWS)
def main(folder: Path | None, only: tuple[str, ...]) -> None:
    """Attack a cluster in the ways that once stopped it, and print how long others waited."""
    with workplace(folder) as (place, runner):
        runner.run(_run(place / "cluster", only or tuple(ROWS)))


if __name__ == "__main__":
    main()
