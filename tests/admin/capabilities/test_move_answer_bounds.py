"""Answers about moves are bounded, and count what they leave out."""

from admin.capabilities.moves import (
    RESULTS_LISTED_MAX,
    DescribedMove,
    MovesChanged,
    changed,
    described,
)
from controller.apis.reassignments import PARTITIONS_SHOWN_MAX
from statemachine.commands import MovesCancelled, ReassignmentAltered
from statemachine.errors import Error
from statemachine.limits import COPIES_LOOKED_AT_MAX
from statemachine.reassignment.copies import CopyReport
from statemachine.records import kafka_records
from statemachine.slices import whole
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.reassignment.test_scheduler import limited, some
from tests.statemachine.support.world import TOPIC_ID, World


def test_a_move_shows_as_many_partitions_as_there_is_room_for_and_counts_the_rest() -> None:
    world = limited(World(broker_count=6), P=1)
    some(world, PARTITIONS_SHOWN_MAX + 5)
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    move(world, dict.fromkeys(range(2, PARTITIONS_SHOWN_MAX + 5), (1, 2, 4)))
    small, large = whole(described(world.image, 1)), whole(described(world.image, 2))
    assert isinstance(small, DescribedMove)
    assert isinstance(large, DescribedMove)
    assert (len(small.partitions), small.partitions_not_shown) == (2, 0)
    assert (len(large.partitions), large.partitions_not_shown) == (PARTITIONS_SHOWN_MAX, 3)
    assert [each.partition for each in large.partitions[:2]] == [2, 3]


def test_the_refused_of_very_many_partitions_come_first_in_the_answer() -> None:
    done = ReassignmentAltered(topic="a", partition=0, replicas=(1,))
    refused = ReassignmentAltered(topic="b", partition=0, error=Error.INVALID_REQUEST, message="no")
    parts = (*[done] * RESULTS_LISTED_MAX, refused)
    found = changed(
        MovesCancelled(partitions=parts, done_count=RESULTS_LISTED_MAX, refused_count=1)
    )
    assert isinstance(found, MovesChanged)
    assert [each.topic for each in found.partitions[:2]] == ["b", "a"]
    assert len(found.partitions) == RESULTS_LISTED_MAX
    assert (found.partitions_accepted, found.partitions_refused) == (RESULTS_LISTED_MAX, 1)


def test_progress_of_a_large_move_looks_at_a_bounded_number_of_partitions() -> None:
    world, count = World(broker_count=4), COPIES_LOOKED_AT_MAX + 5
    some(world, 1)
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
    found = whole(described(world.image, 1, report_of=lambda *_: said))
    assert isinstance(found, DescribedMove)
    assert (found.partitions_bytes_unknown, found.bytes_left) == (5, COPIES_LOOKED_AT_MAX)
