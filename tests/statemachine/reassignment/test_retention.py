"""Ended moves and answers are kept for a time and up to a number, by records alone."""

from typing import Any

import pytest

from statemachine import commands
from statemachine.limits import ENDED_MOVES_KEPT_MS, ENDED_MOVES_MAX, KEYS_KEPT_MS
from statemachine.reassignment.retention import has_too_much
from statemachine.records import kafka_records, own_records
from tests.statemachine.reassignment.test_idempotency_keys import keyed
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.support.world import World


@pytest.fixture
def world() -> World:
    """Partitions 0 and 1 of "t" on brokers 1, 2 and 3; move 1 of partition 0 runs."""
    world = World(broker_count=5)
    for _ in range(2):
        world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    world.now_ms = 10 * ENDED_MOVES_KEPT_MS
    move(world, {0: (1, 2, 4)})
    return world


def a_move_that_ends(world: World) -> None:
    """One more move of partition 1, complete at once."""
    replicas = world.partition(1).replicas
    move(world, {1: (*replicas[1:], replicas[0])})


def forget(world: World) -> list[Any]:
    """Let the active controller sweep; it was due exactly if it wrote records."""
    asked = has_too_much(world.image, world.now_ms)
    decision = world.ask(commands.ForgetMoves())
    assert asked == bool(decision.records)
    return list(decision.records)


def test_moves_that_ended_a_week_ago_are_forgotten_and_running_ones_never(world: World) -> None:
    a_move_that_ends(world)
    assert forget(world) == []
    world.now_ms += ENDED_MOVES_KEPT_MS
    a_move_that_ends(world)
    assert forget(world) == []
    world.now_ms += 1
    assert forget(world) == [own_records.MovesForgotten(through=2)]
    assert sorted(world.image.moves) == [1, 3]
    assert forget(world) == []


def test_a_move_that_has_ended_late_keeps_those_behind_it(world: World) -> None:
    a_move_that_ends(world)
    world.now_ms += ENDED_MOVES_KEPT_MS + 1
    world.sync(1, 2, 3, 4)
    assert forget(world) == []
    world.now_ms += ENDED_MOVES_KEPT_MS + 1
    assert forget(world) == [own_records.MovesForgotten(through=2)]


def test_of_too_many_moves_the_first_are_forgotten(world: World) -> None:
    for number in range(ENDED_MOVES_MAX + 3):
        move_id = 100 + number
        begun = own_records.MoveBegun(
            id=move_id, kind=0, who="", asked_at_ms=0, partitions=0, refused=0
        )
        world.replay(begun)
        world.replay(
            own_records.MoveEnded(
                id=move_id,
                outcome=0,
                at_ms=world.now_ms,
                completed=0,
                cancelled=0,
                superseded=0,
                gone=0,
            )
        )
    assert forget(world) == [own_records.MovesForgotten(through=102)]
    assert len(world.image.moves) == ENDED_MOVES_MAX + 1


def test_answers_are_remembered_for_a_day(world: World) -> None:
    command = commands.CancelMoves(everything=True, dry_run=True)
    world.ask(keyed(command, key="old"))
    world.now_ms += 1
    world.ask(keyed(command, key="new"))
    world.now_ms += KEYS_KEPT_MS - 1
    assert forget(world) == []
    world.now_ms += 1
    assert [type(each) for each in forget(world)] == [own_records.KeysForgotten]
    assert list(world.image.keys) == ["new"]


def test_of_too_many_answers_the_first_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statemachine.reassignment.retention.KEYS_MAX", 3)
    command = commands.CancelMoves(everything=True, dry_run=True)
    for number in range(5):
        world.ask(keyed(command, key=str(number)))
        world.now_ms += 1
    assert len(forget(world)) == 1
    assert list(world.image.keys) == ["2", "3", "4"]


def test_a_broker_that_was_to_go_is_unregistered_once_it_has_nothing_and_is_dead(
    world: World,
) -> None:
    """Any leader does it: all of it follows from the log."""

    def let_go(broker_id: int, *, cordoned: bool = True) -> None:
        command = commands.CordonBrokers(
            broker_ids=(broker_id,), cordoned=cordoned, unregister=cordoned
        )
        world.ask(command)

    let_go(2)
    let_go(5)
    assert forget(world) == [], "5 has nothing, and lives; 2 has replicas"
    world.fence(2)
    assert forget(world) == [], "2 is dead, and has replicas"
    move(world, {0: (1, 3), 1: (1, 3)})
    gone = kafka_records.UnregisterBroker(broker_id=2, broker_epoch=world.epoch(2))
    assert forget(world) == [gone]
    assert 2 not in world.image.brokers
    let_go(5, cordoned=False)
    world.fence(5)
    assert forget(world) == [], "5 was asked to stay"
    let_go(5)
    assert len(forget(world)) == 1
    world.fence(4)
    assert forget(world) == [], "nobody wished that 4 goes"
    assert sorted(world.image.brokers) == [1, 3, 4]
