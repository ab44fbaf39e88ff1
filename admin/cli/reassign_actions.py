"""The actions of `reassign-partitions`: generate, execute, verify, cancel, list."""

import asyncio
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.capabilities.brokers import ListBrokers
from admin.capabilities.moves import DescribeMove, MovesChanged, whole_plan
from admin.capabilities.paging import PAGE_SIZE_MAX, every_page
from admin.capabilities.plan_steps import foreseen
from admin.capabilities.plans import being_reassigned
from admin.capabilities.reassignments import BeginMove, BegunMove
from admin.cli import reassign_text as text
from admin.cli.move_progress import throttled_as_by_kafka, wait_for
from admin.cli.options import (
    STDIN,
    BadInput,
    Exit,
    Target,
    command_line,
    finish,
    say,
    show,
    write,
)
from admin.cli.output import ids
from admin.cli.plans import ask_with_key, effects
from admin.client.admin_client import AdminClient, Incompatible
from admin.client.log_sizes import bytes_at, copied
from admin.model import Assignment, PartitionId, TopicDescription
from admin.plan_file import InvalidPlan, check_plan, missing, render_plan
from controller.move_requests import OngoingReassignment
from statemachine.reassignment.planner.plans import Unplanned
from statemachine.reassignment.planner.plans import generate as generated
from statemachine.slices import whole

Racks = dict[int, str | None]
Replicas = dict[PartitionId, tuple[int, ...]]


def _topics_of(plan: Iterable[Assignment]) -> list[str]:
    """The topics of the plan, sorted."""
    return sorted({one.topic for one in plan})


def _replicas(topics: Mapping[str, TopicDescription]) -> Replicas:
    """The replicas of all partitions of the topics."""
    return {
        PartitionId(name, partition.partition): tuple(partition.replicas)
        for name, topic in topics.items()
        for partition in topic.partitions
    }


@dataclass(frozen=True, slots=True)
class _Registered:
    """The registered brokers of the cluster."""

    racks: Racks
    """Of all registered brokers; through one of Kafka's brokers, of those alive."""
    dead: Collection[int] = ()
    """Brokers that are not alive."""
    cordoned: Collection[int] = ()
    """Brokers that get no new replicas."""

    def alive(self) -> Sequence[int]:
        """The brokers that are alive; raises `InvalidPlan` if there are none."""
        found = sorted({*self.racks} - {*self.dead})
        if not found:
            raise InvalidPlan("no broker is alive")
        return found

    def say_emptied(self, current: Replicas, onto: Sequence[int]) -> None:
        """Warn of dead brokers whose replicas a plan takes away."""
        held = {broker for replicas in current.values() for broker in replicas}
        if emptied := sorted(held & {*self.dead} - {*onto}):
            say(f"Not alive: {ids(emptied)}; the plan takes their replicas away.")

    def say_awaited(self, plan: Sequence[Assignment], current: Replicas) -> None:
        """Warn of dead brokers that get a new replica from the plan."""
        wanted = {
            broker
            for one in plan
            for broker in one.replicas or ()
            if broker not in current.get(one.id, ())
        }
        if awaited := sorted(wanted & {*self.dead}):
            say(f"Not alive: {ids(awaited)}; new replicas wait for them to come back.")


async def _registered(client: AdminClient) -> _Registered:
    """Fetch the registered brokers; Kafka's own brokers report only those alive."""
    try:
        asked = ListBrokers(page_size=PAGE_SIZE_MAX)
        found = (await every_page(client.ask, asked)).brokers
    except Incompatible:
        return _Registered({each.id: each.rack for each in await client.brokers()})
    return _Registered(
        racks={each.broker_id: each.rack for each in found},
        dead={each.broker_id for each in found if each.state != "alive"},
        cordoned={each.broker_id for each in found if not each.gets_new_replicas},
    )


async def generate(
    target: Target,
    names: Sequence[str] | None,
    onto: Sequence[int] | None,
    *,
    rack_aware: bool,
    plan_file: Path | None = None,
) -> Exit:
    """Print a plan that spreads topics over brokers, and the plan that undoes it.

    None stands for all topics, and for all brokers that are alive. With a file, the plan alone is
    written there.
    """
    async with target.client() as client:
        brokers = await _registered(client)
        if onto is None:
            onto = brokers.alive()
        racks = _racks(brokers, onto, rack_aware=rack_aware)
        topics = await client.describe_topics(names)
        for name in names or ():
            if name not in topics:
                raise InvalidPlan(f"Topic {name} not found.")
        current = _replicas(topics)
        await _check_moves(client, topics)
        brokers.say_emptied(current, onto)
        plan = whole(generated(dict(current.items()), racks, closed=brokers.cordoned))
        if isinstance(plan, Unplanned):
            return finish(errors=[f"Error: {plan.message}"])
        wanted = {PartitionId(*named): replicas for named, replicas in plan.items()}
        would = await _effects(client, current, wanted, racks)
    if plan_file is None:
        write(text.proposed({named: current[named] for named in wanted}, wanted))
    else:
        _write_plan(plan_file, wanted)
    say(would)
    return Exit.DONE


def _write_plan(file: Path, wanted: Replicas) -> None:
    """Write a plan for `--execute` to a new file, or to stdout for `-`."""
    if file == STDIN:
        write(render_plan(wanted))
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(f"{render_plan(wanted)}\n")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None
    execute = f"reassign-partitions --execute --reassignment-json-file {shlex.quote(str(file))}"
    say(f"The plan is in {file}. To carry it out: {command_line()} {execute}")


async def foresee(target: Target, plan: Sequence[Assignment]) -> Exit:
    """Print the effects and the steps of a plan."""
    async with target.client() as client:
        brokers = await _registered(client)
        topics = await client.describe_topics(_topics_of(plan))
        check_plan(plan, brokers=brokers.racks, topics=topics)
        current = _replicas(topics)
        wanted = {one.id: one.replicas for one in plan if one.replicas}
        write(await _effects(client, current, wanted, _alive_or_wanted(brokers, wanted)))
        brokers.say_awaited(plan, current)
        try:
            tried = await client.begin_move(BeginMove(assignments=plan, dry_run=True))
        except Incompatible as error:
            say(f"Steps unknown: {error}")
            return Exit.DONE
    return finish(text.planned(tried) if tried.accepted else "", text.not_started(tried.refused))


async def foresee_rollback(client: AdminClient, move_id: int, tried: MovesChanged) -> None:
    """Print the effects of a rollback that was tried."""
    refused = {(each.topic, each.partition) for each in tried.partitions if each.kafka_error_code}
    plan = await whole_plan(client.ask, move_id)
    wanted = {each: old for each, old in plan.originals.items() if each not in refused}
    brokers = await _registered(client)
    current = _replicas(await client.describe_topics(sorted({each.topic for each in wanted})))
    write(await _effects(client, current, wanted, _alive_or_wanted(brokers, wanted)))


async def _effects(client: AdminClient, current: Replicas, wanted: Replicas, racks: Racks) -> str:
    """Return the effects of changing the replicas `current` to `wanted` in some partitions."""
    now: dict[tuple[str, int], tuple[int, ...]] = dict(current.items())
    then: dict[tuple[str, int], tuple[int, ...]] = dict(wanted.items())
    alive = [each.address for each in await client.brokers()]
    moved = await bytes_at(alive, copied(current, wanted), client.security)
    partitions = sum(then[each] != now[each] for each in then)
    return effects(partitions, await foreseen(now, then, racks), moved.bytes_moved)


def _alive_or_wanted(brokers: _Registered, wanted: Replicas) -> Racks:
    """The brokers over which balance is computed: those alive or named by the plan."""
    named = {broker for replicas in wanted.values() for broker in replicas}
    return {
        broker: rack
        for broker, rack in brokers.racks.items()
        if broker in named or broker not in brokers.dead
    }


def _racks(brokers: _Registered, onto: Sequence[int], *, rack_aware: bool) -> Racks:
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


async def _check_moves(client: AdminClient, names: Collection[str]) -> None:
    """Raise `InvalidPlan` if one of the topics is being reassigned.

    Called after the replicas were read, so that a move that began meanwhile is noticed.
    """
    moving = sorted(one.id for one in await client.list_reassignments() if one.topic in names)
    if moving:
        raise InvalidPlan(being_reassigned(moving))


async def execute(target: Target, asked: BeginMove, *, additional: bool, wait: bool) -> Exit:
    """Execute a plan: begin a move. Refused during other moves, unless `additional`."""
    async with target.client() as client:
        underway = await client.list_reassignments()
        if underway and not additional and not (asked.key and _is_part_of(underway, asked)):
            return finish(errors=[text.EXISTING_REASSIGNMENT])
        brokers = await _registered(client)
        topics = await client.describe_topics(_topics_of(asked.assignments))
        check_plan(asked.assignments, brokers=brokers.racks, topics=topics)
        current = _replicas(topics)
        write(text.rollback({one.id: current[one.id] for one in asked.assignments}))
        brokers.say_awaited(asked.assignments, current)
        begun = await ask_with_key(asked, client.begin_move)
        done = _report(begun)
        try:
            return max(done, await _follow(target, client, asked, begun, wait=wait))
        except Incompatible as error:
            say(f"{error}, or use --verify")
            return max(done, Exit.NOT_FINISHED) if wait else done


async def _follow(
    target: Target, client: AdminClient, asked: BeginMove, begun: BegunMove, *, wait: bool
) -> Exit:
    """Show the throttle and, if requested, wait for the end; raises `Incompatible`."""
    if begun.move_id and asked.is_throttled:
        # An earlier attempt, or another user, may have begun it with another throttle.
        # A broker of Kafka's passes the throttle on, but not the question about it.
        with suppress(Incompatible):
            write(throttled_as_by_kafka(await client.ask(DescribeMove(move_id=begun.move_id))))
    if not wait:
        return Exit.DONE
    if begun.move_id:
        return await wait_for(client, begun.move_id, is_begun=True, within_ms=target.wait_ms)
    wanted = {one.id for one in asked.assignments}
    if any(one.id in wanted for one in await client.list_reassignments()):
        raise Incompatible(
            "the active controller has begun no move: ask a controller or an embedded broker about "
            "moves"
        )
    return Exit.DONE


def _is_part_of(underway: Sequence[OngoingReassignment], asked: BeginMove) -> bool:
    """Check whether an earlier attempt of this request explains all running reassignments."""
    wanted = {one.id: one.replicas for one in asked.assignments}
    return all(one.target == wanted.get(one.id) for one in underway)


def _report(begun: BegunMove) -> Exit:
    if not begun.move_id and begun.accepted and all(one.replicas for one in begun.accepted):
        # A controller that returns the replicas knows moves, and has begun none.
        say(text.NOTHING_BEGUN)
    elif begun.accepted:
        write(text.started([one.id for one in begun.accepted]))
    if begun.move_id:
        write(f"Move id: {begun.move_id}")
    if begun.repeated and begun.move_id:
        say(text.original(begun.move_id))
    return finish(errors=text.not_started(begun.refused))


async def cancel(target: Target, plan: Sequence[Assignment]) -> Exit:
    """Cancel the running reassignments of the plan."""
    async with target.client() as client:
        active = {one.id for one in await client.list_reassignments()}
        topics = await client.describe_topics(_topics_of(plan))
        done = await _cancel(client, [one.id for one in plan if one.id in active])
    # The rest is cancelled even if a topic was deleted since the plan was made.
    errors = [f"Error: {sentence}" for sentence in missing(plan, _replicas(topics))]
    return max(done, finish(errors=errors))


async def cancel_all(target: Target) -> Exit:
    """Cancel all reassignments, by Kafka's own request, which any controller serves."""
    async with target.client() as client:
        return await _cancel(client, [one.id for one in await client.list_reassignments()])


async def _cancel(client: AdminClient, active: Sequence[PartitionId]) -> Exit:
    if not active:
        write(text.NOTHING_ACTIVE)
        return Exit.DONE
    wanted = [Assignment(topic=topic, partition=n, replicas=None) for topic, n in active]
    found = await client.begin_move(BeginMove(assignments=wanted))
    if found.accepted:
        write(text.cancelled([one.id for one in found.accepted]))
        if any(one.replicas for one in found.accepted):
            say(f"Replicas now:\n{text.replicas(found.accepted, len(found.accepted))}")
    return finish(errors=text.not_cancelled(found.refused))


BEHIND_SECONDS_MAX: Final = 0.75
"""The time that the broker which describes the topics may be behind the controller."""
VERIFY_PAUSE_SECONDS: Final = 0.25


async def verify(target: Target, plan: Sequence[Assignment], output: str) -> Exit:
    """Show the progress of the plan."""
    async with target.client() as client:
        states = await plan_states(client, plan)
    show(states, output, text.verified, text.verified_data)
    statuses = {state.status for state in states}
    if text.MoveStatus.NOT_AS_PLANNED in statuses:
        return Exit.FAILED
    return Exit.NOT_FINISHED if text.MoveStatus.IN_PROGRESS in statuses else Exit.DONE


async def plan_states(
    client: AdminClient, plan: Sequence[Assignment], within_seconds: float = BEHIND_SECONDS_MAX
) -> list[text.MoveState]:
    """The states of the planned partitions; asked again for a time if any is not as planned."""
    now = asyncio.get_running_loop().time
    deadline = now() + within_seconds
    while True:
        active = {one.id for one in await client.list_reassignments()}
        topics = await client.describe_topics(_topics_of(plan))
        states = text.move_states(plan, active, _replicas(topics))
        if now() >= deadline or all(
            each.status is not text.MoveStatus.NOT_AS_PLANNED for each in states
        ):
            return states
        await asyncio.sleep(VERIFY_PAUSE_SECONDS)


async def list_active(target: Target, output: str, *, stale: bool) -> Exit:
    """List the running reassignments."""
    async with target.client() as client:
        active = await client.reassignments(stale=stale)
    show(active, output, lambda active: text.listed(active.value), text.listed_data)
    return Exit.DONE
