"""`--generate`, `--dry-run`: what could be moved or rolled back, and what that would do.

Nothing is changed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from admin.capabilities.brokers import ListBrokers
from admin.capabilities.moves import RollBackMove, whole_plan
from admin.capabilities.reassignments import BeginMove
from admin.cli import moves_text, reassign_text
from admin.cli.options import Exit, Target, say, write
from admin.client.admin_client import AdminClient, Incompatible
from admin.client.log_sizes import log_sizes
from admin.model import Assignment, PartitionId, TopicDescription
from admin.plan_file import InvalidPlan, check_plan
from statemachine.reassignment.planner.generate import generate as generated
from statemachine.reassignment.planner.outcome import outcome
from statemachine.reassignment.planner.survey import Unplanned, at_once


def topics_of(plan: Sequence[Assignment]) -> list[str]:
    """The topics of the plan, in order."""
    return sorted({one.topic for one in plan})


def replicas_of(
    topics: Mapping[str, TopicDescription], plan: Sequence[Assignment]
) -> dict[PartitionId, Sequence[int]]:
    """Where the planned partitions are now; those that do not exist are left out."""
    planned = {one.id for one in plan}
    return {
        id: partition.replicas
        for topic in topics.values()
        for partition in topic.partitions
        if (id := PartitionId(topic.name, partition.partition)) in planned
    }


@dataclass(frozen=True, slots=True)
class Registered:
    """The brokers of the cluster."""

    racks: Mapping[int, str | None]
    """Of all that are registered; where nobody tells of the others, of those alive."""
    dead: Collection[int] = ()
    """Those that cannot copy anything now."""
    cordoned: Collection[int] = ()
    """Those that get no new replicas."""

    def awaited(
        self, plan: Sequence[Assignment], current: Mapping[PartitionId, Sequence[int]]
    ) -> list[int]:
        """The dead ones to which the plan copies something, in order."""
        wanted = {
            broker
            for one in plan
            for broker in one.replicas or ()
            if broker not in current.get(one.id, ())
        }
        return sorted(wanted & {*self.dead})


async def registered(client: AdminClient) -> Registered:
    """The brokers as they are now. Apache's brokers do not pass the question on to a controller."""
    try:
        found = await client.ask(ListBrokers())
    except Incompatible:
        return Registered({each.id: each.rack for each in await client.brokers()})
    return Registered(
        racks={each.broker_id: each.rack for each in found.brokers},
        dead={each.broker_id for each in found.brokers if each.state != "alive"},
        cordoned={each.broker_id for each in found.brokers if each.cordoned},
    )


Racks = dict[int, str | None]
Planned = Mapping[tuple[str, int], Sequence[int]]


async def generate(
    whom: Target, names: Sequence[str], onto: Sequence[int], *, rack_aware: bool
) -> Exit:
    """Print a plan that spreads these topics over these brokers, and the plan that leads back."""
    async with whom.client() as client:
        brokers = await registered(client)
        racks = _racks(brokers, onto, rack_aware=rack_aware)
        current = _replicas(await client.describe_topics(names), names)
        await _check_moves(client, names)
        plan = at_once(generated(current, racks, closed=brokers.cordoned))
        if isinstance(plan, Unplanned):
            say(f"Error: {plan.message}")
            return Exit.FAILED
        sizes = await log_sizes(client, _copied(current, plan))
    write(
        reassign_text.proposed(
            {PartitionId(*named): current[named] for named in plan},
            {PartitionId(*named): replicas for named, replicas in plan.items()},
        )
    )
    say(reassign_text.foreseen(outcome(current, plan, racks, sizes)))
    return Exit.DONE


async def foresee(whom: Target, plan: Sequence[Assignment]) -> Exit:
    """Print what executing the plan would do to the topics that it names, and begin nothing."""
    async with whom.client() as client:
        brokers = await registered(client)
        topics = await client.describe_topics(topics_of(plan))
        check_plan(plan, brokers=brokers.racks, topics=topics)
        current = _replicas(topics, topics_of(plan))
        wanted = {(one.topic, one.partition): one.replicas for one in plan if one.replicas}
        racks = _alive_or_wanted(brokers, plan)
        sizes = await log_sizes(client, _copied(current, wanted))
        write(reassign_text.foreseen(outcome(current, wanted, racks, sizes)))
        if awaited := brokers.awaited(plan, replicas_of(topics, plan)):
            say(reassign_text.awaited(awaited))
        try:
            tried = await client.begin_move(BeginMove(assignments=plan, dry_run=True))
        except Incompatible as error:
            say(f"The steps are not known: {error}")
            return Exit.DONE
    if tried.accepted:
        write(reassign_text.planned(tried))
    if not tried.refused:
        return Exit.DONE
    say(reassign_text.not_started(tried.refused))
    return Exit.FAILED


async def foresee_rollback(whom: Target, id: int) -> Exit:
    """Print what a rollback of a move would do, and begin nothing."""
    async with whom.client() as client:
        found = await client.ask(RollBackMove(move_id=id, dry_run=True))
        if told := moves_text.would_roll_back(id, found):
            write(told)
        if found.partitions_accepted:
            refused = {
                (each.topic, each.partition) for each in found.partitions if each.kafka_error_code
            }
            plan = await whole_plan(client.ask, id)
            await _foresee_return(
                client, {each: r for each, r in plan.originals.items() if each not in refused}
            )
    if not found.has_refusals:
        return Exit.DONE
    say(moves_text.refused(found))
    return Exit.FAILED


async def _foresee_return(client: AdminClient, back: Mapping[PartitionId, Sequence[int]]) -> None:
    """Print what it takes to give these partitions these replicas."""
    brokers = await registered(client)
    names = sorted({each.topic for each in back})
    current = _replicas(await client.describe_topics(names), names)
    wanted = {(each.topic, each.partition): tuple(back[each]) for each in back}
    plan = [Assignment(topic=t, partition=n, replicas=r) for (t, n), r in wanted.items()]
    racks = _alive_or_wanted(brokers, plan)
    sizes = await log_sizes(client, _copied(current, wanted))
    write(reassign_text.foreseen(outcome(current, wanted, racks, sizes)))


def _copied(current: Planned, plan: Planned) -> list[tuple[str, int]]:
    """The partitions of the plan that get a replica which they have not."""
    return [named for named in plan if not set(plan[named]) <= set(current[named])]


def _alive_or_wanted(brokers: Registered, plan: Sequence[Assignment]) -> Racks:
    """The brokers among which one looks for balance; a dead one only if the plan wants it."""
    wanted = {broker for one in plan for broker in one.replicas or ()}
    return {
        broker: rack
        for broker, rack in brokers.racks.items()
        if broker in wanted or broker not in brokers.dead
    }


def _racks(brokers: Registered, onto: Sequence[int], *, rack_aware: bool) -> Racks:
    """The brokers of the list with their racks; raises `InvalidPlan` for who can copy nothing."""
    for broker in onto:
        if broker not in brokers.racks:
            there = ", ".join(map(str, sorted(brokers.racks))) or "none"
            raise InvalidPlan(f"Unknown broker id {broker}; the brokers are {there}")
        if broker in brokers.dead:
            raise InvalidPlan(f"broker {broker} is not alive; leave out who cannot copy")
    if not rack_aware:
        return dict.fromkeys(onto)
    found = {broker: brokers.racks[broker] for broker in onto}
    known = [rack for rack in found.values() if rack is not None]
    if known and len(known) < len(found):
        raise InvalidPlan(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to"
            " make replica assignment without rack information."
        )
    return found


def _replicas(
    topics: Mapping[str, TopicDescription], names: Sequence[str]
) -> dict[tuple[str, int], tuple[int, ...]]:
    found: dict[tuple[str, int], tuple[int, ...]] = {}
    for name in names:
        topic = topics.get(name)
        if topic is None:
            raise InvalidPlan(f"Topic {name} not found.")
        for partition in topic.partitions:
            found[name, partition.partition] = tuple(partition.replicas)
    return found


async def _check_moves(client: AdminClient, names: Sequence[str]) -> None:
    """Raise `InvalidPlan` if replicas come and go: where they are says nothing of what is wanted.

    Asked after the replicas were read, it also tells of a move that had begun meanwhile.
    """
    moving = sorted(one.id for one in await client.list_reassignments() if one.topic in names)
    if moving:
        raise InvalidPlan(
            f"{moving[0]} is being reassigned, as are {len(moving) - 1} other partitions of these"
            " topics; wait until that is done, or cancel it"
            if len(moving) > 1
            else f"{moving[0]} is being reassigned; wait until that is done, or cancel it"
        )
