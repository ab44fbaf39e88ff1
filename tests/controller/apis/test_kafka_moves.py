"""Moves that are there, looked at and changed over the Kafka protocol of real controllers."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.faults import Refused
from admin.model import PartitionId
from admin.moves import MovesRequest, Operation
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.asking import asked, isr, join, move, topic
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
            (listed,) = (await client.move_standings()).moves
            assert (listed.id, listed.kind, listed.state, listed.ended) == (
                1,
                "reassign",
                "running",
                False,
            )
            assert (listed.partition_count, listed.stepping, listed.waiting) == (1, 1, 0)
            assert not listed.partitions
            found = await client.move_standings([1])
            (partition,) = found.moves[0].partitions
            assert (str(partition.id), partition.target, partition.adding, partition.removing) == (
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
            assert partition.since_ms > 0
            assert found.as_of is not None
            await asked(leader.controller, isr(leader.controller, "a", (101, 102, 103)))
            (ended,) = (await client.move_standings([1])).moves
            assert (ended.state, ended.ended, ended.completed, ended.partitions) == (
                "completed",
                True,
                1,
                [],
            )


async def test_moves_are_paused_ordered_and_resumed_each_with_its_result(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        paused = await client.alter_moves(MovesRequest(operation=Operation.PAUSE, move_ids=(1, 7)))
        assert [(each.move_id, each.message) for each in paused.moves] == [
            (1, None),
            (7, "there is no move 7"),
        ]
        assert paused.has_refusals
        await client.alter_moves(
            MovesRequest(operation=Operation.PRIORITY, move_ids=(1,), priority=5)
        )
        (one,) = (await client.move_standings()).moves
        assert (one.state, one.changed_by, one.priority) == ("paused", "User:ANONYMOUS", 5)
        await client.alter_moves(MovesRequest(operation=Operation.RESUME, move_ids=(1,)))
        await client.alter_moves(MovesRequest(operation=Operation.PAUSE, everything=True))
        found = await client.move_standings()
        assert (found.moves[0].state, found.all_paused_by) == ("running", "User:ANONYMOUS")
        assert found.all_paused_since_ms > 0
        await client.alter_moves(MovesRequest(operation=Operation.RESUME, everything=True))
        assert (await client.move_standings()).all_paused_by is None


async def test_a_cancel_can_be_tried_before_and_says_what_each_partition_has(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        tried = MovesRequest(operation=Operation.CANCEL, everything=True, dry_run=True)
        would = await client.alter_moves(tried)
        assert [(str(each.id), each.replicas) for each in would.partitions] == [("a-0", (101, 102))]
        assert not (await client.move_standings()).moves[0].ended
        done = await client.alter_moves(
            MovesRequest(
                operation=Operation.CANCEL, topics=("a",), partitions=(PartitionId("b", 0),)
            )
        )
        assert [(str(each.id), each.replicas, each.error_name) for each in done.partitions] == [
            ("a-0", (101, 102), "NONE"),
            ("b-0", (), "NO_REASSIGNMENT_IN_PROGRESS"),
        ]
        assert (done.accepted, done.refused) == (1, 1)
        assert (await client.move_standings()).moves[0].state == "cancelled"


async def test_a_move_that_is_done_is_rolled_back_by_another_one(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        rollback = MovesRequest(operation=Operation.ROLL_BACK, move_ids=(1,))
        begun = await client.alter_moves(rollback)
        assert (begun.begun, begun.accepted, begun.refused) == (2, 1, 0)
        (back,) = (await client.move_standings([2])).moves
        assert (back.kind, back.rollback_of) == ("rollback", 1)
        assert back.partitions[0].target == (101, 102)
        assert (await client.alter_moves(rollback)).begun == 2


async def test_a_rollback_is_tried_before(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        tried = MovesRequest(operation=Operation.ROLL_BACK, move_ids=(1,), dry_run=True, key="k")
        for _ in range(2):
            would = await client.alter_moves(tried)
            assert (would.begun, would.accepted, would.refused) == (0, 1, 0)
            (partition,) = would.partitions
            assert (str(partition.id), partition.replicas) == ("a-0", (101, 102))
            # With a key or without: what changes nothing is asked as often as one likes.
            assert not would.is_repeated
        assert len((await client.move_standings()).moves) == 1
        with pytest.raises(Refused, match="move 7 cannot be rolled back: there is no move 7"):
            await client.alter_moves(replace(tried, move_ids=(7,)))


async def test_a_move_that_is_not_listed_is_named(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="the moves cannot be described: there is no move 7, or"):
            await client.move_standings([7])
        with pytest.raises(Refused, match="move 7 cannot be rolled back: there is no move 7"):
            await client.alter_moves(MovesRequest(operation=Operation.ROLL_BACK, move_ids=(7,)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"operation": 9},
            "operation 9 is not known; there is 1 pause, 2 resume, 3 cancel, 4 roll back,"
            " 5 priority, 6 throttle, 7 alter",
        ),
        ({"move_ids": ()}, "nothing is named; name moves, or ask for everything"),
        (
            {"operation": 3, "move_ids": ()},
            "nothing is named; name moves, topics or partitions, or ask for everything",
        ),
        (
            {"everything": True},
            "everything is asked for, and parts of it by name; ask for one of them",
        ),
        ({"dry_run": True}, "only a cancel or a rollback can be tried; leave the dry run out"),
        ({"priority": 5}, "a priority is given to one move by itself; leave it out"),
        ({"throttle": 5}, "a throttle is given to one move by itself; leave it out"),
        ({"topic": "a"}, "topics and partitions can only be cancelled; name moves"),
        (
            {"operation": 4, "move_ids": (1, 2)},
            "it is done with one move, not 2; name one",
        ),
        (
            {"operation": 5, "move_ids": (), "everything": True},
            "it is done with one move, not all of them; name one",
        ),
        (
            {"operation": 6, "move_ids": (1, 2)},
            "it is done with one move, not 2; name one",
        ),
    ],
)
async def test_what_cannot_be_meant_of_moves_is_refused_as_a_whole(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        fields: dict[str, Any] = {
            "timeout": SECOND,
            "operation": 1,
            "move_ids": (1,),
            "everything": False,
            "dry_run": False,
            "priority": 0,
        }
        fields |= wrong
        name = fields.pop("topic", None)
        whole = codec.nested(codec.request_schema(ApiKey.ALTER_MOVES, 0), "NamedTopic")
        part = codec.make(whole, name=name or "", partition_indexes=None)
        fields["topics"] = () if name is None else (part,)
        answer = await client.ask(ApiKey.ALTER_MOVES, 0, **fields)
        assert (answer.error_code, answer.error_message, answer.moves) == (42, words, ())
