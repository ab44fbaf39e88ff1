"""Dry runs of a request: the answer for each partition, and the steps."""

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.reassignment import move_commands
from statemachine.vocabulary import Replicas
from tests.statemachine.reassignment.test_scheduler import catch_up, limited, some
from tests.statemachine.support.world import World


def asked(
    world: World, *parts: tuple[int, Replicas | None], dry_run: bool = True
) -> commands.ReassignmentsAltered:
    """Ask for these replicas of partitions of topic "t"; None cancels."""
    command = commands.AlterReassignments(
        reassignments=tuple(
            commands.Reassignment(topic="t", partition=number, replicas=replicas)
            for number, replicas in parts
        ),
        who="ann",
        name="rack 7",
        priority=3,
        dry_run=dry_run,
    )
    decision = world.ask(command)
    assert isinstance(decision.answer, commands.ReassignmentsAltered)
    assert not (dry_run and decision.records)
    return decision.answer


def test_the_steps_are_listed_before_and_are_those_that_are_taken() -> None:
    """KIP-435: [0, 1, 2, 3, 4] to [5, 6, 7, 8, 9] by R = 2; brokers are one higher here."""
    world = limited(World(broker_count=10), R=2)
    some(world, 1, (1, 2, 3, 4, 5))
    tried = asked(world, (0, (6, 7, 8, 9, 10)))
    (part,) = tried.partitions
    assert part.steps == (
        (6, 1, 2, 3, 4, 5),
        (6, 7, 3, 4, 5),
        (6, 7, 8, 9, 5),
        (6, 7, 8, 9, 10),
    )
    assert (tried.move_id, world.image.moves, world.partition().moving) == (0, {}, False)
    asked(world, (0, (6, 7, 8, 9, 10)), dry_run=False)
    taken = []
    while world.partition().moving:
        after = catch_up(world)
        taken.append(tuple(each for each in after.replicas if each not in after.adding))
    assert tuple(taken) == part.steps


@pytest.mark.parametrize("limit", [None, 1])
def test_it_answers_as_the_request_will_be(limit: int | None) -> None:
    world = World(broker_count=6)
    if limit is not None:
        limited(world, R=limit)
    some(world, 4)
    world.reassign(1, 2, 4, number=2)
    parts = [(0, (1, 2, 9)), (1, (4, 2, 3)), (2, None), (3, (3, 2, 1)), (7, (1,)), (1, (5, 2, 3))]
    tried, done = asked(world, *parts), asked(world, *parts, dry_run=False)
    errors = [Error.INVALID_REPLICA_ASSIGNMENT, Error.NONE, Error.NONE, Error.NONE]
    errors += [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NONE]
    assert [each.error for each in tried.partitions] == errors
    assert [(each.error, each.message, each.replicas) for each in tried.partitions] == [
        (each.error, each.message, each.replicas) for each in done.partitions
    ]
    assert not any(each.steps for each in done.partitions)


def test_a_target_already_reached_takes_no_step_and_a_reordering_takes_one() -> None:
    world = World(broker_count=4)
    some(world, 3)
    tried = asked(world, (0, (1, 2, 3)), (1, (3, 2, 1)), (2, (1, 2)))
    assert [each.steps for each in tried.partitions] == [(), ((3, 2, 1),), ((1, 2),)]


def test_a_target_in_progress_names_its_move_and_its_remaining_steps() -> None:
    world = limited(World(broker_count=6), R=1)
    some(world, 1)
    asked(world, (0, (4, 5, 6)), dry_run=False)
    catch_up(world)
    again = asked(world, (0, (4, 5, 6)))
    assert again.move_id == 1
    assert again.partitions[0].steps == ((4, 5, 3), (4, 5, 6))


def test_the_steps_of_the_first_partitions_are_told_and_of_all_what_becomes_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(move_commands, "PLANNED_STEPS_SHOWN_MAX", 2)
    world = World(broker_count=4)
    some(world, 4)
    tried = asked(world, *((n, (1, 2, 4)) for n in range(4)))
    assert [bool(each.steps) for each in tried.partitions] == [True, True, False, False]
    assert all(each.replicas == (1, 2, 3, 4) for each in tried.partitions)


def test_a_move_has_the_name_and_the_priority_that_were_asked_for() -> None:
    world = World(broker_count=4)
    some(world, 1)
    asked(world, (0, (1, 2, 4)), dry_run=False)
    move = world.image.moves[1]
    assert (move.begun.name, move.options.priority, move.begun.who) == ("rack 7", 3, "ann")
