"""`metaquorum topics`: create, list, describe, alter and delete."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from admin.cli.options import (
    BrokerList,
    Target,
    check_key,
    key_option,
    output_option,
    run,
    say,
    stale_option,
    target,
    target_options,
    throttle_option,
    topic_name,
    write,
    write_data,
)
from quorum.core.vocabulary import uuid_to_text

if TYPE_CHECKING:
    from admin.model import PartitionDescription, TopicDescription, Topics


@click.group()
def command() -> None:
    """Create, list, describe, alter and delete topics."""


@command.command("create")
@topic_name
@click.option(
    "--partitions", type=click.IntRange(1), help="Number of partitions. [default: the cluster's]"
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32_767),
    help="Replicas of each partition. [default: the cluster's]",
)
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", help="A topic configuration."
)
@target_options
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[str],
    **whom: Any,
) -> None:
    """Create TOPIC."""
    pairs = dict(_pair(config) for config in configs)
    run(_create(target(**whom), topic, partitions, replication_factor, pairs))
    say(f"Created topic {topic}.")


@command.command("list")
@stale_option
@output_option
@target_options
def list_(output: str, *, stale: bool, **whom: Any) -> None:
    """List the names of all topics."""
    topics = run(_describe(target(**whom), None, stale=stale))
    names = sorted(topics.found)
    if output != "table":
        write_data({"as_of_offset": topics.as_of, "topics": names}, output)
    elif names:
        write("\n".join(names))


@command.command("describe")
@click.argument("topics", nargs=-1)
@click.option("--topic", "named", multiple=True, metavar="TOPIC", help="Same as an argument.")
@stale_option
@output_option
@target_options
def describe(
    topics: Sequence[str], named: Sequence[str], output: str, *, stale: bool, **whom: Any
) -> None:
    """Describe TOPICS, or all topics: leader, replicas, in-sync replicas."""
    wanted = (*topics, *named)
    known = run(_describe(target(**whom), wanted or None, stale=stale))
    if output == "table":
        write(described(known))
    else:
        write_data(topics_data(known), output)
    missing = sorted(set(wanted) - known.found.keys())
    if missing:
        raise click.ClickException(f"there is no topic {', '.join(missing)}")


@command.command("alter")
@topic_name
@click.option("--partitions", type=click.IntRange(1), help="The new total number of partitions.")
@click.option(
    "--replication-factor",
    "factor",
    type=click.IntRange(1, 32_767),
    help="The new number of replicas of each partition.",
)
@click.option(
    "--brokers", type=BrokerList(), help="Place new replicas on these brokers only: 101,102."
)
@throttle_option
@click.option(
    "--dry-run", is_flag=True, help="With --replication-factor: show the plan; change nothing."
)
@key_option
@target_options
@click.pass_context
def alter(
    ctx: click.Context,
    /,
    topic: str,
    partitions: int | None,
    factor: int | None,
    brokers: tuple[int, ...] | None,
    throttle: Mapping[str, Any],
    dry_run: bool,
    key: str,
    **whom: Any,
) -> None:
    """Add partitions to TOPIC, or change its replication factor.

    Partitions cannot be removed later. A move adds or removes the replicas.
    """
    if (partitions is None) == (factor is None):
        raise click.UsageError("give either --partitions or --replication-factor")
    for option, given in (
        ("--dry-run", dry_run),
        ("--brokers", brokers is not None),
        ("--throttle", bool(throttle)),
        ("--key", bool(key)),
    ):
        if factor is None and given:
            raise click.UsageError(f"{option} requires --replication-factor")
    check_key(key, dry_run=dry_run)
    if factor is not None:
        from admin.capabilities.plans import ChangeReplicationFactor
        from admin.cli.plans import change_factor

        asked = ChangeReplicationFactor(
            topics=(topic,),
            replication_factor=factor,
            brokers=brokers,
            dry_run=dry_run,
            key=key,
            **throttle,
        )
        ctx.exit(run(change_factor(target(**whom), asked)))
    assert partitions is not None
    run(_alter(target(**whom), topic, partitions))
    say(f"Topic {topic} has {partitions} partitions.")


@command.command("delete")
@topic_name
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@target_options
def delete(topic: str, yes: bool, **whom: Any) -> None:
    """Delete TOPIC with all its records."""
    chosen = target(**whom)
    if not yes:
        click.confirm(f"Delete topic {topic} with all its records?", abort=True, err=True)
    run(_delete(chosen, topic))
    say(f"Deleted topic {topic}.")


def _pair(config: str) -> tuple[str, str]:
    name, separator, value = config.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{config!r} is not name=value", param_hint="--config")
    return name, value


async def _create(
    whom: Target,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
) -> None:
    async with whom.client() as client:
        await client.create_topic(
            topic, partitions=partitions, replication_factor=replication_factor, configs=configs
        )


async def _describe(whom: Target, names: Sequence[str] | None, *, stale: bool) -> "Topics":
    async with whom.client() as client:
        return await client.topics(names, stale=stale)


async def _alter(whom: Target, topic: str, partitions: int) -> None:
    async with whom.client() as client:
        await client.create_partitions(topic, partitions)


async def _delete(whom: Target, topic: str) -> None:
    async with whom.client() as client:
        await client.delete_topic(topic)


def described(topics: "Topics") -> str:
    """The topics with their partitions, as `kafka-topics.sh --describe` prints them."""
    return "\n".join(line for topic in _in_order(topics) for line in _lines(topic))


def topics_data(topics: "Topics") -> dict[str, Any]:
    """The topics as plain values."""
    return {
        "as_of_offset": topics.as_of,
        "topics": [_topic_data(topic) for topic in _in_order(topics)],
    }


def _in_order(topics: "Topics") -> "Iterable[TopicDescription]":
    return (topics.found[name] for name in sorted(topics.found))


def _topic_data(topic: "TopicDescription") -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": None if topic.topic_id is None else uuid_to_text(topic.topic_id),
        "partitions": [_partition_data(partition) for partition in topic.partitions],
    }


def _lines(topic: "TopicDescription") -> Iterable[str]:
    id = "" if topic.topic_id is None else uuid_to_text(topic.topic_id)
    yield "\t".join(
        [
            f"Topic: {topic.name}",
            f"TopicId: {id}",
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {topic.replication_factor}",
        ]
    )
    from admin.model import NO_LEADER

    for partition in topic.partitions:
        leader = "none" if partition.leader == NO_LEADER else str(partition.leader)
        yield "\t".join(
            [
                f"\tTopic: {topic.name}",
                f"Partition: {partition.partition}",
                f"Leader: {leader}",
                f"Replicas: {','.join(map(str, partition.replicas))}",
                f"Isr: {','.join(map(str, partition.isr))}",
            ]
        )


def _partition_data(partition: "PartitionDescription") -> dict[str, Any]:
    from admin.model import NO_LEADER

    return {
        "partition": partition.partition,
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline_replicas": list(partition.offline),
    }
