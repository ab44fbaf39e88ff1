"""Measure the waits of others while a stranger attacks: `make bench-hostile`.

Three controllers and an embedded broker run without TLS, SASL and authorizer. One well-behaved
client commits, produces and asks by HTTP all the time, from another address than the attacker.
"""

import asyncio
import random
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import click
import msgspec

from admin.client.admin_client import AdminClient
from bench.faulty_leader import FaultyLeader
from bench.hostile_rows import FORGED_FETCHES, FORGING_SECONDS, ROWS, Place, Targets
from bench.options import folder_option, only_option, workplace
from chaos.fuzz.cluster import BROKER, Caller, FuzzedCluster, Loopback
from chaos.fuzz.judge import MIB, errors_in
from chaos.fuzz.run import until_up
from chaos.fuzz.witness import Witness
from chaos.processes.load import CLIENT_METRICS, NAME
from chaos.processes.network import Network
from quorum.transport.address import Address

FORGED_ANSWERS: Final = "Fetch answers of a faulty leader: half a snapshot id, a refused offer"
QUIET_SECONDS: Final = 3.0
"""The time without an attack, before each one."""
STILL_SECONDS: Final = 0.1
MOVING_SECONDS: Final = 0.4
FETCHES_MAX: Final = 500
"""The follower of a faulty leader fetches fewer times than this."""
RAW: Final = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""Bytes of a stranger that have no place in a log."""
PROSPECTIVE: Final = " is prospective "
HEAD: Final = (
    "| row | others waited at most (before it), ms | leader | memory, MiB | errors in logs |\n"
    "| --- | --- | --- | --- | --- |"
)


async def _attack(name: str, targets: Targets) -> None:
    """Attack in a process of its own."""
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


async def _forge_fetches(_: Witness, cluster: FuzzedCluster, targets: Targets) -> None:
    """Let the followers stand still again and again; nothing may be committed meanwhile."""
    leader, *followers = targets.ids
    attack = asyncio.get_running_loop().create_task(_attack(FORGED_FETCHES, targets))
    async with AdminClient([cluster.address_of(leader)], is_controller=True) as client:
        for number in count(1):
            await asyncio.sleep(MOVING_SECONDS)
            if attack.done():
                break
            cluster.nodes.pause(followers)
            try:
                commit = client.alter_configs(CLIENT_METRICS, "still", {NAME: f"n{number}"})
                waiting = asyncio.get_running_loop().create_task(commit)
                await asyncio.wait([waiting], timeout=STILL_SECONDS)
                if waiting.done():
                    click.echo("PROBLEM: a commit without a follower", err=True)
            finally:
                cluster.nodes.resume(followers)
            await waiting
    await attack


async def _forge_answers(_: Witness, cluster: FuzzedCluster, targets: Targets) -> None:
    """Let the leader be a faulty one for one follower."""
    assert isinstance(cluster.network, FaultyLeader)
    leader, follower = targets.ids[:2]
    before = cluster.network.forgeries
    with cluster.network.forging(leader, follower):
        await asyncio.sleep(FORGING_SECONDS)
    fetches = cluster.network.forgeries - before
    elections = cluster.nodes.said(follower).count(PROSPECTIVE)
    is_bounded = 0 < fetches < FETCHES_MAX and elections > 0
    click.echo(
        f"{'' if is_bounded else 'PROBLEM: '}the follower of a faulty leader fetched {fetches} "
        f"times and asked for pre-votes {elections} times in {FORGING_SECONDS:g} s",
        err=True,
    )


SPECIAL: Final = {FORGED_FETCHES: _forge_fetches, FORGED_ANSWERS: _forge_answers}
"""The rows in which more happens than what a client sends."""


async def _measure(name: str, witness: Witness, cluster: FuzzedCluster) -> str:
    """Return the line of one row."""
    targets = await _targets(witness, cluster)
    witness.take_probes()
    await asyncio.sleep(QUIET_SECONDS)
    before_ms = _longest_ms(witness)
    rss = {id: cluster.rss_bytes(id) for id in cluster.nodes.ids}
    said = {id: len(cluster.nodes.said(id)) for id in cluster.nodes.ids}
    if name in SPECIAL:
        await SPECIAL[name](witness, cluster, targets)
    else:
        await _attack(name, targets)
    longest_ms = _longest_ms(witness)
    after = await _targets(witness, cluster)
    is_same = (targets.ids[0], targets.epoch) == (after.ids[0], after.epoch)
    growth = max(cluster.rss_bytes(id) - rss[id] for id in rss) / MIB
    new = [cluster.nodes.said(id)[said[id] :] for id in said]
    errors = sum(len(errors_in(each)) + len(RAW.findall(each)) for each in new)
    leader = "the same" if is_same else "changed"
    return f"| {name} | {longest_ms:.0f} ({before_ms:.0f}) | {leader} | {growth:+.0f} | {errors} |"


async def _run(folder: Path, rows: Sequence[str], network: Callable[..., Network]) -> None:
    """Measure these rows on one cluster."""
    rng = random.Random(1)
    cluster = FuzzedCluster(folder, Caller.STRANGER, controllers=3, rng=rng, network=network)
    witness = Witness(cluster)
    try:
        await cluster.start()
        await until_up(cluster, witness)
        async with witness:
            for name in rows:
                click.echo(await _measure(name, witness, cluster))
        lost = await witness.read_back()
        cluster.nodes.check()
        for each in lost:
            click.echo(f"PROBLEM: {each}", err=True)
    finally:
        await witness.close()
        await cluster.nodes.close()
        await cluster.network.close()


@click.command()
@folder_option
@only_option((*ROWS, FORGED_ANSWERS))
def main(folder: Path | None, only: tuple[str, ...]) -> None:
    """Attack a cluster in the ways that once stopped it, and print how long others waited."""
    chosen = only or (*ROWS, FORGED_ANSWERS)
    click.echo(HEAD)
    with workplace(folder) as (place, runner):
        direct = [each for each in chosen if each != FORGED_ANSWERS]
        if direct:
            runner.run(_run(place / "cluster", direct, Loopback))
        if FORGED_ANSWERS in chosen:
            runner.run(_run(place / "proxied", [FORGED_ANSWERS], FaultyLeader))


if __name__ == "__main__":
    main()
