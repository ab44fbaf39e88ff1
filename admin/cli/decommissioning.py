"""`metaquorum brokers decommission` and `recommission`: emptying brokers, and going back.

Decommissioning takes as long as the copies take: each call does what can be done now, and says what
is left. Nothing is remembered between the calls but the cordon, which is in the cluster.
"""

from collections.abc import Sequence

from admin.cli import brokers_text as text
from admin.cli.common import Exit, Target, say, write
from admin.cli.moves import text as moves_text
from admin.client import AdminClient
from admin.emptying import Emptying, emptying
from admin.model import Assignment
from statemachine.planning.unplanned import Unplanned


async def decommission(
    whom: Target, brokers: Sequence[int], *, dry_run: bool, unregister: bool
) -> Exit:
    """Cordon the brokers, move away what they have, and in the end forget them if wanted."""
    async with whom.client() as client:
        standings = (await client.broker_standings()).brokers
        fresh = [each.id for each in standings if each.id in brokers and not each.is_cordoned]
        if fresh and not dry_run:
            await client.cordon_brokers(fresh)
            write(text.cordoned(fresh, cordoned=True))
        standings = [each for each in standings if each.id not in brokers]
        found = emptying(
            brokers,
            standings,
            await client.describe_topics(),
            await client.list_reassignments(),
        )
        if isinstance(found.plan, Unplanned):
            say(f"Error: {found.plan.message}")
            return Exit.FAILED
        if dry_run:
            write(text.progress(brokers, found))
            write(moves_text.rollback(found.current) if found.plan else "Nothing is to be moved.")
            return Exit.DONE
        if not found.held:
            return await _emptied(client, brokers, unregister=unregister)
        return await _move(client, brokers, found, found.plan)


async def _move(
    client: AdminClient, brokers: Sequence[int], found: Emptying, plan: Sequence[Assignment]
) -> Exit:
    refused = []
    if plan:
        write(moves_text.rollback(found.current))
        results = await client.alter_reassignments(plan)
        refused = [each for each in results if each.error_code]
        begun = [each.id for each in results if not each.error_code]
        if begun:
            write(moves_text.started(begun))
    write(text.progress(brokers, found))
    if refused:
        say(moves_text.not_started(refused))
    return Exit.FAILED if refused or found.leaderless else Exit.NOT_FINISHED


async def _emptied(client: AdminClient, brokers: Sequence[int], *, unregister: bool) -> Exit:
    write(text.emptied(brokers))
    registered = {each.id: each for each in (await client.broker_standings()).brokers}
    strange = [broker for broker in brokers if broker not in registered]
    if strange:
        write(text.not_registered(strange))
    if not unregister:
        return Exit.DONE
    there = [registered[broker] for broker in brokers if broker in registered]
    alive = [each.id for each in there if not each.is_fenced]
    for each in there:
        if each.is_fenced:
            await client.unregister_broker(each.id)
            write(text.not_registered([each.id]))
    if alive:
        say(text.still_alive(alive))
    return Exit.NOT_FINISHED if alive else Exit.DONE


async def recommission(whom: Target, brokers: Sequence[int]) -> Exit:
    """Let the brokers get replicas again, and cancel the moves that are emptying them."""
    async with whom.client() as client:
        results = await client.cordon_brokers(brokers, cordoned=False)
        unknown = [each for each in results if each.error_code]
        done = [each.broker_id for each in results if not each.error_code]
        if done:
            write(text.cordoned(done, cordoned=False))
        leaving = [
            Assignment(topic=one.topic, partition=one.partition, replicas=None)
            for one in await client.list_reassignments()
            if not set(brokers).isdisjoint(one.removing)
        ]
        answers = await client.alter_reassignments(leaving) if leaving else ()
    refused = [each for each in answers if each.error_code]
    cancelled = [each.id for each in answers if not each.error_code]
    if cancelled:
        write(moves_text.cancelled(cancelled))
    if refused:
        say(moves_text.not_cancelled(refused))
    if unknown:
        say(text.not_cordoned(unknown))
    return Exit.FAILED if refused or unknown else Exit.DONE
