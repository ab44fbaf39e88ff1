"""`--execute` and `--cancel`: what changes the cluster. A plan is judged as a whole first."""

from collections.abc import Sequence

from admin.cli.common import Exit, Target, say, write
from admin.cli.moves import text
from admin.cli.moves.planned import replicas_of, topics_of
from admin.model import Assignment
from admin.plan_file import check_plan


async def execute(whom: Target, plan: Sequence[Assignment], *, additional: bool) -> Exit:
    """Start the moves of the plan; unless `additional`, only where no other ones are under way."""
    async with whom.client() as client:
        if not additional and await client.list_reassignments():
            say(text.EXISTING_REASSIGNMENT)
            return Exit.FAILED
        brokers = await client.brokers()
        topics = await client.describe_topics(topics_of(plan))
        check_plan(plan, brokers={broker.id for broker in brokers}, topics=topics)
        write(text.rollback(replicas_of(topics, plan)))
        results = await client.alter_reassignments(plan)
    refused = [result for result in results if result.error_code]
    begun = [result.id for result in results if not result.error_code]
    if begun:
        write(text.started(begun))
    if refused:
        say(text.not_started(refused))
    return Exit.FAILED if refused else Exit.DONE


async def cancel(whom: Target, plan: Sequence[Assignment]) -> Exit:
    """Cancel those moves of the plan that are under way."""
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
