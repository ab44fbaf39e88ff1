"""Records that Kafka does not have: their bytes, and their effect on an image."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from statemachine.image.image import Image
from statemachine.image.snapshot import begin
from statemachine.reassignment.move import Left, outcome_of
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import decode, encode, plan_bytes, plan_of
from statemachine.records.field_names import as_kafka, ours
from statemachine.records.primitives import MalformedRecord
from statemachine.vocabulary import MoveOutcome
from tests.statemachine.image.test_snapshot_written import append, loaded, whole
from tests.statemachine.support.own_schemas import OURS, written, written_plan
from tests.statemachine.support.random_records import struct_of, values_of
from tests.statemachine.support.world import TOPIC_ID, World
from tests.statemachine.test_replay import change
from tests.support.parameters import at_most_in_quick


def a_move(move_id: int = 1) -> own_records.MoveBegun:
    """Someone has asked for it."""
    return own_records.MoveBegun(
        id=move_id, kind=0, who="User:ann", asked_at_ms=1_000, partitions=2, refused=0
    )


TAGGED = b"\x91\x4e"
"""Tag 10001, as a varint."""


def test_the_oracle_knows_every_fact() -> None:
    assert set(OURS) == set(get_args(own_records.OurRecord))


@pytest.mark.parametrize("shape", OURS, ids=lambda shape: shape.__name__)
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data())
def test_our_records_equal_kios_bytes_and_are_read_back(
    shape: type[Struct], data: st.DataObject
) -> None:
    record = data.draw(struct_of(shape, OURS[shape][1]))
    value = encode(record, 29)
    assert value == written(record)
    assert decode(memoryview(value)) == record


@given(topics=values_of("[]planned_topic"))
def test_a_plan_has_the_bytes_of_kio_and_comes_back(
    topics: tuple[own_records.PlannedTopic, ...],
) -> None:
    plan = plan_bytes(topics)
    assert plan == written_plan(topics)
    assert plan_of(plan) == topics


def test_to_kafka_they_are_no_ops_and_our_dump_shows_what_they_say() -> None:
    planned = own_records.PlannedPartition(number=3, target=(4, 5), original=(1, 2))
    topic = own_records.PlannedTopic(topic_id=TOPIC_ID, partitions=(planned,))
    part = own_records.MovePart(id=7, part=0, plan=plan_bytes((topic,)))
    assert encode(part, 29)[:3] == b"\x01\x14\x00"
    assert as_kafka(part, 0) == {}
    told = {"number": 3, "target": [4, 5], "original": [1, 2]}
    assert ours(part) == {
        "movePart": {"id": 7, "part": 0, "plan": [{"topicId": TOPIC_ID, "partitions": [told]}]}
    }
    assert ours(kafka_records.NoOp()) == {}


def test_a_version_that_is_not_known_is_refused_by_name() -> None:
    value = encode(own_records.MovesForgotten(through=7), 29)
    newer = value.replace(b"\x0a\x00", b"\x0a\x01", 1)
    assert newer != value
    with pytest.raises(MalformedRecord, match="version 1 of MovesForgotten is not known"):
        decode(newer)


def test_a_tag_that_is_not_known_is_skipped_in_the_fact_and_beside_it() -> None:
    fact = own_records.KeysForgotten(through_ms=5)
    value = encode(fact, 29)
    beside = value[:3] + b"\x02" + value[4:] + b"\xa0\x9c\x01" + b"\x02ab"
    assert decode(beside) == fact
    assert value[-1] == 0
    within = value[:6] + bytes((value[6] + 4,)) + value[7:-1] + b"\x01\x63\x02ab"
    assert decode(within) == fact
    assert decode(b"\x01\x14\x00\x01\xa0\x9c\x01\x02ab") == kafka_records.NoOp()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x01" + TAGGED + b"\x00", "ends early"),
        (b"\x01" + TAGGED + b"\x02\x00\x00", "ends early"),
        (b"\x02\x94\x4e\x0a" + bytes(10) + b"\x94\x4e\x0a" + bytes(10), "a second record"),
        (b"\x01\x94\x4e\x0b" + bytes(11), "tag 10004 (MovesForgotten) is not as long"),
    ],
)
def test_bytes_that_are_no_fact_are_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecord) as refused:
        decode(b"\x01\x14\x00" + body)
    assert reason in str(refused.value)


def test_a_plan_that_is_none_is_refused_with_the_reason() -> None:
    for plan, reason in ((b"", "ends early"), (b"\x01\x00", "ends at byte 1 of 2")):
        with pytest.raises(MalformedRecord, match=reason):
            plan_of(plan)


# What they do.


def attached(number: int, target: tuple[int, ...], move: int = 1) -> kafka_records.PartitionChange:
    """The partition is to have these replicas, for this move, and waits."""
    return change(number, target=target, original=(1, 2), move=move)


@pytest.fixture
def world() -> World:
    """Partitions 0 and 1 on brokers 1 and 2; move 1 has begun, of both of them."""
    world = World(broker_count=4)
    for _ in range(2):
        world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.replay(a_move())
    for number in (0, 1):
        append(world.image, attached(number, (3, 4)))
    return world


def test_partitions_belong_to_a_move_until_they_leave_it_and_that_is_counted(world: World) -> None:
    image = world.image
    assert len(image.index.of_move[1]) == len(image.index.waiting) == 2
    append(image, change(0, replicas=(3, 4), isr=(3, 4), leader=3, adding=(), removing=()))
    assert image.moves[1].left == Left()
    append(image, attached(1, (2, 3), move=2))
    assert image.moves[1].left == Left(superseded=1)
    assert list(image.index.of_move) == [2]
    append(image, attached(0, (1, 2)))
    append(image, change(0, target=(), original=()))
    assert image.moves[1].left == Left(superseded=1, cancelled=1)
    append(image, attached(0, (1, 2)))
    append(image, kafka_records.RemoveTopic(topic_id=TOPIC_ID))
    assert image.moves[1].left == Left(superseded=1, cancelled=1, gone=1)
    assert not image.index.of_move


def test_the_index_counts_the_work_of_a_step(world: World) -> None:
    index = world.image.index
    grown = change(0, replicas=(1, 2, 3), adding=(3,), target=(3, 2), step=1, since_ms=9)
    append(world.image, grown)
    stage = world.partition().stage
    assert (stage.move, stage.step, stage.since_ms) == (1, 1, 9)
    assert (index.adding_total, index.leader_moves) == (1, 1)
    assert (len(index.stepping), len(index.waiting), len(index.moving)) == (1, 1, 2)


@pytest.mark.parametrize(
    ("left", "completed", "outcome"),
    [
        (Left(), 5, MoveOutcome.COMPLETED),
        (Left(gone=1), 5, MoveOutcome.COMPLETED),
        (Left(gone=1), 0, MoveOutcome.GONE),
        (Left(), 0, MoveOutcome.COMPLETED),
        (Left(superseded=1), 5, MoveOutcome.SUPERSEDED),
        (Left(superseded=1, cancelled=1), 5, MoveOutcome.CANCELLED),
    ],
)
def test_the_reason_that_a_move_is_not_completed_is_its_outcome(
    left: Left, completed: int, outcome: MoveOutcome
) -> None:
    assert outcome_of(left, completed) is outcome


def test_moves_that_have_ended_are_forgotten_and_their_ids_are_not_used_again() -> None:
    image = Image()
    for move_id in (1, 2, 3):
        append(image, a_move(move_id))
    append(image, _ended(1))
    append(image, _ended(3))
    append(image, own_records.MovesForgotten(through=2))
    assert list(image.moves) == [2, 3]
    append(image, _ended(2))
    append(image, own_records.MovesForgotten(through=3))
    assert (list(image.moves), image.next_move_id) == ([], 4)
    back = loaded(whole(begin(image, image.end_offset)), image.end_offset)
    assert back.next_move_id == 4


def _ended(move_id: int) -> own_records.MoveEnded:
    return own_records.MoveEnded(
        id=move_id, outcome=0, at_ms=5, completed=0, cancelled=0, superseded=0, gone=0
    )


def test_a_move_is_changed_by_what_is_said_and_the_rest_stays() -> None:
    image = Image()
    append(image, a_move())
    paused = own_records.MoveChanged(
        id=1, state=1, since_ms=2_000, who="User:bob", reason="by-hand", priority=7
    )
    append(image, paused)
    append(image, own_records.MoveChanged(id=1, state=0, since_ms=3_000, throttle_bytes_per_s=5))
    move = image.moves[1]
    assert (move.state, move.since_ms, move.who, move.reason) == (0, 3_000, "", "")
    assert (move.options.priority, move.options.throttle_bytes_per_s) == (7, 5)


def test_keys_are_forgotten_by_the_time_at_which_they_were_remembered() -> None:
    image = Image()
    for number in (1, 3, 2):
        append(
            image,
            own_records.Remembered(
                key=str(number), fingerprint=b"", kind="x", answer=b"", at_ms=number
            ),
        )
    append(image, own_records.KeysForgotten(through_ms=2))
    assert list(image.keys) == ["3"]


def test_all_moves_are_paused_until_somebody_says_otherwise() -> None:
    image = Image()
    said: list[own_records.MovesPaused | None] = []
    for number, paused in enumerate((True, False)):
        record = own_records.MovesPaused(paused=paused, who="User:ann", since_ms=number)
        append(image, record)
        said.append(image.all_paused)
    assert said == [own_records.MovesPaused(paused=True, who="User:ann", since_ms=0), None]


# Brokers.


def cordon(world: World, cordoned: int) -> bool:
    """Broker 3 is cordoned (1) or not any more (-1); whether it is then."""
    epoch = world.epoch(3)
    world.replay(
        kafka_records.BrokerRegistrationChange(broker_id=3, broker_epoch=epoch, cordoned=cordoned)
    )
    return world.image.brokers[3].cordoned


def test_a_cordon_outlives_the_incarnation_and_ends_with_the_registration(world: World) -> None:
    assert cordon(world, 1)
    world.fence(3)
    world.join(3, 2)
    assert world.image.brokers[3].cordoned
    assert not cordon(world, -1)
    assert cordon(world, 1)
    world.replay(kafka_records.UnregisterBroker(broker_id=3, broker_epoch=world.epoch(3)))
    world.join(3, 3)
    assert not world.image.brokers[3].cordoned


def test_when_a_broker_was_fenced_is_known_until_it_is_unfenced(world: World) -> None:
    def change_of_3(fenced: int, at_ms: int) -> kafka_records.BrokerRegistrationChange:
        return kafka_records.BrokerRegistrationChange(
            broker_id=3, broker_epoch=world.epoch(3), fenced=fenced, at_ms=at_ms
        )

    def known() -> int | None:
        return world.image.brokers[3].fenced_at_ms

    world.replay(change_of_3(1, 77))
    assert known() == 77
    world.register(3, 2)
    assert known() == 77
    world.replay(change_of_3(-1, 99))
    assert known() is None


# Undo and snapshots of them are in `test_snapshot_written`, over random logs.


def test_uncommitted_changes_of_a_move_are_undone(world: World) -> None:
    image = world.image
    image.begin_undo_log(image.end_offset)
    before = (dict(image.moves), dict(image.keys), image.next_move_id, image.all_paused)
    end = image.end_offset
    append(image, a_move(2))
    append(image, attached(0, (2, 3), move=2))
    append(image, own_records.MovesPaused(paused=True, who="", since_ms=1))
    append(image, own_records.MovePart(id=1, part=0, plan=b"\x01"))
    append(
        image,
        own_records.Remembered(key="k", fingerprint=b"", kind="", answer=b"", at_ms=0),
    )
    assert image.moves[1].left.superseded == 1
    image.rewind(end)
    assert (dict(image.moves), dict(image.keys), image.next_move_id, image.all_paused) == before
    assert len(image.index.of_move[1]) == 2


def test_two_nodes_write_moves_alike(world: World) -> None:
    append(world.image, own_records.MovePart(id=1, part=0, plan=plan_bytes(())))
    append(world.image, a_move(2))
    append(world.image, attached(0, (2, 3), move=2))
    end = world.image.end_offset
    values = whole(begin(world.image, end))
    twin = loaded(values, end)
    assert whole(begin(twin, end)) == values
    assert twin.moves == world.image.moves
