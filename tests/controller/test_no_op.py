"""NoOp records: the active controller appends one only if nothing else was appended."""

from pathlib import Path

import pytest

from controller.quorum_controller import STANDBY_CHECK_MS, QuorumController
from quorum.core.vocabulary import Offset
from quorum.records.decode import decode as decode_records
from statemachine.records import kafka_records
from statemachine.records.codec import decode
from tests.controller.controller_commands import asked, busy, looked, topic
from tests.support.controllers import Node, a_controller, active, controllers

INTERVAL_MS = 500


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def last_record(node: Node) -> kafka_records.Record:
    """The record at the end of the log."""
    end = node.controller.committed
    *_, last = decode_records(node.opened.quorum.replica.read_committed(Offset(end - 1), 1 << 20))
    assert last.value is not None
    return decode(last.value)


async def committed(controller: QuorumController) -> int:
    """The number of records once all of them are committed."""
    end: int = await looked(controller, lambda image: image.end_offset)
    return end


async def test_a_log_at_rest_moves_once_an_interval(tmp_path: Path) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        controller.no_op_interval_ms = INTERVAL_MS
        start = await committed(controller)
        clock.ms += INTERVAL_MS - 1
        assert controller.append_no_op() == 1
        assert await committed(controller) == start
        clock.ms += 1
        assert controller.append_no_op() == INTERVAL_MS
        assert await committed(controller) == start + 1
        assert last_record(node) == kafka_records.NoOp()
        assert controller.append_no_op() == INTERVAL_MS
        assert await committed(controller) == start + 1


async def test_a_log_that_moves_by_itself_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        controller.no_op_interval_ms = INTERVAL_MS
        clock.ms += INTERVAL_MS - 100
        await asked(controller, topic("a", 1))  # Refused: it moves nothing.
        start = await committed(controller)
        clock.ms += 100
        controller.append_no_op()
        assert await committed(controller) == start + 1
        clock.ms += 400
        assert controller.append_no_op() == 100


async def test_nothing_is_added_to_what_waits_for_its_commit(tmp_path: Path) -> None:
    """Without a majority a leader would otherwise append for nobody, twice a second."""
    clock = Clock()
    async with a_controller(tmp_path, session_clock=clock) as node:
        controller = node.controller
        controller.no_op_interval_ms = INTERVAL_MS
        await committed(controller)
        async with busy(node.opened.disk):
            for _ in range(3):
                clock.ms += INTERVAL_MS
                controller.append_no_op()
            assert controller.image.end_offset == controller.committed + 1


async def test_a_controller_that_is_not_active_appends_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with controllers(tmp_path, 1, 2, 3, session_clock=clock) as nodes:
        leader = await active(nodes.values())
        for node in nodes.values():
            if node is not leader:
                node.controller.no_op_interval_ms = INTERVAL_MS
                clock.ms += 10 * INTERVAL_MS
                assert node.controller.append_no_op() == STANDBY_CHECK_MS


async def test_a_controller_with_no_ops_disabled_appends_none(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        with pytest.raises(AssertionError, match="NoOp records are off"):
            node.controller.append_no_op()
