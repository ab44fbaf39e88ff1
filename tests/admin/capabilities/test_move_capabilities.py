"""Move capabilities over the Kafka protocol of real controllers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from admin.capabilities.moves import (
    AlterMove,
    CancelMoves,
    DescribeMove,
    ListMoves,
    PauseMoves,
    ResumeMoves,
    RollBackMove,
)
from admin.capabilities.schema import Partition
from admin.faults import Refused
from quorum.protocol.apis import ApiKey
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller, controllers
from tests.support.kafka_client import kafka_client

SECOND = timedelta(seconds=1)


async def moving(node: Node) -> None:
    """Topics a and b on 101 and 102; move 1 takes a-0 to 103, where nothing is in sync yet."""
    await join(node.controller, 101, 102, 103)
    await asked(node.controller, topic("a", 101, 102))
    await asked(node.controller, topic("b", 101, 102))
    await asked(node.controller, move("a", 101, 103))


async def test_any_controller_tells_where_the_partitions_of_a_move_are(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await moving(leader)
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            (listed,) = (await client.ask(ListMoves())).moves
            assert (listed.move_id, listed.kind, listed.state, listed.ended) == (
                1,
                "reassign",
                "running",
                False,
            )
            assert (listed.partitions_total, listed.stepping, listed.waiting) == (1, 1, 0)
            found = await client.ask(DescribeMove(move_id=1))
            (partition,) = found.partitions
            assert (
                str(partition.id),
                partition.target,
                partition.adding,
                partition.removing,
            ) == (
                "a-0",
                (101, 103),
                (103,),
                (102,),
            )
            assert (partition.step, partition.step_count, partition.state) == (1, 1, "growing")
            assert (partition.reason, partition.detail, partition.reason_brokers) == (
                "catching-up",
                "not in sync yet: 103",
                (103,),
            )
            assert partition.since_ms
            await asked(leader.controller, isr(leader.controller, "a", (101, 102, 103)))
            ended = await client.ask(DescribeMove(move_id=1))
            assert (ended.state, ended.ended, ended.completed, ended.partitions) == (
                "completed",
                True,
                1,
                (),
            )


async def test_moves_are_paused_ordered_and_resumed_each_with_its_result(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        paused = await client.ask(PauseMoves(moves=(1, 7)))
        assert [(each.move_id, each.message) for each in paused.moves] == [
            (1, None),
            (7, "there is no move 7"),
        ]
        assert [each.kafka_error_code > 0 for each in paused.moves] == [False, True]
        await client.ask(AlterMove(move_id=1, priority=5))
        (one,) = (await client.ask(ListMoves())).moves
        assert (one.state, one.changed_by, one.priority) == ("paused", "User:ANONYMOUS", 5)
        await client.ask(ResumeMoves(moves=(1,)))
        await client.ask(PauseMoves(everything=True))
        found = await client.ask(ListMoves())
        assert found.all_paused is not None
        assert (found.moves[0].state, found.all_paused.by) == ("paused", "User:ANONYMOUS")
        assert found.all_paused.since_ms > 0
        await client.ask(ResumeMoves(everything=True))
        assert (await client.ask(ListMoves())).all_paused is None


async def test_a_dry_run_of_a_cancel_returns_the_resulting_replicas(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        would = await client.ask(CancelMoves(everything=True, dry_run=True))
        assert [(str(each.id), each.replicas) for each in would.partitions] == [("a-0", (101, 102))]
        assert not (await client.ask(ListMoves())).moves[0].ended
        done = await client.ask(
            CancelMoves(topics=("a",), partitions=(Partition(topic="b", partition=0),))
        )
        assert [(str(each.id), each.replicas, each.kafka_error) for each in done.partitions] == [
            ("a-0", (101, 102), "NONE"),
            ("b-0", (), "NO_REASSIGNMENT_IN_PROGRESS"),
        ]
        assert (done.partitions_accepted, done.partitions_refused) == (1, 1)
        assert (await client.ask(ListMoves())).moves[0].state == "cancelled"


async def test_a_move_that_is_done_is_rolled_back_by_another_one(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        rollback = RollBackMove(move_id=1)
        begun = await client.ask(rollback)
        told = (begun.begun_move_id, begun.partitions_accepted, begun.partitions_refused)
        assert told == (
            2,
            1,
            0,
        )
        back = await client.ask(DescribeMove(move_id=2))
        assert (back.kind, back.rollback_of) == ("rollback", 1)
        assert back.partitions[0].target == (101, 102)
        assert (await client.ask(rollback)).begun_move_id == 2


async def test_a_rollback_is_tried_before(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        tried = RollBackMove(move_id=1, dry_run=True, key="k")
        for _ in range(2):
            would = await client.ask(tried)
            assert (would.begun_move_id, would.partitions_accepted) == (None, 1)
            assert not would.partitions_refused
            (partition,) = would.partitions
            assert (str(partition.id), partition.replicas) == ("a-0", (101, 102))
            # With a key or without: what changes nothing is asked as often as one likes.
            assert not would.repeated
        assert len((await client.ask(ListMoves())).moves) == 1
        with pytest.raises(Refused, match="move 7 cannot be rolled back: there is no move 7"):
            await client.ask(replace(tried, move_id=7))


async def test_a_move_that_is_not_listed_is_named(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="move 7 cannot be described: there is no move 7, or"):
            await client.ask(DescribeMove(move_id=7))
        with pytest.raises(Refused, match="move 7 cannot be rolled back: there is no move 7"):
            await client.ask(RollBackMove(move_id=7))


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("moves.pause", {}, "nothing is named; name moves, or ask for everything"),
        (
            "moves.cancel",
            {},
            "nothing is named; name moves, topics or partitions, or ask for everything",
        ),
        (
            "moves.pause",
            {"moves": [1], "everything": True},
            "everything includes what is named; omit one of them",
        ),
        ("moves.pause", {"moves": [1], "dry_run": True}, "dry_run"),
        ("moves.pause", {"moves": [1], "priority": 5}, "priority"),
        ("moves.resume", {"moves": [1], "throttle_bytes_per_s": 5}, "throttle_bytes_per_s"),
        ("moves.pause", {"moves": [1], "topics": ["a"]}, "topics"),
        ("moves.pause", {"moves": [0]}, "$.moves[0]"),
        ("moves.roll-back", {"move_id": [1, 2]}, "$.move_id"),
        ("moves.alter", {"move_id": 1}, "give a priority, a throttle_bytes_per_s, or both"),
        ("moves.alter", {"move_id": 1, "throttle_bytes_per_s": -1}, "$.throttle_bytes_per_s"),
        ("moves.alter", {"move_id": 1, "priority": 1 << 40}, "$.priority"),
        ("moves.pause", {"moves": [1], "key": "x" * 256}, "a key has 1 to 255 characters"),
        ("moves.partitions", {"move_id": 1, "page_token": "x"}, "page_token 'x' is invalid"),
        ("moves.partitions", {"move_id": 1, "page_size": 201}, "$.page_size"),
    ],
)
async def test_an_invalid_request_about_moves_is_refused_as_a_whole(
    tmp_path: Path, name: str, wrong: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        body = msgspec.msgpack.encode(wrong)
        answer = await client.ask(ApiKey.CAPABILITY, 0, timeout=SECOND, name=name, body=body)
        assert (answer.error_code, answer.body) == (42, b"")
        assert words in answer.error_message
