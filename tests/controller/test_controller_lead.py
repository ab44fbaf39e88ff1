"""The loss of the lead at a controller, and the equality of another controller's image."""

import asyncio
import random
from pathlib import Path

import pytest

from controller.ports import Unavailable
from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from statemachine import commands
from statemachine.errors import Error
from tests.controller.controller_commands import (
    anything,
    asked,
    busy,
    heartbeat,
    join,
    looked,
    move,
    topic,
)
from tests.controller.logs import folded, log_of
from tests.statemachine.support.reference_checks import check_image, contents
from tests.support.controllers import Node, a_controller, active, controllers

BROKERS = (101, 102, 103, 104)


async def carry_out(node: Node, rng: random.Random, count: int) -> None:
    """Some commands, one after the other; what fails changes nothing."""
    for _ in range(count):
        await asked(node.controller, anything(node.controller, rng))


async def test_callers_that_wait_when_the_lead_is_lost_are_answered_and_nothing_stays(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, *BROKERS)
        await asked(controller, topic("kept", 101, 102))
        before = contents(controller.image)
        async with busy(node.opened.disk):
            answers = [
                asked(controller, topic("lost", 101)),
                asked(controller, move("kept", 103, 104)),
                asked(controller, commands.FenceBrokers(broker_ids=(101,))),
            ]
            stopping = asyncio.get_running_loop().create_task(node.stop())
            outcomes = [await answer for answer in answers]
            assert outcomes == [Unavailable.LEAD_LOST] * 3
            assert contents(controller.image) == before
            assert asked(controller, topic("late", 101)).result() is Unavailable.NOT_ACTIVE
        await stopping
        assert (controller.is_active, controller.heartbeats) == (False, None)


@pytest.mark.parametrize("seed", range(4))
async def test_losing_the_lead_restores_the_image_that_is_committed(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, *BROKERS)
        await carry_out(node, rng, 15)
        before = contents(controller.image)
        async with busy(node.opened.disk):
            for _ in range(25):
                asked_last = asked(controller, anything(controller, rng))
            assert contents(controller.image) != before
            stopping = asyncio.get_running_loop().create_task(node.stop())
            # Told when the image has been restored.
            assert await asked_last is Unavailable.LEAD_LOST
            assert contents(controller.image) == before
            check_image(controller.image)
        await stopping


async def test_a_query_that_is_lost_with_the_lead_may_be_asked_again(tmp_path: Path) -> None:
    """Nothing was to be done, so there is nothing that could have been done."""
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        async with busy(node.opened.disk):
            asked(controller, topic("a", 101))
            found = looked(controller, lambda image: sorted(image.topic_ids))
            stopping = asyncio.get_running_loop().create_task(node.stop())
            assert await found is Unavailable.NOT_ACTIVE
            stale = looked(controller, lambda image: sorted(image.topic_ids), stale=True)
            assert await stale == []
        await stopping


async def test_a_node_that_restarts_has_the_image_of_its_log(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, *BROKERS)
        await carry_out(node, random.Random(3), 60)
        before = contents(node.controller.image)
        await node.stop()
        # What is on disk, read by somebody else: committed, and the end of the epoch.
    log = SegmentedLog(tmp_path / "node-1" / LOG_FOLDER)
    assert contents(folded(log.read(Offset(0), log.end.offset, 1 << 30))) == before
    log.close()
    async with a_controller(tmp_path) as node:
        image = node.controller.image
        assert contents(image) == contents(folded(log_of(node)))
        check_image(image)
        before.pop("end_offset")
        before.pop("controllers")
        assert {name: contents(image)[name] for name in before} == before


async def test_three_controllers_have_one_image_and_go_on_from_each_other(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        first = await active(nodes.values())
        await join(first.controller, *BROKERS)
        await carry_out(first, random.Random(5), 30)
        await first.stop()
        rest = [node for node in nodes.values() if node is not first]
        second = await active(rest)
        assert contents(second.controller.image) == contents(folded(log_of(second)))
        await asked(second.controller, heartbeat(second.controller, 101))
        created = await asked(second.controller, topic("after", 101))
        assert isinstance(created, commands.TopicsCreated)
        assert created.topics[0].error is Error.NONE
        end = second.controller.committed
        (third,) = (node for node in rest if node is not second)
        while third.controller.committed < end:
            await third.opened.quorum.leader_changed(within_seconds=0.005)
        assert contents(third.controller.image) == contents(second.controller.image)


async def test_a_controller_that_is_not_active_decides_nothing(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes:
        controller = nodes[1].controller
        assert asked(controller, topic("a", 101)).result() is Unavailable.NOT_ACTIVE
        controller.sweep()
        assert controller.image.end_offset == 0


async def test_a_node_that_has_heard_of_no_commit_does_not_answer_from_an_empty_image(
    tmp_path: Path,
) -> None:
    """Its fellows are down: there may be topics, it cannot know."""
    async with controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes:
        found = looked(nodes[1].controller, lambda image: set(image.topic_ids))
        assert found.result() is Unavailable.NOT_READY
