"""One controller on a quorum of one, with its files: its answers, and their time."""

import asyncio
from pathlib import Path

import pytest

from controller.deferred import WAITING_ANSWERS_MAX
from controller.ports import Unavailable
from controller.quorum_controller import SESSION_SWEEP_MS_MIN
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from statemachine import commands
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.limits import METADATA_VERSION_MAX
from tests.controller.controller_commands import (
    asked,
    busy,
    heartbeat,
    isr,
    join,
    looked,
    move,
    topic,
)
from tests.support.controllers import SESSION_TIMEOUT_MS, a_controller


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


async def test_the_first_active_controller_founds_the_cluster_and_registers_itself(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        image = node.controller.image
        assert image.level == METADATA_VERSION_MAX
        assert set(image.controllers) == {1}
        assert image.controllers[1].endpoints[0].port == node.address.port
        end = image.end_offset
    async with a_controller(tmp_path) as node:
        # Only the new epoch and, for the port is another one, the controller.
        assert node.controller.image.end_offset == end + 2
        assert node.controller.image.level == METADATA_VERSION_MAX


async def test_an_answer_leaves_when_its_records_are_committed_and_not_before(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        before = controller.committed
        async with busy(node.opened.disk):
            answer = asked(controller, topic("a", 101))
            await asyncio.sleep(0)
            assert not answer.done()
            assert controller.committed == before
            assert "a" in controller.image.topic_ids
        outcome = await answer
        assert isinstance(outcome, commands.TopicsCreated)
        assert outcome.topics[0].error is Error.NONE
        assert controller.committed == before + 2  # The topic and its partition.


async def test_decisions_follow_one_another_without_waiting_for_commits(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101, 102, 103)
        async with busy(node.opened.disk):
            answers = [
                asked(controller, topic("a", 101, 102)),
                asked(controller, topic("a", 102, 103)),
                asked(controller, move("a", 102, 103)),
                asked(controller, isr(controller, "a", (101, 102, 103))),
            ]
            assert not any(answer.done() for answer in answers)
        created, again, moved, altered = [await answer for answer in answers]
        assert isinstance(created, commands.TopicsCreated)
        assert created.topics[0].error is Error.NONE
        assert isinstance(again, commands.TopicsCreated)
        assert again.topics[0].error is Error.TOPIC_ALREADY_EXISTS
        assert isinstance(moved, commands.ReassignmentsAltered)
        assert moved.partitions[0].replicas == (101, 102, 103)
        # The move is complete with it, and another leads: all on records not yet on disk.
        assert isinstance(altered, commands.PartitionsAltered)
        assert altered.partitions[0].error is Error.NEW_LEADER_ELECTED


async def test_a_refusal_rests_on_what_was_seen_and_waits_for_it(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        refused = asked(controller, commands.DeleteTopics(topics=("a",)))
        assert refused.done()  # Nothing is uncommitted.
        async with busy(node.opened.disk):
            asked(controller, topic("a", 101))
            refused = asked(controller, topic("a", 101))
            assert not refused.done()
        outcome = await refused
        assert isinstance(outcome, commands.TopicsCreated)
        assert outcome.topics[0].error is Error.TOPIC_ALREADY_EXISTS


async def test_a_query_waits_for_what_it_has_seen(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        assert await looked(controller, lambda image: sorted(image.topic_ids)) == []
        async with busy(node.opened.disk):
            created = asked(controller, topic("a", 101))
            found = looked(controller, lambda image: sorted(image.topic_ids))
            later = asked(controller, topic("b", 101))
            assert not found.done()
        assert await found == ["a"]
        assert created.done()
        await later


async def test_too_many_answers_that_wait_are_refused_until_some_have_left(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        async with busy(node.opened.disk):
            created = asked(controller, topic("a", 101))
            left: list[object] = []
            for _ in range(WAITING_ANSWERS_MAX - 1):
                controller.query(lambda image: image.level, left.append, stale=True)
            assert asked(controller, topic("b", 101)).result() is Unavailable.OVERLOADED
            assert looked(controller, lambda image: 0).result() is Unavailable.OVERLOADED
            assert "b" not in controller.image.topic_ids
            assert left == []
        await created
        await asked(controller, topic("b", 101))
        assert left == [METADATA_VERSION_MAX] * (WAITING_ANSWERS_MAX - 1)


@pytest.mark.thorough
async def test_a_decision_that_is_too_large_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """A batch must fit in a frame to a follower, and a record in a batch."""
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        end = controller.image.end_offset
        text = "0:101" + ",0:101" * (BATCH_BYTES_MAX // 6)
        large = topic("a", 101, configs=(("leader.replication.throttled.replicas", text),))
        assert asked(controller, large).result() is Unavailable.TOO_LARGE
        assert controller.image.end_offset == end
        await asked(controller, topic("a", 101, partitions=BATCH_RECORDS_MAX - 1))
        assert controller.committed == end + BATCH_RECORDS_MAX


async def test_a_broker_that_falls_silent_is_fenced_and_its_partitions_get_new_leaders(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        await join(controller, 101, 102)
        await asked(controller, topic("a", 101, 102))
        sessions = controller.heartbeats
        assert sessions is not None
        for broker_id in (101, 102):
            sessions.touch(broker_id, clock(), 0)
        clock.ms += SESSION_TIMEOUT_MS - 1
        sessions.touch(102, clock(), 0)
        assert controller.sweep() == SESSION_SWEEP_MS_MIN, "a moment before the first one ends"
        assert not controller.image.brokers[101].fenced
        clock.ms += 1
        assert controller.sweep() == SESSION_TIMEOUT_MS - 1, "when the next one may end"
        fenced, leader = await looked(controller, lambda image: (fences(image), leads(image, "a")))
        assert (fenced, leader) == ([101], 102)
        end = controller.image.end_offset
        controller.sweep()
        assert controller.image.end_offset == end


@pytest.mark.interpreted
async def test_a_silent_broker_is_logged_once_while_its_fencing_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        await join(controller, 101)
        controller.sweep()
        clock.ms += SESSION_TIMEOUT_MS
        monkeypatch.setattr(controller, "submit", lambda *_: None)
        for _ in range(3):
            controller.sweep()
        assert caplog.text.count("Fencing brokers [101]: no heartbeat in time") == 1


async def test_a_new_active_controller_grants_every_broker_a_full_session(tmp_path: Path) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        await join(node.controller, 101)
    clock.ms += 10 * SESSION_TIMEOUT_MS
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        controller.sweep()
        assert not controller.image.brokers[101].fenced
        answer = await asked(controller, heartbeat(controller, 101))
        assert isinstance(answer, commands.HeartbeatAnswered)
        assert answer.error is Error.NONE
        clock.ms += SESSION_TIMEOUT_MS
        controller.sweep()
        assert controller.image.brokers[101].fenced


def fences(image: Image) -> list[int]:
    """The brokers that are fenced."""
    return sorted(each.broker_id for each in image.brokers.values() if each.fenced)


def leads(image: Image, name: str) -> int:
    """The leader of partition 0 of a topic."""
    found = image.topic_named(name)
    assert found is not None
    partition = found.partition(0)
    assert partition is not None
    return partition.leader
