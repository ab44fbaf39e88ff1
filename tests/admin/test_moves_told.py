"""An answer about moves has a bound, and says what there was no room for."""

from admin.model import UNKNOWN
from admin.moves import (
    OUTCOMES_TOLD_MAX,
    PARTITIONS_SHOWN_MAX,
    MovesChanged,
    MoveStandings,
    standings,
    told,
)
from statemachine.commands import MovesCancelled, ReassignmentAltered
from statemachine.errors import Error
from statemachine.limits import COPIES_LOOKED_AT_MAX
from statemachine.reassignment.copies import CopyReport
from statemachine.records import kafka_records
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.reassignment.test_scheduler import limited, some
from tests.statemachine.support.world import TOPIC_ID, World


def test_moves_share_the_room_for_partitions_and_count_the_rest() -> None:
    world = limited(World(broker_count=6), P=1)
    some(world, PARTITIONS_SHOWN_MAX + 5)
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    move(world, dict.fromkeys(range(2, PARTITIONS_SHOWN_MAX + 5), (1, 2, 4)))
    found = standings(world.image, [1, 2, 1])
    assert isinstance(found, MoveStandings)
    assert [len(each.partitions) for each in found.moves] == [2, PARTITIONS_SHOWN_MAX - 2, 0]
    assert found.moves[1].waiting + found.moves[1].stepping == PARTITIONS_SHOWN_MAX + 3
    assert [each.id.partition for each in found.moves[1].partitions[:2]] == [2, 3]
    listed = standings(world.image)
    assert isinstance(listed, MoveStandings)
    assert not any(each.partitions for each in listed.moves)


def test_of_very_many_partitions_those_that_were_refused_are_told_first() -> None:
    done = ReassignmentAltered(topic="a", partition=0, replicas=(1,))
    refused = ReassignmentAltered(topic="b", partition=0, error=Error.INVALID_REQUEST, message="no")
    parts = (*[done] * OUTCOMES_TOLD_MAX, refused)
    found = told(MovesCancelled(partitions=parts, done_count=OUTCOMES_TOLD_MAX, refused_count=1))
    assert isinstance(found, MovesChanged)
    assert [each.id.topic for each in found.partitions[:2]] == ["b", "a"]
    assert len(found.partitions) == OUTCOMES_TOLD_MAX
    assert (found.accepted, found.refused) == (OUTCOMES_TOLD_MAX, 1)


def test_however_many_moves_are_asked_for_only_so_many_partitions_are_looked_at() -> None:
    world = World(broker_count=4)
    some(world, 1)
    count = 300
    for number in range(1, count):
        world.replay(
            kafka_records.Partition(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=1,
                leader_epoch=1,
                partition_epoch=2,
            )
        )
    move(world, dict.fromkeys(range(count), (1, 2, 4)))
    said = CopyReport(topic_id=TOPIC_ID, partition=0, bytes_left=1, bytes_per_s=1)
    found = standings(world.image, [1] * 5, told=lambda *_: said)
    assert isinstance(found, MoveStandings)
    left = COPIES_LOOKED_AT_MAX - 3 * count
    assert [each.copies_unknown for each in found.moves] == [0, 0, 0, count - left, count]
    assert [each.bytes_left for each in found.moves] == [count, count, count, left, UNKNOWN]
