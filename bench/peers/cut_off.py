"""Three nodes in network namespaces, so that a leader can be cut off without a word.

`outages` runs this module as a program in a network namespace of its own, which sees nothing of the
machine's network: what the nodes are made of must be there before. It prints an outage a line.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import click

from bench.faults import RunFailed
from bench.peers import downloads, failover
from bench.peers.cluster import NODES, Cluster, Kind
from bench.peers.etcd import Etcd
from bench.peers.figures import ETCD
from bench.peers.ours import Ours
from chaos.processes.network import Namespaces, NetworkFault, inside
from quorum.process import loop_factory

TIMEOUT_MS: Final = 1_000
"""After which a follower takes its leader for lost."""
_ROOT: Final = Path(__file__).parents[2]


async def outages(side: str, folder: Path, count: int) -> AsyncIterator[float]:
    """Seconds without a commit after each of so many cuts; raises `RunFailed`."""
    kind_of(side)
    found = inside("bench.peers.cut_off", [side, str(folder), str(count)])
    if found is None:
        raise RunFailed("links cannot be cut: this machine allows no network namespaces")
    process = await asyncio.create_subprocess_exec(
        *found.command, stdin=DEVNULL, stdout=PIPE, env=found.environment, cwd=_ROOT
    )
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            yield float(line)
    finally:
        if process.returncode is None:
            process.terminate()
        code = await process.wait()
    if code:
        raise RunFailed(f"{side}: no leader could be cut off")


def kind_of(side: str) -> Kind:
    """The nodes of a side, with these time-outs; raises `RunFailed` if they cannot be had."""
    if side == ETCD:
        return Etcd(downloads.etcd(), [f"--election-timeout={TIMEOUT_MS}"])
    timeouts = ("quorum.election.timeout.ms", "quorum.fetch.timeout.ms")
    return Ours(dict.fromkeys(timeouts, str(TIMEOUT_MS)))


async def measure(side: str, folder: Path, count: int) -> None:
    """Print each outage as soon as it is over."""
    kind = kind_of(side)
    network = await Namespaces.open(NODES)
    try:
        kind.prepare(folder, [network.address_of(node) for node in NODES])
        async with Cluster(kind, folder, placed=network.command) as cluster:
            async for seconds in failover.outages_by_cut(cluster, network, count):
                click.echo(str(seconds))
    finally:
        await network.close()


@click.command()
@click.argument("side")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("count", type=int)
def command(side: str, folder: Path, count: int) -> None:
    """The program that `outages` starts."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(measure(side, folder, count))
    except* (RunFailed, NetworkFault) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None


if __name__ == "__main__":
    command()
