"""Three nodes in network namespaces, so that the leader can be isolated without closed connections.

`outages` runs this module as a program in a separate network namespace, without access to the
machine's network, so all programs must be downloaded before. It prints one outage per line.
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
"""The time without the leader after which a follower starts an election."""
_ROOT: Final = Path(__file__).parents[2]


async def outages(side: str, folder: Path, count: int) -> AsyncIterator[float]:
    """Isolate the leader `count` times; yield the seconds without a commit. Raises `RunFailed`."""
    kind_of(side)
    found = inside("bench.peers.cut_off", [side, str(folder), str(count)])
    if found is None:
        raise RunFailed("links cannot be cut: this machine does not permit network namespaces")
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
        raise RunFailed(f"{side}: no leader could be isolated")


def kind_of(side: str) -> Kind:
    """The nodes of a side with these timeouts; raises `RunFailed` if they are not available."""
    if side == ETCD:
        return Etcd(downloads.etcd(), [f"--election-timeout={TIMEOUT_MS}"])
    timeouts = ("quorum.election.timeout.ms", "quorum.fetch.timeout.ms")
    return Ours(dict.fromkeys(timeouts, str(TIMEOUT_MS)))


async def measure(side: str, folder: Path, count: int) -> None:
    """Print each outage when it ends."""
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
    """Run the program that `outages` starts."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(measure(side, folder, count))
    except* (RunFailed, NetworkFault) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None


if __name__ == "__main__":
    command()
