"""The work of a move grows with its partitions, not with the number that waits."""

from collections.abc import Callable
from typing import Any

import pytest

from statemachine import commands
from statemachine.decide import decide
from statemachine.image.image import Image
from statemachine.reassignment.scheduler import advance as step_starter
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from statemachine.reassignment.step import next_step
from statemachine.replay import replay
from tests.statemachine.support.config_requests import ALL_BROKERS, SET, ask, change
from tests.statemachine.support.world import TOPIC_ID, World

pytestmark = pytest.mark.interpreted

AT_ONCE = 20


class Work:
    """The cost of a move."""

    def __init__(self) -> None:
        self.records = 0
        self.calls = 0

    def counted(self, counted_step: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and each call counts."""

        def counting(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return counted_step(*arguments, **named)

        return counting


def carried_out(image: Image, command: commands.Command, scheduler: Scheduler) -> int:
    """Decide and replay without the checks of `World`, which look at everything each time."""
    decision = decide(image, command, scheduler=scheduler)
    for record in decision.records:
        replay(image, record, image.end_offset)
    return len(decision.records)


def moved(count: int, monkeypatch: pytest.MonkeyPatch) -> Work:
    """The work of a move of so many partitions from [1, 2] to [1, 3], step by step."""
    world = World(broker_count=3)
    ask(
        world,
        change(
            ALL_BROKERS, (PARALLEL_PARTITIONS, SET, str(AT_ONCE)), (PARALLEL_REPLICAS, SET, "1")
        ),
    )
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    image = world.image
    topic = image.topics[TOPIC_ID]
    for number in range(1, count):
        image.set_partition(topic, number, world.partition())
    scheduler, work = Scheduler(image), Work()
    monkeypatch.setattr(step_starter, "next_step", work.counted(next_step))
    asked = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=(1, 3))
        for number in range(count)
    )
    work.records = carried_out(image, commands.AlterReassignments(reassignments=asked), scheduler)
    while image.index.stepping:
        numbers = [number for _, number in image.index.partitions(image.index.stepping)]
        assert len(numbers) <= AT_ONCE
        caught_up = commands.AlterPartition(
            broker_id=1,
            broker_epoch=world.epoch(1),
            proposals=tuple(world.proposal((1, 2, 3), number) for number in numbers),
        )
        work.records += carried_out(image, caught_up, scheduler)
    assert not image.index.moving
    monkeypatch.undo()
    return work


@pytest.mark.thorough
def test_ten_times_the_partitions_are_ten_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = moved(1_000, monkeypatch), moved(10_000, monkeypatch)
    assert few.records > 1_000
    assert many.records <= 1.2 * 10 * few.records
    assert many.calls <= 1.2 * 10 * few.calls
