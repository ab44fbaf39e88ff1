"""Reads from three controllers are never stale unless the request allows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from admin.capabilities.quorum import DescribeQuorum
from admin.client.admin_client import AdminClient, Unreachable
from admin.http.caller import Caller
from admin.http.gateway import Gateway
from controller.apis import reassignments
from controller.ports import Unavailable
from controller.service import NotActive
from quorum.core.effects import ReadRefusal
from quorum.core.vocabulary import Offset
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.protocol.extension import (
    Consistency,
    Extension,
    extension_of,
    with_extension,
)
from quorum.protocol.principal import ANONYMOUS
from tests.admin.http.test_http_api import http_door
from tests.controller.apis.samples import describe_quorum, metadata
from tests.controller.controller_commands import asked, heartbeat, join, looked, move, topic
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, active, controllers
from tests.support.kafka_client import Form
from tests.support.kio_values import make, make_known


@dataclass(frozen=True)
class Scene:
    leader: Node
    followers: tuple[Node, Node]


@asynccontextmanager
async def a_scene(folder: Path) -> AsyncIterator[Scene]:
    """Three controllers, and a topic that is being moved."""
    async with controllers(folder, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        first, second = (node for node in nodes.values() if node is not leader)
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101))
        await asked(leader.controller, move("a", 102))
        for node in (first, second):
            while node.controller.committed < leader.controller.committed:
                await node.opened.quorum.leader_changed(within_seconds=0.01)
        yield Scene(leader, (first, second))


async def test_a_leader_that_nobody_confirms_answers_no_query(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        controller = scene.leader.controller
        for follower in scene.followers:
            await follower.stop()
        found = looked(controller, lambda image: len(image.topic_ids))
        stale = looked(controller, lambda image: len(image.topic_ids), stale=True)
        assert await stale == 1
        assert not found.done()
        await scene.leader.stop()
        assert await found is Unavailable.NOT_ACTIVE


async def test_a_deposed_leader_does_not_answer_that_a_command_changes_nothing(
    tmp_path: Path,
) -> None:
    """An error is told of what it read: the topic may have been deleted by another controller."""
    async with a_scene(tmp_path) as scene:
        controller = scene.leader.controller
        for follower in scene.followers:
            await follower.stop()
        told: list[object] = []
        controller.submit(topic("a", 101), told.append, proved=True)
        # A broker asks again by itself; its heartbeats do not wait for a round each.
        alive = asked(controller, heartbeat(controller, 101))
        assert alive.done()
        assert told == []
        await scene.leader.stop()
        assert told == [Unavailable.NOT_ACTIVE]


@pytest.mark.interpreted
async def test_a_leader_that_resigns_before_it_answers_does_not_describe_the_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path) as scene:
        quorum = scene.leader.opened.quorum
        read_index = quorum.read_index

        async def confirmed_then_resigned() -> Offset | ReadRefusal:
            offset = await read_index()
            await scene.leader.stop()
            return offset

        monkeypatch.setattr(quorum, "read_index", confirmed_then_resigned)
        with pytest.raises(NotActive):
            await scene.leader.service.describe_quorum()


@pytest.mark.interpreted
async def test_descriptions_share_a_read_that_none_of_them_was_asked_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path) as scene:
        quorum = scene.leader.opened.quorum
        read_index, begun, proved = quorum.read_index, 0, asyncio.Event()

        async def held() -> Offset | ReadRefusal:
            nonlocal begun
            begun += 1
            await proved.wait()
            return await read_index()

        async def until_begun(reads: int) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while begun < reads:  # noqa: ASYNC110 - it begins in the next turn
                    await asyncio.sleep(0)

        monkeypatch.setattr(quorum, "read_index", held)
        gateway = Gateway(scene.leader.service, scene.leader.router)
        anybody = Caller(ANONYMOUS)
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(gateway.ask(DescribeQuorum(), anybody)) for _ in range(3)]
            await until_begun(1)
            found.append(tasks.create_task(gateway.ask(DescribeQuorum(), anybody)))
            await until_begun(2)
            proved.set()
        assert begun == 2
        assert {each.result().leader_id for each in found} == {scene.leader.node_id}
        stale = await gateway.ask(DescribeQuorum(), anybody, stale=True)
        assert (stale.leader_id, begun) == (scene.leader.node_id, 2)


@pytest.mark.parametrize("at_once_max", [0, 500])
async def test_a_follower_answers_stale_reads_with_their_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once_max: int
) -> None:
    monkeypatch.setattr(reassignments, "LISTED_AT_ONCE_MAX", at_once_max)
    async with a_scene(tmp_path) as scene:
        leader = scene.leader
        found = await reassignments.read_reassignments(leader.service, None, detailed=False)
        assert [(each.topic, each.adding) for each in found.value] == [("a", (102,))]
        assert found.offset == leader.controller.committed
        follower = scene.followers[0]
        with pytest.raises(NotActive):
            await reassignments.read_reassignments(follower.service, None)
        found = await reassignments.read_reassignments(follower.service, None, stale=True)
        assert [each.topic for each in found.value] == ["a"]
        assert found.offset == follower.controller.committed
        quorum = await follower.service.describe_quorum(stale=True)
        assert (quorum.leader_id, [each.id for each in quorum.voters]) == (
            scene.leader.node_id,
            [1, 2, 3],
        )
        known = {each.id: each.log_end_offset for each in quorum.voters}
        assert known.pop(follower.node_id) == follower.opened.log.end.offset
        assert set(known.values()) == {-1}


async def test_an_answer_of_any_controller_has_its_offset(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path) as scene:
        follower = scene.followers[0]
        async with AdminClient([follower.address], is_controller=True) as client:
            found = await client.reassignments()
            assert [each.topic for each in found.value] == ["a"]
            assert found.as_of is not None
            assert found.as_of >= scene.leader.controller.committed
            assert list(await client.describe_topics()) == ["a"]
        for gone in (scene.leader, scene.followers[1]):
            await gone.stop()
        async with AdminClient([follower.address], is_controller=True, timeout_ms=100) as hasty:
            with pytest.raises(Unreachable):
                await hasty.reassignments()
            with pytest.raises(Unreachable):
                await hasty.describe_topics()
        async with AdminClient([follower.address], is_controller=True) as client:
            stale = await client.reassignments(stale=True)
            assert (stale.value, stale.as_of) == (found.value, follower.controller.committed)
            topics = await client.topics(stale=True)
            assert (list(topics.value), topics.as_of) == (["a"], stale.as_of)
            assert (await client.describe_quorum(stale=True)).voters


async def test_http_answers_stale_reads_on_request(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        follower = scene.followers[0]
        async with http_door(follower) as http, http_door(follower, wait_seconds=0.1) as hasty:
            found = (await http.get("/v1/reassignments")).body
            assert (found["total"], found["as_of_offset"]) == (
                1,
                scene.leader.controller.committed,
            )
            for gone in (scene.leader, scene.followers[1]):
                await gone.stop()
            assert (await hasty.get("/v1/reassignments")).status == 503
            stale = (await http.get("/v1/reassignments?stale=true")).body
            assert stale == {**found, "as_of_offset": follower.controller.committed}
            quorum = (await http.get("/v1/quorum?stale=true")).body
            assert quorum["as_of_offset"] == follower.opened.quorum.node.high_watermark
            assert [each["replica_id"] for each in quorum["current_voters"]] == [1, 2, 3]


async def test_a_node_that_has_heard_of_nothing_says_so(tmp_path: Path) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1], wait_seconds=0.1) as http,
    ):
        answer = await http.get("/v1/reassignments?stale=true")
        assert answer.status == 503
        assert "is still reading committed records" in answer.body["detail"]
        found = await http.get("/v1/quorum?stale=true")
        assert found.body["leader_id"] == -1


ZERO = timedelta(0)
QUORUM, METADATA, OLD = (
    Form(ApiKey.DESCRIBE_QUORUM, 2),
    Form(ApiKey.METADATA, 12),
    Form(ApiKey.METADATA, 8),
)


def test_a_request_without_a_field_for_it_says_how_long_its_asker_waits() -> None:
    schema = codec.request_schema(ApiKey.REMOVE_RAFT_VOTER, 0)
    message = make(schema, cluster_id=None, voter_id=2, voter_directory_id=None)
    plain = codec.encode_request_body(ApiKey.REMOVE_RAFT_VOTER, 0, message)
    body = with_extension(schema, plain, Extension(patience_ms=1_500))
    found = codec.decode_request(ApiKey.REMOVE_RAFT_VOTER, 0, body)
    assert (found.voter_id, extension_of(found)) == (2, Extension(patience_ms=1_500))
    assert codec.decode_request(ApiKey.REMOVE_RAFT_VOTER, 0, plain) == message
    assert extension_of(message) is None


@pytest.mark.parametrize("wanted", Consistency)
def test_a_request_says_what_its_answer_must_be(wanted: Consistency) -> None:
    for form, message in ((QUORUM, describe_quorum(QUORUM)), (METADATA, metadata(METADATA))):
        plain = codec.encode_request_body(form.api_key, form.version, message)
        body = with_extension(type(message), plain, Extension(consistency=wanted))
        found = codec.decode_request(form.api_key, form.version, body)
        assert (found.topics, extension_of(found)) == (
            message.topics,
            Extension(consistency=wanted),
        )
        assert codec.decode_request(form.api_key, form.version, plain) == message
        assert extension_of(message) is None


def test_versions_without_tagged_fields_cannot_say_it() -> None:
    message = metadata(OLD)
    plain = codec.encode_request_body(OLD.api_key, OLD.version, message)
    stale = Extension(consistency=Consistency.STALE)
    assert with_extension(type(message), plain, stale) == plain
    response = make_known(
        codec.response_schema(ApiKey.METADATA, 8),
        brokers=(),
        controller_id=1,
        topics=(),
        throttle_time=ZERO,
    )
    answer = codec.encode_response_body(ApiKey.METADATA, 8, response)
    assert with_extension(type(response), answer, Extension(as_of=5)) == answer


@pytest.mark.parametrize("end", [b"\x01\x91\x4e\x01\x00", b"\x01\x91\x4e\x01\x07"])
def test_another_field_that_ends_with_the_same_bytes_says_nothing(end: bytes) -> None:
    plain = codec.encode_request_body(QUORUM.api_key, 2, describe_quorum(QUORUM))
    other = plain[:-1] + b"\x01\xa0\x9c\x01" + bytes((len(end),)) + end
    found = codec.decode_request(QUORUM.api_key, 2, other)
    assert (found, extension_of(found)) == (describe_quorum(QUORUM), None)


@pytest.mark.parametrize("value", [b"\xc1", b"\x81\xabconsistency\x07", b"\x81\xabpatience_ms\xff"])
def test_an_extension_that_cannot_be_read_is_malformed(value: bytes) -> None:
    message = codec.build(
        codec.request_schema(QUORUM.api_key, 2), {"topics": (), "extension": value}
    )
    with pytest.raises(Malformed, match="DescribeQuorum v2: extension: "):
        extension_of(message)


def test_an_answer_says_what_it_is_as_of() -> None:
    schema = codec.response_schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    response = make(
        schema, error_code=codec.error_code(0), error_message=None, topics=(), throttle_time=ZERO
    )
    plain = codec.encode_response_body(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, response)
    body = with_extension(schema, plain, Extension(as_of=1 << 40))
    read = codec.decode_response(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, body)
    assert (read.topics, extension_of(read)) == ((), Extension(as_of=1 << 40))
    assert codec.decode_response(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, plain) == response
    assert extension_of(response) is None
