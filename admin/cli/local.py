"""`metaquorum local`: a cluster of processes on this machine, in the foreground."""

import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admin.cli.options import Exit, command_line, say

if TYPE_CHECKING:
    from asyncio import Task

    from admin.tools.local_cluster import LocalCluster


@click.command()
@click.option("--controllers", type=click.IntRange(1, 9), help="How many. [default: 3]")
@click.option("--brokers", type=click.IntRange(0, 50), help="How many. [default: 4]")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder of the cluster: new, empty, or that of a cluster before.",
)
@click.option(
    "--base-port",
    type=click.IntRange(0, 65_000),
    help="Node n listens at this plus n, its HTTP at this plus 50 plus n; 0 takes free ports. "
    "[default: 19000]",
)
@click.option(
    "--kafka",
    metavar="VERSION",
    help="Brokers of this release of Apache Kafka (3.9.1 or 4.2.0) instead of the embedded ones; "
    "needs Java 17 and Maven.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    controllers: int | None,
    brokers: int | None,
    folder: Path,
    base_port: int | None,
    kafka: str | None,
) -> None:
    """Run a cluster of processes on this machine until Ctrl-C or SIGTERM.

    What runs where is in DIR/cluster.json as soon as all nodes answer. Started again on the same
    folder, the cluster comes back as it was.
    """
    import asyncio

    from admin.tools.kafka_runtime import Unavailable, find_runtime
    from admin.tools.local_cluster import LocalCluster
    from admin.tools.local_plan import LocalError, Wanted, settle

    wanted = Wanted(controllers=controllers, brokers=brokers, base_port=base_port, kafka=kafka)
    try:
        # First what may be missing: a folder is for good.
        runtime = None if kafka is None else find_runtime(kafka, say)
        plan = settle(folder, wanted, random.SystemRandom())
        if plan.kafka is not None and runtime is None:
            runtime = find_runtime(plan.kafka, say)
        ctx.exit(asyncio.run(_run(LocalCluster(folder, plan, runtime=runtime))))
    except (LocalError, Unavailable) as error:
        raise click.ClickException(str(error)) from None


async def _run(cluster: "LocalCluster") -> Exit:
    """Start the cluster and stay until asked to stop; then stop it."""
    import asyncio

    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    starting = loop.create_task(cluster.start())
    stopping = loop.create_task(asked.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            _announce(cluster)
            await _tell_ends(cluster, stopping)
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        await _stop(cluster)
    return Exit.DONE


async def _stop(cluster: "LocalCluster") -> None:
    """End every node, even where nobody is left to be told of it."""
    try:
        if cluster.is_running:
            say("stopping all nodes")
    finally:
        killed = await cluster.stop()
    for name in killed:
        say(f"{name} did not stop when asked, and had to be killed")


async def _tell_ends(cluster: "LocalCluster", stopping: "Task[bool]") -> None:
    """Say which node ends by itself, until it is time to stop."""
    import asyncio

    loop = asyncio.get_running_loop()
    while not stopping.done():
        ended = loop.create_task(cluster.ended.get())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            say(f"{ended.result()}; the others go on")
        ended.cancel()


def _announce(cluster: "LocalCluster") -> None:
    from admin.tools.local_plan import CLUSTER_FILE

    controllers = ",".join(map(str, cluster.controllers))
    brokers = ",".join(map(str, cluster.brokers))
    web = cluster.plan.controllers[0].http
    for node in cluster.plan.nodes:
        say(f"{node.name:13} {node.kafka}, process {cluster.pid(node.name)}")
    say(f"All are up; {cluster.folder / CLUSTER_FILE} says the same.")
    asked = f"--bootstrap-server {brokers}" if brokers else f"--bootstrap-controller {controllers}"
    say(f"Look:  {command_line()} metadata-quorum {asked} describe --status")
    say(f"       http://{web}/v1/quorum")
    say("Stop:  Ctrl-C")
