"""The operator of a live migration, step by step as `docs/migration.md` has it."""

from collections.abc import Awaitable, Callable

from admin.tools.local_plan import LOG_FILE, NodePlan
from bench.migrated_cluster import MigratedCluster

Look = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Look at nothing."""


async def there(cluster: MigratedCluster, in_the_middle: Look = nothing) -> None:
    """`start` is killed when it has begun, and given again; then Kafka's controllers are stopped.

    `in_the_middle` looks while controllers of both kinds vote.
    """
    async with cluster.migrate("start") as command:
        await cluster.until_said(command, "follows the log")
        await cluster.start_ours()
        await cluster.until_said(command, "not look for the controllers")
        await cluster.roll()
        await cluster.until_said(command, "add controller")
    await in_the_middle()
    said = await cluster.run_migrate("start")
    assert "Controllers 11, 12, 13 vote" in said
    await finish(cluster, cluster.controllers, "The controllers of Kafka are retired")


async def back(cluster: MigratedCluster, in_the_middle: Look = nothing) -> None:
    """The brokers have the addresses of both kinds: none is restarted.

    `back` is killed and given again as `start`; `in_the_middle` looks in between.
    """
    async with cluster.migrate("back") as command:
        await cluster.until_said(command, "follows the log")
        await cluster.start_kafkas_again()
        await cluster.until_said(command, "add controller")
    await in_the_middle()
    said = await cluster.run_migrate("back")
    assert "Controllers 1, 2, 3 vote" in said
    assert "not look for the controllers" not in said
    await finish(cluster, cluster.ours, "The controllers of metaquorum are retired")


async def finish(cluster: MigratedCluster, retired: tuple[NodePlan, ...], words: str) -> None:
    """Stop each controller when the command says so."""
    async with cluster.migrate("finish") as command:
        await cluster.until_said(command, "have no vote, and run")
        first, *others = retired
        for node in others:
            await cluster.stop(node)
        await cluster.until_said(command, f"controller {first.id} of ")
        await cluster.until_said(command, "is the last that runs")
        await cluster.stop(first)
        await cluster.ended(command)
        assert command.has_said(words), command.text


async def topics_are_created(cluster: MigratedCluster, topic: str) -> None:
    """The active controller serves changes."""
    async with cluster.client() as admin:
        await admin.create_topic(topic, partitions=3, replication_factor=3)
    await cluster.until_in_sync()


def no_broker_was_fenced_by_ours(cluster: MigratedCluster) -> None:
    """No session ended: each broker found the new leader in time."""
    for node in cluster.ours:
        said = (cluster.rival.folder / node.name / LOG_FILE).read_text(encoding="utf-8")
        assert "no heartbeat in time" not in said, node.name
        # Kafka's nodes do not know discovery, which is no reason to warn.
        assert "WARNING quorum: Discovery" not in said or "refused" in said, node.name
