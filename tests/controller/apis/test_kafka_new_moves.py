"""AlterPartitionReassignments and ListPartitionReassignments with our extension."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admin.capabilities.moves import DescribeMove, ListMoves
from admin.capabilities.reassignments import AssignedPartition, BeginMove
from admin.faults import Refused
from admin.model import Assignment
from controller.move_requests import MoveOptions, OngoingReassignment
from quorum.protocol.apis import ApiKey
from quorum.protocol.extension import Consistency, Extension, details_of, with_extension
from statemachine import commands
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from tests.controller.apis.samples import alter_reassignments, list_reassignments
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, isr, join, move, topic, topic_id
from tests.statemachine.support.config_requests import ALL_BROKERS, SET, change
from tests.support.controllers import Node, a_controller, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client


async def four_brokers(node: Node) -> None:
    """Topics a and b on 101 and 102; 103 and 104 are there as well."""
    await join(node.controller, 101, 102, 103, 104)
    await asked(node.controller, topic("a", 101, 102, partitions=3))
    await asked(node.controller, topic("b", 101, 102))


def form(version: int) -> Form:
    return Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version)


async def altered(
    client: KafkaClient, version: int, moves: Any, *, tried: bool = False, **fields: Any
) -> Any:
    """The answer to a request, of ours if there is anything to say in an extension."""
    wanted = alter_reassignments(form(version), *moves)
    request = replace(wanted, topics=() if tried else wanted.topics)
    body = form(version).body(request)
    if not tried and not fields:
        return await client.send_bytes(form(version), body)
    extension = Extension(details=options_of(*moves, tried=tried, **fields))
    answer = await client.send_bytes(form(version), with_extension(type(request), body, extension))
    return details_of(answer, commands.ReassignmentsAltered) or answer


def options_of(*moves: Any, tried: bool = False, key: str = "", **fields: Any) -> bytes:
    """The details of the request; the partitions are in it where they are only tried."""
    wanted = [commands.Reassignment(topic=t, partition=n, replicas=r) for t, n, r in moves]
    command = commands.AlterReassignments(
        reassignments=tuple(wanted) if tried else (), dry_run=tried, **fields
    )
    return msgspec.msgpack.encode(MoveOptions(command=command, key=key))


def codes(answer: Any) -> list[int]:
    """The error code of each partition."""
    if isinstance(answer, commands.ReassignmentsAltered):
        return [each.error.code for each in answer.partitions]
    return [int(part.error_code) for each in answer.responses for part in each.partitions]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_request_with_a_key_is_carried_out_once_and_answered_alike(
    tmp_path: Path, version: int
) -> None:
    """Versions are as old as Kafka's; both have the extension."""
    moves = [("a", 0, (101, 103)), ("a", 9, (101,)), ("b", 0, None)]
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        first = await altered(client, version, moves, key="k", name="rack 7", priority=2)
        assert (first.move_id, first.repeated) == (1, False)
        assert codes(first) == [0, 3, 85]
        assert [each.replicas for each in first.partitions] == [(101, 102, 103), (), ()]
        begun = node.controller.image.moves[1].begun
        assert (begun.name, begun.priority, begun.key) == ("rack 7", 2, "k")
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        await asked(node.controller, move("a", 101, 104))
        again = await altered(client, version, moves, key="k", name="rack 7", priority=2)
        assert (again.move_id, again.repeated) == (1, True)
        assert codes(again) == [0, 3, 85]
        assert [each.message for each in again.partitions] == [
            each.message for each in first.partitions
        ]
        # Told is what it has now, by the move of somebody else.
        assert again.partitions[0].replicas == (101, 103, 104)
        other = await altered(client, version, moves[:1], key="k")
        assert (int(other.error_code), other.responses) == (92, ())
        assert "the key k belongs to another request" in other.error_message


async def test_kafkas_clients_get_no_extension(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        answer = await altered(client, 1, [("a", 0, (101, 103))])
        assert (answer.extension, codes(answer)) == (b"", [0])
        answer = await altered(client, 1, [("a", 0, (101, 103))], priority=0)
        assert (answer.move_id, answer.partitions[0].replicas) == (1, (101, 102, 103))
        listing = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        message = list_reassignments(listing)
        plain = listing.body(message)
        found = await client.send_bytes(listing, plain)
        ((shown,),) = (each.partitions for each in found.topics)
        assert (found.extension, shown.adding_replicas) == (b"", (103,))
        stale = Extension(consistency=Consistency.STALE)
        ours = with_extension(type(message), plain, stale)
        found = await client.send_bytes(listing, ours)
        (only,) = details_of(found, tuple[OngoingReassignment, ...]) or ()
        assert (only.target, only.move_id, only.step, only.state) == ((101, 103), 1, 1, "growing")


async def test_a_dry_run_changes_nothing_and_reports_the_steps(tmp_path: Path) -> None:
    moves = [("a", 0, (103, 102)), ("a", 9, (101,))]
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        end = node.controller.image.end_offset
        tried = await altered(client, 1, moves, tried=True, key="k")
        assert (tried.move_id, codes(tried)) == (0, [0, 3])
        (step,) = tried.partitions[0].steps
        assert (step, tried.partitions[0].replicas) == ((103, 102), (101, 102, 103))
        assert node.controller.image.end_offset == end


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": "x" * 256}, "a key has 1 to 255 characters, not 256"),
        ({"key": "a\n"}, "other characters than printable ASCII"),
        ({"name": "x" * 256}, "the name of a move has at most 255 characters, not 256"),
        ({"tried": True}, "a dry run takes its partitions in the options, not in the request"),
        ({"priority": "high"}, "$.command.priority"),
    ],
)
async def test_an_invalid_move_is_refused_as_a_whole(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        wanted = alter_reassignments(form(1), ("a", 0, (103,)))
        known = msgspec.msgpack.decode(options_of(key=fields.pop("key", "")))
        known["command"] |= {"dry_run": fields.pop("tried", False)} | fields
        extension = Extension(details=msgspec.msgpack.encode(known))
        request = form(1).request(topics=wanted.topics, timeout=wanted.timeout)
        body = with_extension(type(request), form(1).body(request), extension)
        answer = await client.send_bytes(form(1), body)
        assert (int(answer.error_code), answer.responses) == (42, ())
        assert words in answer.error_message
        assert node.controller.image.moves == {}


async def test_partitions_that_wait_are_listed_with_why_they_do(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await four_brokers(leader)
        limits = commands.IncrementalAlterConfigs(
            changes=(change(ALL_BROKERS, (PARALLEL_PARTITIONS, SET, "1")),)
        )
        await asked(leader.controller, limits)
        follower = next(each for each in nodes.values() if each is not leader)
        async with client_of(follower) as client:
            begun = await client.begin_move(
                BeginMove(
                    assignments=[
                        Assignment(topic="a", partition=number, replicas=(101, 103))
                        for number in (0, 1)
                    ]
                )
            )
            assert (begun.move_id, begun.repeated, len(begun.accepted)) == (1, False, 2)
            first, second = await client.list_reassignments()
            (only,) = await client.list_reassignments({"a": [1, 2], "b": [0]})
        assert (first.adding, first.step, first.step_count, first.state) == (
            (103,),
            1,
            1,
            "growing",
        )
        assert (first.reason, first.reason_brokers) == ("catching-up", (103,))
        assert (second.replicas, second.adding, second.removing) == ((101, 102), (), ())
        assert (second.target, second.move_id, second.state) == ((101, 103), 1, "waiting")
        assert (second.reason, second.detail) == (
            "limit-partitions",
            "partitions with a step under way: 1",
        )
        assert second.since_ms
        assert only == second


async def test_kafkas_tools_can_take_back_what_waits_and_steps_that_only_add(
    tmp_path: Path,
) -> None:
    """To them all that is left is one reassignment: which of it is under way is not theirs to know.

    `--cancel` of 4.2.0 takes back what adds or removes somebody, that of 3.9.1 what adds nobody or
    removes somebody.
    """
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        limits = change(ALL_BROKERS, (PARALLEL_PARTITIONS, SET, "1"), (PARALLEL_REPLICAS, SET, "1"))
        await asked(node.controller, commands.IncrementalAlterConfigs(changes=(limits,)))
        await altered(client, 1, [("a", each, (103, 102)) for each in (0, 1, 2)])
        async with client_of(node) as ours:
            steps = await ours.list_reassignments()
        assert [(each.adding, each.removing) for each in steps] == [
            ((103,), ()),
            ((), ()),
            ((), ()),
        ]
        listing = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        found = await client.send(listing, list_reassignments(listing))
        ((*listed,),) = (each.partitions for each in found.topics)
        assert {
            (each.replicas, each.adding_replicas, each.removing_replicas) for each in listed
        } == {((101, 102, 103), (103,), (101,))}
        tools: list[Callable[[Any], bool]] = [
            lambda each: bool(each.adding_replicas or each.removing_replicas),
            lambda each: bool(not each.adding_replicas or each.removing_replicas),
        ]
        for takes in tools:
            assert [each.partition_index for each in listed if takes(each)] == [0, 1, 2]
        back = await altered(client, 1, [("a", each, None) for each in (0, 1, 2)])
        assert codes(back) == [0, 0, 0]
        assert (await client.send(listing, list_reassignments(listing))).topics == ()
        ended = node.controller.image.moves[1].ended
        assert ended is not None
        assert (ended.cancelled, ended.completed) == (3, 0)


async def test_a_move_is_listed_for_kafkas_tools_until_its_last_step(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        limits = change(ALL_BROKERS, (PARALLEL_REPLICAS, SET, "1"))
        await asked(node.controller, commands.IncrementalAlterConfigs(changes=(limits,)))
        await altered(client, 1, [("b", 0, (103, 104))])
        listing = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        told = []
        while found := (await client.send(listing, list_reassignments(listing))).topics:
            ((each,),) = (topic.partitions for topic in found)
            told.append((each.replicas, each.adding_replicas, each.removing_replicas))
            (partition,) = (
                one for _, one in node.controller.image.topics[topic_id("b")].existing()
            )
            await asked(node.controller, isr(node.controller, "b", partition.replicas))
        assert told == [
            ((101, 102, 103, 104), (103, 104), (101, 102)),
            ((103, 102, 104), (104,), (102,)),
        ]


async def test_two_operators_who_contradict_each_other_are_both_told_what_became_of_it(
    tmp_path: Path,
) -> None:
    """Both ask at once, at different controllers; one is first, and the other one takes over."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await four_brokers(leader)
        one, other = (client_of(each) for each in nodes.values() if each is not leader)
        wishes = {
            name: BeginMove(
                assignments=[
                    Assignment(topic="a", partition=0, replicas=replicas),
                    Assignment(topic=own, partition=number, replicas=replicas),
                ],
                name=name,
            )
            for name, own, number, replicas in (
                ("ann", "a", 1, (101, 103)),
                ("bob", "b", 0, (101, 104)),
            )
        }
        async with one, other:
            begun = await asyncio.gather(
                one.begin_move(wishes["ann"]), other.begin_move(wishes["bob"])
            )
            standings = (await one.ask(ListMoves())).moves
            underway = {str(each.id): each for each in await one.list_reassignments()}
        assert sorted(each.move_id for each in begun) == [1, 2]
        assert all(len(each.accepted) == 2 for each in begun)
        earlier, later = standings
        # Who came second has the partition that both wanted; the first still moves the other one.
        assert (earlier.superseded, earlier.stepping, later.superseded, later.stepping) == (
            1,
            1,
            0,
            2,
        )
        assert {each.name for each in standings} == {"ann", "bob"}
        assert later.name is not None
        wanted = wishes[later.name].assignments[0].replicas
        assert (underway["a-0"].target, underway["a-0"].move_id) == (wanted, 2)
        # Nothing is left of what was added for the first, for it was not in sync.
        assert set(underway["a-0"].replicas) == {101, 102, *(wanted or ())}


async def test_a_plan_for_a_topic_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    """Before it is asked for, while it is under way, and asked again with its key afterwards."""
    moves = [("a", 0, (101, 103)), ("b", 0, (101, 103))]
    async with a_controller(tmp_path) as node:
        await four_brokers(node)
        asked_for = BeginMove(
            assignments=[Assignment(topic=t, partition=n, replicas=r) for t, n, r in moves],
            key="k",
        )
        async with client_of(node) as client:
            begun = await client.begin_move(asked_for)
            await client.delete_topic("b")
            standing = await client.ask(DescribeMove(move_id=1))
            assert (standing.gone, standing.stepping, standing.ended) == (1, 1, False)
            assert [str(each.id) for each in await client.list_reassignments()] == ["a-0"]
            again = await client.begin_move(asked_for)
            assert (again.move_id, again.repeated) == (begun.move_id, True)
            assert [each.replicas for each in again.results] == [(101, 102, 103), ()]
            anew = await client.begin_move(BeginMove(assignments=asked_for.assignments))
            assert (anew.move_id, [each.kafka_error for each in anew.results]) == (
                1,
                ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"],
            )
            assert anew.refused == [
                AssignedPartition(
                    topic="b",
                    partition=0,
                    kafka_error_code=3,
                    kafka_error="UNKNOWN_TOPIC_OR_PARTITION",
                    message="there is no topic b",
                )
            ]
            await client.delete_topic("a")
            ended = await client.ask(DescribeMove(move_id=1))
            assert (ended.state, ended.gone) == ("gone", 2)
            with pytest.raises(Refused, match="belongs to another request"):
                await client.begin_move(BeginMove(assignments=asked_for.assignments[:1], key="k"))
