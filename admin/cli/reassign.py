"""`reassign-partitions`: execute, verify, cancel and list moves, as Kafka's script does it.

Flags, files and printed sentences are those of `kafka-reassign-partitions.sh`. The whole plan is
judged before anything is sent. What was done is printed on stdout even where a part failed; the
reasons for that part go to stderr, with exit code 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.common import (
    Exit,
    Target,
    output_option,
    read_text,
    run,
    say,
    stale_option,
    target,
    target_options,
    write,
    write_data,
)

if TYPE_CHECKING:
    from admin.model import Assignment, PartitionId, TopicDescription

ACTIONS: Final = ("execute", "verify", "cancel", "list")
VERIFY_ATTEMPTS: Final = 4
VERIFY_PAUSE_SECONDS: Final = 0.25


@click.command()
@target_options
@click.option("--execute", is_flag=True, help="Start the moves of the plan.")
@click.option("--verify", is_flag=True, help="Tell how far the plan is. Exit code 3: not yet.")
@click.option("--cancel", is_flag=True, help="Cancel those moves of the plan that are under way.")
@click.option("--list", is_flag=True, help="List all moves that are under way.")
@click.option(
    "--reassignment-json-file",
    "file",
    type=click.Path(path_type=Path),
    help="The plan: {version: 1, partitions: [{topic, partition, replicas}]}.",
)
@click.option("--additional", is_flag=True, help="Execute although other moves are under way.")
@stale_option
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path | None,
    additional: bool,
    stale: bool,
    output: str,
    **options: Any,
) -> None:
    """Move partitions between brokers: execute a plan, follow it, cancel it."""
    chosen = [action for action in ACTIONS if options.pop(action)]
    if len(chosen) != 1:
        raise click.UsageError(
            f"Command must include exactly one action: {', '.join(f'--{a}' for a in ACTIONS)}"
        )
    action = chosen[0]
    _check_options(action, file, additional=additional, output=output)
    if stale and action != "list":
        raise click.UsageError(f"--{action} needs what is so now; leave --stale out")
    whom = target(**options)
    if file is None:
        ctx.exit(run(_list(whom, output, stale=stale)))
    from admin.plan_file import PLAN_BYTES_MAX, InvalidPlan, parse_plan

    try:
        plan = parse_plan(read_text(file, PLAN_BYTES_MAX))
    except InvalidPlan as error:
        raise click.ClickException(f"{file}: {error}") from None
    match action:
        case "execute":
            ctx.exit(run(_execute(whom, plan, additional=additional)))
        case "verify":
            ctx.exit(run(_verify(whom, plan, output)))
        case _:
            ctx.exit(run(_cancel(whom, plan)))


def _check_options(action: str, file: Path | None, *, additional: bool, output: str) -> None:
    if action == "list" and file is not None:
        raise click.UsageError(
            'Option "--reassignment-json-file" can\'t be used with action "--list"'
        )
    if action != "list" and file is None:
        raise click.UsageError(f"--{action} needs --reassignment-json-file: the plan")
    if additional and action != "execute":
        raise click.UsageError(f'Option "--additional" can\'t be used with action "--{action}"')
    if output != "table" and action in ("execute", "cancel"):
        raise click.UsageError(f"--{action} prints Kafka's sentences; leave --output out")


async def _execute(whom: Target, plan: "Sequence[Assignment]", *, additional: bool) -> Exit:
    from admin.cli import reassign_text as text
    from admin.plan_file import check_plan

    async with whom.client() as client:
        if not additional and await client.list_reassignments():
            say(text.EXISTING_REASSIGNMENT)
            return Exit.FAILED
        brokers = await client.brokers()
        topics = await client.describe_topics(_topics(plan))
        check_plan(plan, brokers={broker.id for broker in brokers}, topics=topics)
        write(text.rollback(_replicas(topics, plan)))
        results = await client.alter_reassignments(plan)
    refused = [result for result in results if result.error_code]
    begun = [result.id for result in results if not result.error_code]
    if begun:
        write(text.started(begun))
    if refused:
        say(text.not_started(refused))
    return Exit.FAILED if refused else Exit.DONE


async def _verify(whom: Target, plan: "Sequence[Assignment]", output: str) -> Exit:
    import asyncio

    from admin.cli import reassign_text as text

    async with whom.client() as client:
        for attempt in range(1, VERIFY_ATTEMPTS + 1):
            active = {one.id: one for one in await client.list_reassignments()}
            topics = await client.describe_topics(_topics(plan))
            states = text.move_states(plan, active, _replicas(topics, plan))
            statuses = {state.status for state in states}
            if text.MoveStatus.NOT_AS_PLANNED not in statuses or attempt == VERIFY_ATTEMPTS:
                break
            # The broker that described the topics may be a moment behind the controller.
            await asyncio.sleep(VERIFY_PAUSE_SECONDS)
    if output == "table":
        write(text.verified(states))
    else:
        write_data(text.verified_data(states), output)
    if text.MoveStatus.NOT_AS_PLANNED in statuses:
        return Exit.FAILED
    return Exit.NOT_FINISHED if text.MoveStatus.IN_PROGRESS in statuses else Exit.DONE


async def _cancel(whom: Target, plan: "Sequence[Assignment]") -> Exit:
    from admin.cli import reassign_text as text
    from admin.model import Assignment

    async with whom.client() as client:
        active = {one.id for one in await client.list_reassignments()}
        wanted = [
            Assignment(topic=one.topic, partition=one.partition, replicas=None)
            for one in plan
            if one.id in active
        ]
        if not wanted:
            write(text.NOTHING_ACTIVE)
            return Exit.DONE
        results = await client.alter_reassignments(wanted)
    refused = [result for result in results if result.error_code]
    done = [result.id for result in results if not result.error_code]
    if done:
        write(text.cancelled(done))
    if refused:
        say(text.not_cancelled(refused))
    return Exit.FAILED if refused else Exit.DONE


async def _list(whom: Target, output: str, *, stale: bool) -> Exit:
    from admin.cli import reassign_text as text

    async with whom.client() as client:
        active = await client.reassignments(stale=stale)
    if output == "table":
        write(text.listed(active.moves))
    else:
        write_data(text.listed_data(active), output)
    return Exit.DONE


def _topics(plan: "Sequence[Assignment]") -> list[str]:
    return sorted({one.topic for one in plan})


def _replicas(
    topics: "Mapping[str, TopicDescription]", plan: "Sequence[Assignment]"
) -> "dict[PartitionId, Sequence[int]]":
    """Where the planned partitions are now; those that do not exist are left out."""
    from admin.model import PartitionId

    planned = {one.id for one in plan}
    return {
        id: partition.replicas
        for topic in topics.values()
        for partition in topic.partitions
        if (id := PartitionId(topic.name, partition.partition)) in planned
    }
