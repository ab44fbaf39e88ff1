"""`metaquorum topics`: create, list, describe, alter and delete topics, and what they hold."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from admin.cli.elections import elect_leaders
from admin.cli.options import (
    BROKERS,
    NAME_VALUE,
    Exit,
    Target,
    check_dry_run,
    key_option,
    output_option,
    run,
    say,
    show,
    stale_option,
    throttle_option,
    topic_name,
    with_target,
    yes_option,
)
from admin.cli.topic_offsets import delete_records, get_offsets
from quorum.core.vocabulary import uuid_to_text

if TYPE_CHECKING:
    from admin.client.channels import Response
    from admin.model import TopicDescription


@click.group()
def command() -> None:
    """Create, list, describe, alter and delete topics; elect leaders, delete records."""


command.add_command(get_offsets)
command.add_command(delete_records)
command.add_command(elect_leaders)


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
@click.option("--config", "configs", type=NAME_VALUE, multiple=True, help="A topic configuration.")
@with_target
async def create(
    target: Target,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[tuple[str, str]],
) -> None:
    """Create TOPIC."""
    async with target.client() as client:
        await client.create_topic(
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=dict(configs),
        )
    say(f"Created topic {topic}.")


@command.command("list")
@with_target
@stale_option
@output_option
async def list_(target: Target, output: str, stale: bool) -> None:
    """List the names of all topics."""
    async with target.client() as client:
        topics = await client.topics(stale=stale)
    data = {"as_of_offset": topics.as_of, "topics": sorted(topics.value)}
    show(sorted(topics.value), output, "\n".join, lambda _: data)


@command.command("describe")
@click.argument("topics", nargs=-1)
@click.option("--topic", "named", multiple=True, metavar="TOPIC", help="Same as an argument.")
@with_target
@stale_option
@output_option
async def describe(
    target: Target, topics: Sequence[str], named: Sequence[str], output: str, stale: bool
) -> None:
    """Describe TOPICS, or all topics: leader, replicas, in-sync replicas."""
    wanted = (*topics, *named)
    async with target.client() as client:
        known = await client.topics(wanted or None, stale=stale)
    show(known, output, described, topics_data)
    missing = sorted(set(wanted) - known.value.keys())
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
@click.option("--brokers", type=BROKERS, help="Place new replicas on these brokers only: 101,102.")
@throttle_option
@click.option(
    "--dry-run", is_flag=True, help="With --replication-factor: show the plan; change nothing."
)
@key_option
@with_target
async def alter(
    target: Target,
    topic: str,
    partitions: int | None,
    factor: int | None,
    brokers: tuple[int, ...] | None,
    throttle: int,
    dry_run: bool,
    key: str,
) -> Exit:
    """Add partitions to TOPIC, or change its replication factor.

    Partitions cannot be removed later. A move adds or removes the replicas.
    """
    if (partitions is None) == (factor is None):
        raise click.UsageError("give either --partitions or --replication-factor")
    if partitions is not None:
        of_moves = {"dry-run": dry_run, "brokers": brokers, "throttle": throttle, "key": key}
        for option, given in of_moves.items():
            if given:
                raise click.UsageError(f"--{option} requires --replication-factor")
        async with target.client() as client:
            await client.create_partitions(topic, partitions)
        say(f"Topic {topic} has {partitions} partitions.")
        return Exit.DONE
    check_dry_run(dry_run, key=key)
    assert factor is not None
    from admin.capabilities.plans import ChangeReplicationFactor
    from admin.cli.plans import change_factor

    request = ChangeReplicationFactor(
        topics=(topic,),
        replication_factor=factor,
        brokers=brokers,
        dry_run=dry_run,
        key=key,
        throttle_bytes_per_s=throttle,
    )
    return await change_factor(target, request)


@command.command("delete")
@topic_name
@yes_option
@with_target
def delete(target: Target, topic: str, yes: bool) -> None:
    """Delete TOPIC with all its records."""

    async def work() -> None:
        async with target.client() as client:
            await client.delete_topic(topic)

    target.confirm(f"Delete topic {topic} with all its records?", yes=yes)
    run(work())
    say(f"Deleted topic {topic}.")


def described(topics: "Response[Mapping[str, TopicDescription]]") -> str:
    """The topics with their partitions, as `kafka-topics.sh --describe` prints them."""
    return "\n".join(line for _, topic in sorted(topics.value.items()) for line in _lines(topic))


def _lines(topic: "TopicDescription") -> Iterator[str]:
    from statemachine.vocabulary import NO_LEADER

    id = "" if topic.topic_id is None else uuid_to_text(topic.topic_id)
    yield (
        f"Topic: {topic.name}\tTopicId: {id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {topic.replication_factor}"
    )
    for each in topic.partitions:
        leader = "none" if each.leader == NO_LEADER else each.leader
        replicas, isr = (",".join(map(str, brokers)) for brokers in (each.replicas, each.isr))
        yield (
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}\t"
            f"Replicas: {replicas}\tIsr: {isr}"
        )


def topics_data(topics: "Response[Mapping[str, TopicDescription]]") -> dict[str, Any]:
    """The topics as plain values."""
    from statemachine.vocabulary import NO_LEADER

    return {
        "as_of_offset": topics.as_of,
        "topics": [
            {
                "name": name,
                "topic_id": None if topic.topic_id is None else uuid_to_text(topic.topic_id),
                "partitions": [
                    {
                        "partition": each.partition,
                        "leader": None if each.leader == NO_LEADER else each.leader,
                        "leader_epoch": each.leader_epoch,
                        "replicas": list(each.replicas),
                        "isr": list(each.isr),
                        "offline_replicas": list(each.offline),
                    }
                    for each in topic.partitions
                ],
            }
            for name, topic in sorted(topics.value.items())
        ],
    }
