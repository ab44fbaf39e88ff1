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
    WholeNumber,
    check_dry_run,
    key_option,
    output_option,
    run,
    say,
    show,
    show_done,
    stale_option,
    throttle_option,
    topic_name,
    with_target,
    write_data,
    yes_option,
)
from admin.cli.output import as_of_offset
from admin.cli.topic_filters import PartitionFilter, filter_options, with_moves
from admin.cli.topic_offsets import delete_records, get_offsets
from admin.cli.topic_patterns import check_found, find_topics, is_pattern
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
    "--partitions", type=WholeNumber(1), help="Number of partitions. [default: the cluster's]"
)
@click.option(
    "--replication-factor",
    type=WholeNumber(1, 32_767),
    help="Replicas of each partition. [default: the cluster's]",
)
@click.option("--config", "configs", type=NAME_VALUE, multiple=True, help="A topic configuration.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
@with_target
@output_option
async def create(
    target: Target,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[tuple[str, str]],
    if_not_exists: bool,
    output: str,
) -> None:
    """Create TOPIC."""
    from admin.cli.configs import hinting
    from admin.faults import Refused
    from quorum.protocol.errors import ErrorCode

    async with target.client() as client:
        try:
            with hinting(name for name, _ in configs):
                await client.create_topic(
                    topic,
                    partitions=partitions,
                    replication_factor=replication_factor,
                    configs=dict(configs),
                )
        except Refused as error:
            if if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                left = f"Topic {topic} exists already; it was left as it is."
                show_done(left, output, topic=topic, created=False)
                return
            raise
    show_done(f"Created topic {topic}.", output, topic=topic, created=True)


@command.command("list")
@click.argument("topics", nargs=-1)
@click.option("--topic", "named", multiple=True, metavar="TOPIC", help="Same as an argument.")
@filter_options
@with_target
@stale_option
@output_option
async def list_(
    target: Target,
    topics: Sequence[str],
    named: Sequence[str],
    output: str,
    stale: bool,
    **only: bool,
) -> None:
    """List the names of TOPICS, which may be glob patterns, or of all topics."""
    chosen = PartitionFilter(**only)
    async with target.client() as client:
        known = await find_topics(client, (*topics, *named), stale=stale)
        if output != "table" or not chosen.is_empty:
            moving = await with_moves(client, known.value, stale=stale)
            known = known._replace(value=moving)
        found = await chosen.apply(client, known.value)
    shown = known._replace(value={name: known.value[name] for name in found})
    none = none_found(target, chosen, named=bool(topics or named))
    show(shown, output, lambda topics: "\n".join(sorted(topics.value)), listed_data, none=none)
    check_found(known.value, (*topics, *named))


@command.command("describe")
@click.argument("topics", nargs=-1)
@click.option("--topic", "named", multiple=True, metavar="TOPIC", help="Same as an argument.")
@filter_options
@with_target
@stale_option
@output_option
async def describe(
    target: Target,
    topics: Sequence[str],
    named: Sequence[str],
    output: str,
    stale: bool,
    **only: bool,
) -> None:
    """Describe TOPICS, or all topics: leader, replicas, in-sync replicas.

    TOPICS may be glob patterns in quotes: 'orders-*'.
    """
    chosen = PartitionFilter(**only)
    async with target.client() as client:
        known = await find_topics(client, (*topics, *named), stale=stale)
        moving = await with_moves(client, known.value, stale=stale)
        shown = known._replace(value=await chosen.apply(client, moving))
    # As Kafka's script: lines of topics would count partitions that are not shown.
    table = described if chosen.is_empty else partitions_described
    none = none_found(target, chosen, named=bool(topics or named))
    show(shown, output, table, topics_data, none=none)
    check_found(known.value, (*topics, *named))


def none_found(target: Target, chosen: PartitionFilter, *, named: bool) -> str:
    """The sentence about an empty list; names that no topic has are an error of their own."""
    if not chosen.is_empty:
        return "No topics have such partitions."
    if named:
        return ""
    who = None if target.command_config is None else target.command_config.security.principal
    if who in (None, "User:ANONYMOUS"):
        return "There are no topics."
    # A node with an authorizer leaves out the topics that a client may not describe.
    return f"There are no topics that {who} may describe."


@command.command("alter")
@topic_name
@click.option("--partitions", type=WholeNumber(1), help="The new total number of partitions.")
@click.option(
    "--replication-factor",
    "factor",
    type=WholeNumber(1, 32_767),
    help="The new number of replicas of each partition.",
)
@click.option("--brokers", type=BROKERS, help="Place new replicas on these brokers only: 101,102.")
@throttle_option
@click.option(
    "--dry-run", is_flag=True, help="With --replication-factor: show the plan; change nothing."
)
@key_option
@with_target
@output_option
async def alter(
    target: Target,
    topic: str,
    partitions: int | None,
    factor: int | None,
    brokers: tuple[int, ...] | None,
    throttle: int,
    dry_run: bool,
    key: str,
    output: str,
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
        has = f"Topic {topic} has {partitions} partitions."
        show_done(has, output, topic=topic, partitions=partitions)
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
    return await change_factor(target, request, output)


@command.command("delete")
@topic_name
@click.option("--if-exists", is_flag=True, help="Succeed if there is no such topic.")
@yes_option
@with_target
@output_option
def delete(target: Target, topic: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete TOPIC, or all topics of a glob pattern, with all their records."""
    names = [topic]
    if is_pattern(topic):
        names = run(_matching(target, topic, if_exists=if_exists))
        if not names:
            show_done(f"No topic matches {topic}.", output, deleted=[])
            return
    question = f"Delete topic {', '.join(names)} with all its records?"
    target.confirm(
        question
        if len(names) == 1
        else f"Delete {len(names)} topics with all their records: {', '.join(names)}?",
        yes=yes,
    )
    run(_delete(target, names, output, if_exists=if_exists))


async def _matching(target: Target, pattern: str, *, if_exists: bool) -> list[str]:
    """The topics of a pattern; an error if there are none, unless `if_exists`."""
    async with target.client() as client:
        found = (await find_topics(client, [pattern])).value
    if not if_exists:
        check_found(found, [pattern])
    return [*found]


async def _delete(target: Target, names: Sequence[str], output: str, *, if_exists: bool) -> None:
    from admin.faults import Refused
    from quorum.protocol.errors import ErrorCode

    deleted = []
    async with target.client() as client:
        for name in names:
            try:
                await client.delete_topic(name)
            except Refused as error:
                if not (if_exists and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise
                say(f"There is no topic {name}.")
            else:
                deleted.append(name)
                if output == "table":
                    say(f"Deleted topic {name}.")
    if output != "table":
        write_data({"deleted": deleted}, output)


def described(topics: "Response[Mapping[str, TopicDescription]]") -> str:
    """The topics with their partitions, as `kafka-topics.sh --describe` prints them."""
    return "\n".join(line for _, topic in sorted(topics.value.items()) for line in _lines(topic))


def partitions_described(topics: "Response[Mapping[str, TopicDescription]]") -> str:
    """Only the lines of the partitions."""
    found = (line for _, topic in sorted(topics.value.items()) for line in _partition_lines(topic))
    return "\n".join(found)


def _lines(topic: "TopicDescription") -> Iterator[str]:
    id = "" if topic.topic_id is None else uuid_to_text(topic.topic_id)
    yield (
        f"Topic: {topic.name}\tTopicId: {id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {topic.replication_factor}"
    )
    yield from _partition_lines(topic)


def _partition_lines(topic: "TopicDescription") -> Iterator[str]:
    from statemachine.vocabulary import NO_LEADER

    for each in topic.partitions:
        leader = "none" if each.leader == NO_LEADER else each.leader
        columns = {"Replicas": each.replicas, "Isr": each.isr}
        if each.adding or each.removing:
            columns |= {"Adding Replicas": each.adding, "Removing Replicas": each.removing}
        yield (
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}\t"
            + "\t".join(f"{name}: {','.join(map(str, ids))}" for name, ids in columns.items())
        )


def listed_data(topics: "Response[Mapping[str, TopicDescription]]") -> dict[str, Any]:
    """The list as plain values, as `GET /v1/topics` has it."""
    return {
        **as_of_offset(topics),
        "topics": [
            {
                "name": name,
                "partitions": len(topic.partitions),
                "replication_factor": topic.replication_factor,
            }
            for name, topic in sorted(topics.value.items())
        ],
    }


def topics_data(topics: "Response[Mapping[str, TopicDescription]]") -> dict[str, Any]:
    """The topics as plain values."""
    from statemachine.vocabulary import NO_LEADER

    return {
        **as_of_offset(topics),
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
                        "adding_replicas": list(each.adding),
                        "removing_replicas": list(each.removing),
                    }
                    for each in topic.partitions
                ],
            }
            for name, topic in sorted(topics.value.items())
        ],
    }
