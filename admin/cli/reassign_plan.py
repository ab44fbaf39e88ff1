"""Plans that the command line makes or previews: `--generate`, `--dry-run`. Changes nothing."""

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
    """The topics of the plan, sorted."""
    return sorted({one.topic for one in plan})


def replicas_of(
    topics: Mapping[str, TopicDescription], plan: Sequence[Assignment]
) -> dict[PartitionId, Sequence[int]]:
    """The replicas of the planned partitions; partitions that do not exist are left out."""
    planned = {one.id for one in plan}
    return {
        id: partition.replicas
        for topic in topics.values()
        for partition in topic.partitions
        if (id := PartitionId(topic.name, partition.partition)) in planned
    }


@dataclass(frozen=True, slots=True)
class Registered:
    """The registered brokers of the cluster."""

    racks: Mapping[int, str | None]
    """Of all registered brokers; through one of Kafka's brokers, of those alive."""
    dead: Collection[int] = ()
    """Brokers that are not alive."""
    cordoned: Collection[int] = ()
    """Brokers that get no new replicas."""

    def awaited(
        self, plan: Sequence[Assignment], current: Mapping[PartitionId, Sequence[int]]
    ) -> list[int]:
        """The dead brokers that get a new replica from the plan, sorted."""
        wanted = {
            broker
            for one in plan
            for broker in one.replicas or ()
            if broker not in current.get(one.id, ())
        }
        return sorted(wanted & {*self.dead})


async def registered(client: AdminClient) -> Registered:
    """Fetch the registered brokers; Kafka's own brokers report only those alive."""
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
    """Print a plan that spreads topics over brokers, and the plan that undoes it."""
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
    """Print the effects and the steps of a plan."""
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
            say(f"Steps unknown: {error}")
            return Exit.DONE
    if tried.accepted:
        write(reassign_text.planned(tried))
    if not tried.refused:
        return Exit.DONE
    say(reassign_text.not_started(tried.refused))
    return Exit.FAILED


async def foresee_rollback(whom: Target, id: int) -> Exit:
    """Print the effects of a rollback."""
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
    """Print the effects of restoring these replicas."""
    brokers = await registered(client)
    names = sorted({each.topic for each in back})
    current = _replicas(await client.describe_topics(names), names)
    wanted = {(each.topic, each.partition): tuple(back[each]) for each in back}
    plan = [Assignment(topic=t, partition=n, replicas=r) for (t, n), r in wanted.items()]
    racks = _alive_or_wanted(brokers, plan)
    sizes = await log_sizes(client, _copied(current, wanted))
    write(reassign_text.foreseen(outcome(current, wanted, racks, sizes)))


def _copied(current: Planned, plan: Planned) -> list[tuple[str, int]]:
    """The partitions of the plan that get a new replica."""
    return [named for named in plan if not set(plan[named]) <= set(current[named])]


def _alive_or_wanted(brokers: Registered, plan: Sequence[Assignment]) -> Racks:
    """The brokers over which balance is computed: those alive or named by the plan."""
    wanted = {broker for one in plan for broker in one.replicas or ()}
    return {
        broker: rack
        for broker, rack in brokers.racks.items()
        if broker in wanted or broker not in brokers.dead
    }


def _racks(brokers: Registered, onto: Sequence[int], *, rack_aware: bool) -> Racks:
    """The listed brokers with their racks; raises `InvalidPlan` for unknown or dead ones."""
    for broker in onto:
        if broker not in brokers.racks:
            there = ", ".join(map(str, sorted(brokers.racks))) or "none"
            raise InvalidPlan(f"Unknown broker id {broker}; the brokers are {there}")
        if broker in brokers.dead:
            raise InvalidPlan(f"broker {broker} is not alive and cannot copy; leave it out")
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
    """Raise `InvalidPlan` if one of the topics is being reassigned.

    Called after the replicas were read, so that a move that began meanwhile is noticed.
    """
    moving = sorted(one.id for one in await client.list_reassignments() if one.topic in names)
    if moving:
        raise InvalidPlan(
            f"{moving[0]} is being reassigned, as are {len(moving) - 1} other partitions of these"
            " topics; wait until that is done, or cancel it"
            if len(moving) > 1
            else f"{moving[0]} is being reassigned; wait until that is done, or cancel it"
        )
