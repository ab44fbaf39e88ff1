"""Operators pause and resume moves, one or all, and set priorities."""

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.records import own_records
from statemachine.vocabulary import MoveState
from tests.statemachine.reassignment.test_moves import cancel, ended, move, roll_back
from tests.statemachine.reassignment.test_scheduler import catch_up, limited, some, stepping
from tests.statemachine.support.world import World


@pytest.fixture
def world() -> World:
    """Partitions 0 to 3 on brokers 1, 2 and 3; one step at a time, of one replica."""
    world = limited(World(broker_count=6), R=1, P=1)
    some(world, 4)
    return world


def ask(world: World, command: commands.PauseMoves | commands.AlterMove) -> list[tuple[Error, str]]:
    """The answer for each move."""
    answer = world.ask(command).answer
    assert isinstance(answer, commands.MovesAltered)
    return [(each.error, each.message) for each in answer.moves]


def pause(world: World, *moves: int) -> list[tuple[Error, str]]:
    """Pause these moves, or without any all."""
    return ask(world, commands.PauseMoves(moves=moves or None, who="bob"))


def resume(world: World, *moves: int) -> list[tuple[Error, str]]:
    """Go on with these moves, or without any with all."""
    return ask(world, commands.PauseMoves(paused=False, moves=moves or None, who="bob"))


DONE = (Error.NONE, "")


def test_a_paused_move_finishes_the_step_under_way_and_begins_no_other(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    assert stepping(world) == [0]
    assert pause(world, 1) == [DONE]
    catch_up(world, 0)
    assert world.partition(0).replicas == (1, 2, 4)
    assert stepping(world) == []
    state = world.image.moves[1]
    assert (state.state, state.reason, state.who) == (MoveState.PAUSED, "move-paused", "bob")
    assert resume(world, 1) == [DONE]
    assert stepping(world) == [1]
    assert world.image.moves[1].state == MoveState.RUNNING


def test_other_moves_go_on_while_one_is_paused(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    pause(world, 1)
    move(world, {1: (1, 2, 5)})
    move(world, {2: (1, 2, 5)})
    pause(world, 2)
    catch_up(world, 0)
    assert stepping(world) == [2]


def test_all_moves_are_paused_those_to_come_as_well(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    world.now_ms += 5
    assert pause(world) == []
    move(world, {1: (1, 2, 5)})
    catch_up(world, 0)
    assert stepping(world) == []
    assert world.image.all_paused == own_records.MovesPaused(
        paused=True, who="bob", since_ms=world.now_ms, stops_copying=True
    )
    resume(world)
    assert stepping(world) == [1]
    assert world.image.all_paused is None


def test_without_limits_a_pause_of_all_holds_up_what_is_asked_for_meanwhile() -> None:
    world = World(broker_count=6)
    some(world, 2)
    pause(world)
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    assert stepping(world) == []
    resume(world)
    assert stepping(world) == [0, 1]


def test_to_pause_or_to_go_on_twice_is_to_do_it_once(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    for change, moves in ((pause, (1,)), (resume, (1,)), (pause, ()), (resume, ())):
        change(world, *moves)
        end = world.image.end_offset
        change(world, *moves)
        assert world.image.end_offset == end


def test_a_move_that_does_not_run_is_refused_by_name(world: World) -> None:
    move(world, {0: (1, 2)})
    assert ended(world).completed == 1
    for change in (pause, resume):
        assert change(world, 1, 7) == [
            (Error.INVALID_REQUEST, "move 1 has ended: completed"),
            (Error.INVALID_REQUEST, "there is no move 7"),
        ]
    altered = ask(world, commands.AlterMove(move_id=7, priority=1))
    assert altered == [(Error.INVALID_REQUEST, "there is no move 7")]


def test_a_move_that_is_paused_by_itself_goes_on_by_itself(world: World) -> None:
    world.configure("min.insync.replicas", "2")
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    world.fence(2)
    world.sync(1, number=1)
    assert world.image.moves[1].state == MoveState.PAUSED_BY_ITSELF
    ((error, message),) = resume(world, 1)
    assert error is Error.INVALID_REQUEST
    assert message.startswith("move 1 is paused automatically and resumes by itself: t-")


def test_a_paused_move_can_be_cancelled_and_rolled_back(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    pause(world, 1)
    catch_up(world, 0)
    assert cancel(world, moves=(1,)).moves[0].error is Error.NONE
    assert (ended(world).completed, ended(world).cancelled) == (1, 1)
    assert roll_back(world, 1).accepted == 1
    assert world.partition(0).target == (1, 2, 3)


def test_the_move_with_the_higher_priority_goes_first(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    move(world, {1: (1, 2, 5)})
    move(world, {2: (1, 2, 5)})
    assert ask(world, commands.AlterMove(move_id=3, priority=7)) == [DONE]
    assert world.image.moves[3].options.priority == 7
    catch_up(world, 0)
    assert stepping(world) == [2]
    end = world.image.end_offset
    ask(world, commands.AlterMove(move_id=3, priority=7))
    assert world.image.end_offset == end


def test_another_priority_leaves_a_pause_as_it_is(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 5)})
    pause(world, 1)
    before = world.image.moves[1]
    world.now_ms += 9
    ask(world, commands.AlterMove(move_id=1, priority=2))
    after = world.image.moves[1]
    assert (after.state, after.since_ms, after.who) == (before.state, before.since_ms, "bob")
