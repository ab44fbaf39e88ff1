"""The actions of `reassign-partitions`: execute, cancel, verify, list."""

import asyncio
from collections.abc import Sequence
from typing import Final

from admin.capabilities.moves import DescribeMove
from admin.capabilities.reassignments import BeginMove, BegunMove
from admin.capabilities.schema import with_key
from admin.cli import moves_text, reassign_text
from admin.cli.move_progress import wait_for
from admin.cli.options import Exit, Target, say, write, write_data
from admin.cli.reassign_plan import registered, replicas_of, topics_of
from admin.client.admin_client import AdminClient, Incompatible, Unreachable
from admin.model import Assignment, Reassignment
from admin.plan_file import check_plan, missing


async def execute(whom: Target, asked: BeginMove, *, additional: bool, wait: bool) -> Exit:
    """Execute a plan: begin a move. Refused during other moves, unless `additional`."""
    async with whom.client() as client:
        underway = await client.list_reassignments()
        if underway and not additional and not (asked.key and _is_part_of(underway, asked)):
            say(reassign_text.EXISTING_REASSIGNMENT)
            return Exit.FAILED
        brokers = await registered(client)
        topics = await client.describe_topics(topics_of(asked.assignments))
        check_plan(asked.assignments, brokers=brokers.racks, topics=topics)
        current = replicas_of(topics, asked.assignments)
        write(reassign_text.rollback(current))
        if awaited := brokers.awaited(asked.assignments, current):
            say(reassign_text.awaited(awaited))
        begun = await _begin(client, asked)
        done = _tell(begun)
        try:
            return max(done, await _follow(client, asked, begun, wait=wait))
        except Incompatible as error:
            say(f"{error}: ask a controller or an embedded broker about moves, or use --verify")
            return max(done, Exit.NOT_FINISHED) if wait else done


async def _follow(client: AdminClient, asked: BeginMove, begun: BegunMove, *, wait: bool) -> Exit:
    """Show the throttle and, if requested, wait for the end; raises `Incompatible`."""
    if begun.move_id and asked.is_throttled:
        # An earlier attempt, or another user, may have begun it with another throttle.
        move = await client.ask(DescribeMove(move_id=begun.move_id))
        write(moves_text.throttled_as_by_kafka(move))
    if not wait:
        return Exit.DONE
    if begun.move_id:
        return await wait_for(client, begun.move_id)
    if _is_any_of(await client.list_reassignments(), asked):
        raise Incompatible("the active controller has begun no move")
    return Exit.DONE


def _is_any_of(underway: Sequence[Reassignment], asked: BeginMove) -> bool:
    wanted = {one.id for one in asked.assignments}
    return any(one.id in wanted for one in underway)


def _is_part_of(underway: Sequence[Reassignment], asked: BeginMove) -> bool:
    """Check whether an earlier attempt of this request explains all running reassignments."""
    wanted = {one.id: one.replicas for one in asked.assignments}
    return all(tuple(one.target) == wanted.get(one.id) for one in underway)


async def _begin(client: AdminClient, asked: BeginMove) -> BegunMove:
    known = with_key(asked)
    try:
        return await client.begin_move(known)
    except Unreachable as error:
        if error.may_be_done:
            say(f"To retry safely, add: --key {known.key}")
        raise


def _tell(begun: BegunMove) -> Exit:
    if begun.accepted:
        write(reassign_text.started([one.id for one in begun.accepted]))
    if begun.move_id:
        write(reassign_text.move_id(begun.move_id))
    elif begun.accepted and all(one.replicas for one in begun.accepted):
        # A controller that returns the replicas knows moves, and has begun none.
        say(reassign_text.NOTHING_BEGUN)
    if begun.repeated:
        say(reassign_text.REPEATED)
        if begun.move_id:
            say(reassign_text.original(begun.move_id))
    if not begun.refused:
        return Exit.DONE
    say(reassign_text.not_started(begun.refused))
    return Exit.FAILED


async def cancel(whom: Target, plan: Sequence[Assignment]) -> Exit:
    """Cancel the running reassignments of the plan."""
    async with whom.client() as client:
        active = {one.id for one in await client.list_reassignments()}
        existing = replicas_of(await client.describe_topics(topics_of(plan)), plan)
        done = await _cancel(client, [one for one in plan if one.id in active])
    # The rest is cancelled even if a topic was deleted since the plan was made.
    wrong = missing(plan, existing)
    for sentence in wrong:
        say(f"Error: {sentence}")
    return Exit.FAILED if wrong else done


async def cancel_all(whom: Target) -> Exit:
    """Cancel all reassignments, by Kafka's own request, which any controller serves."""
    async with whom.client() as client:
        return await _cancel(client, await client.list_reassignments())


async def _cancel(client: AdminClient, active: Sequence[Assignment | Reassignment]) -> Exit:
    if not active:
        write(reassign_text.NOTHING_ACTIVE)
        return Exit.DONE
    wanted = [Assignment(topic=one.topic, partition=one.partition, replicas=None) for one in active]
    found = await client.begin_move(BeginMove(assignments=wanted))
    if found.accepted:
        write(reassign_text.cancelled([one.id for one in found.accepted]))
        if any(one.replicas for one in found.accepted):
            say(reassign_text.has_now(found.accepted))
    if not found.refused:
        return Exit.DONE
    say(reassign_text.not_cancelled(found.refused))
    return Exit.FAILED


VERIFY_ATTEMPTS: Final = 4
VERIFY_PAUSE_SECONDS: Final = 0.25


async def verify(whom: Target, plan: Sequence[Assignment], output: str) -> Exit:
    """Show the progress of the plan."""
    async with whom.client() as client:
        for attempt in range(1, VERIFY_ATTEMPTS + 1):
            active = {one.id: one for one in await client.list_reassignments()}
            topics = await client.describe_topics(topics_of(plan))
            states = reassign_text.move_states(plan, active, replicas_of(topics, plan))
            statuses = {state.status for state in states}
            if (
                reassign_text.MoveStatus.NOT_AS_PLANNED not in statuses
                or attempt == VERIFY_ATTEMPTS
            ):
                break
            # The broker that described the topics may be a moment behind the controller.
            await asyncio.sleep(VERIFY_PAUSE_SECONDS)
    if output == "table":
        write(reassign_text.verified(states))
    else:
        write_data(reassign_text.verified_data(states), output)
    if reassign_text.MoveStatus.NOT_AS_PLANNED in statuses:
        return Exit.FAILED
    return Exit.NOT_FINISHED if reassign_text.MoveStatus.IN_PROGRESS in statuses else Exit.DONE


async def show(whom: Target, output: str, *, stale: bool) -> Exit:
    """List the running reassignments."""
    async with whom.client() as client:
        active = await client.reassignments(stale=stale)
    if output == "table":
        write(reassign_text.listed(active.moves))
    else:
        write_data(reassign_text.listed_data(active), output)
    return Exit.DONE
