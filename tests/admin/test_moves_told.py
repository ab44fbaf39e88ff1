"""An answer about moves has a bound, and says what there was no room for."""

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
from tests.statemachine.test_batching import limited, some
from tests.statemachine.test_moves import move
from tests.statemachine.world import World


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
