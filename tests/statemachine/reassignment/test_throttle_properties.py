"""Random operators, users, brokers and controllers: no throttle is left when no move runs, and what
users have set last is what they have.

While moves run, `reference_checks` verifies after every decision that added replicas are throttled.
"""

from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.configs.definitions import parts
from statemachine.image.image import Image
from statemachine.image.snapshot import begin
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from statemachine.reassignment.throttle import LISTS, RATES
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE
from tests.statemachine.image.test_snapshot_written import loaded, whole
from tests.statemachine.reassignment.test_scheduler import catch_up
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    ask,
    change,
)
from tests.statemachine.support.reference_checks import (
    check_image,
    check_throttled,
    contents,
    is_throttled,
    stands_still,
)
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick

BROKERS = range(1, 6)
PARTITIONS = range(4)
REPLICAS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
SOME_RATES = st.sampled_from([0, 100, 200, 300])
NUMBERS = st.sampled_from(PARTITIONS)
MOVE_IDS = st.integers(1, 6)
Key: TypeAlias = tuple[tuple[int, str], str]
RATE_KEYS: list[Key] = [
    ((BROKER_RESOURCE, str(broker_id)), name) for broker_id in BROKERS for name in RATES
]
LIST_KEYS: list[Key] = [(TOPIC, name) for name in LISTS]
USERS_PAIRS = st.lists(st.sampled_from(["0:9", "1:9", "2:8"]), min_size=1, unique=True)
"""List entries of users, with brokers that no move uses, to tell the two apart."""


class Watched(World):
    """A cluster, its log, and what users have set of throttles as they know it."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.users: dict[Key, str] = {}
        super().__init__(broker_count=len(BROKERS))
        for number in PARTITIONS:
            replicas = tuple((number + place) % 5 + 1 for place in range(1 + number % 3))
            self.given(replicas=replicas, isr=replicas, leader=replicas[0])

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        self.log.append(encode(record, self.image.level))
        super().replay(record, written)
        if isinstance(record, kafka_records.PartitionChange):
            self.judge(record.partition_id)

    def judge(self, number: int) -> None:
        """At each offset, what is being added to a partition is held up already."""
        partition = self.partition(number)
        move_id = partition.stage.move
        if partition.adding and is_throttled(self.image, move_id):
            if stands_still(self.image, move_id):
                return  # `check_throttles` knows which of them.
            new = set(partition.adding) - set(partition.original)
            check_throttled(self.image, move_id, ("t", number), "follower", new)
            leaders = {*partition.target, *partition.original} if new else set()
            check_throttled(self.image, move_id, ("t", number), "leader", leaders)

    def set_by_user(self, key: Key, operation: int, value: str | None) -> None:
        """A user does this with a configuration; what he has then, by his own account."""
        ask(self, change(key[0], (key[1], operation, value)))
        before = parts(self.users.get(key, ""))
        if operation == SET:
            assert value is not None
            self.users[key] = value
        elif operation == DELETE:
            self.users.pop(key, None)
        elif operation == APPEND:
            self.users[key] = ",".join(dict.fromkeys([*before, *parts(value or "")]))
        else:
            self.users[key] = ",".join(p for p in before if p not in parts(value or ""))

    def throttles(self) -> dict[Key, str]:
        """The configurations that are set."""
        return {
            key: self.image.configs[key[0]][key[1]]
            for key in (*RATE_KEYS, *LIST_KEYS)
            if key[1] in self.image.configs.get(key[0], {})
        }

    def fail_over(self, *, by_snapshot: bool) -> None:
        """Another controller goes on, from the log or from a snapshot."""
        image = Image()
        for value in self.log:
            replay(image, decode(value), image.end_offset)
        if by_snapshot:
            image = loaded(whole(begin(image, image.end_offset)), image.end_offset)
        assert contents(image) == contents(self.image)
        self.image = image


def begin_move(data: st.DataObject, world: Watched) -> None:
    """One or more partitions are to have other replicas, at some rate or at any."""
    asked = data.draw(st.dictionaries(st.sampled_from(PARTITIONS), REPLICAS, min_size=1))
    world.ask(
        commands.BeginMove(
            reassignments=tuple(
                commands.Reassignment(topic="t", partition=number, replicas=replicas)
                for number, replicas in asked.items()
            ),
            throttle_bytes_per_s=data.draw(SOME_RATES),
        )
    )


def use(data: st.DataObject, world: Watched) -> None:
    """A user sets, removes, adds to or takes from what is his."""
    if data.draw(st.booleans()):
        operation = data.draw(st.sampled_from([SET, DELETE]))
        value = None if operation == DELETE else data.draw(st.sampled_from(["1", "100", "900"]))
        world.set_by_user(data.draw(st.sampled_from(RATE_KEYS)), operation, value)
        return
    operation = data.draw(st.sampled_from([SET, DELETE, APPEND, SUBTRACT]))
    key = data.draw(st.sampled_from(LIST_KEYS))
    pairs = None if operation == DELETE else ",".join(data.draw(USERS_PAIRS))
    world.set_by_user(key, operation, pairs)


def alter(data: st.DataObject, world: Watched) -> None:
    """A move is to go on at another rate."""
    rate = data.draw(SOME_RATES)
    world.ask(commands.AlterMove(move_id=data.draw(MOVE_IDS), throttle_bytes_per_s=rate))


def cancel(data: st.DataObject, world: Watched) -> None:
    """A move, or a partition, is to be as it was."""
    named = (("t", data.draw(NUMBERS)),)
    world.ask(commands.CancelMoves(moves=(data.draw(MOVE_IDS),), partitions=named))


def copy(data: st.DataObject, world: Watched) -> None:
    """All replicas of a partition that live catch up."""
    number = data.draw(NUMBERS)
    if world.partition(number).leader != -1:
        catch_up(world, number)


def limit(data: st.DataObject, world: Watched) -> None:
    """One at a time, or as many as there are."""
    name = data.draw(st.sampled_from([PARALLEL_PARTITIONS, PARALLEL_REPLICAS]))
    value = data.draw(st.sampled_from(["1", None]))
    ask(world, change(ALL_BROKERS, (name, DELETE if value is None else SET, value)))


def fence_or_return(data: st.DataObject, world: Watched) -> None:
    """A broker dies, or is heard of again."""
    broker_id = data.draw(st.sampled_from(BROKERS))
    if data.draw(st.booleans()):
        world.fence(broker_id)
    else:
        world.heartbeat(broker_id)


def roll_back(data: st.DataObject, world: Watched) -> None:
    """Roll back what a move has done."""
    world.ask(commands.RollBackMove(move_id=data.draw(MOVE_IDS)))


def pause_or_resume(data: st.DataObject, world: Watched) -> None:
    """One move or all, those to come as well."""
    moves = data.draw(st.sampled_from([None, (1,), (2,)]))
    paused, after_step = data.draw(st.booleans()), data.draw(st.booleans())
    world.ask(commands.PauseMoves(moves=moves, paused=paused, after_step=after_step))


def fail_over(data: st.DataObject, world: Watched) -> None:
    """Another controller goes on, and looks after what is left over."""
    world.fail_over(by_snapshot=data.draw(st.booleans()))
    world.ask(commands.AdvanceMoves())


OFTEN = (begin_move, begin_move, alter, cancel, copy, copy, use, use)
NOW_AND_THEN = (limit, fence_or_return, fence_or_return, roll_back, pause_or_resume, fail_over)


def happen(data: st.DataObject, world: Watched) -> None:
    """Something that an operator, a user, a broker or a controller does."""
    make = data.draw(st.sampled_from((*OFTEN, *OFTEN, *NOW_AND_THEN)))
    make(data, world)


def end_all(data: st.DataObject, world: Watched) -> None:
    """Every move ends, one way or another, whoever of the brokers is down."""
    if data.draw(st.booleans()):
        for broker_id in BROKERS:
            world.heartbeat(broker_id)
        for number in PARTITIONS:
            catch_up(world, number)
    if data.draw(st.sampled_from([False, False, True])):
        world.users = {key: value for key, value in world.users.items() if key not in LIST_KEYS}
        world.ask(commands.DeleteTopics(topics=("t",)))
    world.ask(commands.CancelMoves(everything=True))
    # A cancel is refused where nobody could lead; then all come back.
    for broker_id in BROKERS:
        world.heartbeat(broker_id)
    world.ask(commands.CancelMoves(everything=True))


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(80), deadline=None)
@given(data=st.data())
def test_without_moves_no_throttle_is_left_and_users_have_their_last_values(
    data: st.DataObject,
) -> None:
    world = Watched()
    for _ in range(data.draw(st.integers(3, 25))):
        happen(data, world)
    end_all(data, world)
    check_image(world.image)
    assert all(move.ended is not None for move in world.image.moves.values())
    assert world.image.owned == {}
    assert world.throttles() == world.users
