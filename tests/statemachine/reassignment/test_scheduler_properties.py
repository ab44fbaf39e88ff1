"""Random operators, brokers and settings: no limit is exceeded, and all moves end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.scheduler.queue import ReassignmentQueue
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import CLUSTER_CONFIGS, COMPLETION_RULE
from statemachine.records import kafka_records
from statemachine.slices import whole
from tests.statemachine.support.config_requests import ALL_BROKERS, DELETE, SET, change
from tests.statemachine.support.world import TOPIC_ID, World
from tests.support.parameters import at_most_in_quick

BROKERS = range(1, 7)
PARTITIONS = range(6)
REPLICAS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
LIMIT_NAMES = sorted(name for name in CLUSTER_CONFIGS if name != COMPLETION_RULE)
VALUES = st.sampled_from(["1", "2", "3", None])


class Judged(World):
    """A cluster in which every record that begins a step is held against the limits."""

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        """As ever; then count what is under way, by looking at every partition."""
        before = self.image.topics.get(TOPIC_ID)
        steps = [] if before is None else [each.stage.step for _, each in before.existing()]
        super().replay(record, written)
        if isinstance(record, kafka_records.PartitionChange):
            after = self.partition(record.partition_id)
            if after.steps and after.stage.step > steps[record.partition_id]:
                self.judge(after)

    def judge(self, begun: PartitionRegistration) -> None:
        """Steps that have just begun are within the current limits."""
        under_way = [each for _, each in self.image.topics[TOPIC_ID].existing() if each.steps]
        assert len(under_way) <= self.limit("reassignment.parallel.partition.count")
        adding = sum(len(each.adding) for each in under_way)
        assert adding <= self.limit("reassignment.max.concurrent.replica.movements")
        if moves_leader(begun):
            leaders = sum(moves_leader(each) for each in under_way)
            assert leaders <= self.limit("reassignment.parallel.leader.movements")
        most = self.limit("reassignment.parallel.replica.count")
        assert len(begun.removing) <= most
        if len(begun.isr) >= min(2, len(begun.replicas) - len(begun.adding)):
            assert len(begun.adding) <= most

    def limit(self, name: str) -> int:
        """The value of a limit; more than there can be of anything, if it is not set."""
        return int(self.image.configs.get((4, ""), {}).get(name, "1000"))


def moves_leader(partition: PartitionRegistration) -> bool:
    """True if the leader changes once the step is complete, as the protocol's text has it."""
    return partition.target[0] in partition.adding or partition.leader in partition.removing


def a_world() -> Judged:
    """Six partitions on six brokers, min ISR 2."""
    world = Judged(broker_count=len(BROKERS))
    for number in PARTITIONS:
        replicas = tuple((number + place) % 6 + 1 for place in range(1 + number % 4))
        configs = {"min.insync.replicas": "2"} if number == 0 else None
        world.given(replicas=replicas, isr=replicas, leader=replicas[0], configs=configs)
    return world


def happen(data: st.DataObject, world: World) -> None:
    """Something that an operator or a broker does."""
    number = data.draw(st.sampled_from(PARTITIONS))
    match data.draw(st.sampled_from("mmmmccccclfra")):
        case "m":
            world.reassign(*data.draw(REPLICAS), number=number)
        case "c":
            catch_up(world, number, data.draw(st.booleans()))
        case "l":
            value = data.draw(VALUES)
            op = (data.draw(st.sampled_from(LIMIT_NAMES)), DELETE if value is None else SET, value)
            world.ask(commands.IncrementalAlterConfigs(changes=(change(ALL_BROKERS, op),)))
        case "f":
            world.fence(data.draw(st.sampled_from(BROKERS)))
        case "r":
            world.heartbeat(data.draw(st.sampled_from(BROKERS)))
        case _:
            world.cancel(number)


def catch_up(world: World, number: int, everyone: bool) -> None:
    """The leader, if there is one, has all that are alive in sync, or one more."""
    partition = world.partition(number)
    if partition.leader == -1:
        return
    live = [r for r in partition.replicas if world.image.brokers[r].live]
    behind = [r for r in live if r not in partition.isr]
    world.sync(*partition.isr, *(behind if everyone else behind[:1]), number=number)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60), deadline=None)
@given(data=st.data())
def test_no_limit_is_exceeded_and_every_move_ends(data: st.DataObject) -> None:
    world = a_world()
    for _ in range(data.draw(st.integers(5, 40))):
        happen(data, world)
    for broker_id in BROKERS:
        world.heartbeat(broker_id)
    for _ in range(60):
        if not world.image.index.moving:
            break
        for number in PARTITIONS:
            catch_up(world, number, everyone=True)
    left = [world.partition(n) for n in PARTITIONS if world.partition(n).moving]
    assert not left, "all are alive and in sync, and these do not go on"


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40), deadline=None)
@given(data=st.data())
def test_the_queue_that_is_kept_is_the_queue_of_the_image(data: st.DataObject) -> None:
    world = a_world()
    for _ in range(data.draw(st.integers(5, 30))):
        happen(data, world)
        if not world.scheduler.has_queue:
            continue
        kept = said(whole(world.scheduler.queue_of(world.image)))
        anew = whole(Scheduler().queue_of(world.image))
        assert kept == said(anew)


def said(queue: ReassignmentQueue) -> dict[str, object]:
    """The contents of the queue, by keys."""

    def keys(bitmap: object) -> set[int]:
        return {queue.key_at(position) for position in bitmap}  # type: ignore[attr-defined]

    return {
        "groups": {group: keys(found) for group, found in queue.groups.items()},
        "under_min_isr": keys(queue.under_min_isr),
        "of_move": {move: keys(found) for move, found in queue.of_move.items()},
        "waiting_for": {broker: keys(found) for broker, found in queue.waiting_for.items()},
    }


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40), deadline=None)
@given(data=st.data())
def test_a_new_controller_builds_the_same_queue(data: st.DataObject) -> None:
    """A new controller goes on in the same order: the queue follows from the image."""
    world = a_world()
    for _ in range(data.draw(st.integers(5, 30))):
        happen(data, world)
    kept = whole(world.scheduler.queue_of(world.image))
    order = sorted((kept.position(key), key) for key in world.image.index.moving)
    anew = whole(Scheduler().queue_of(world.image))
    assert [key for _, key in order] == [
        key for _, key in sorted((anew.position(key), key) for key in world.image.index.moving)
    ]
