"""Event streams of running controllers: resumed on any of them, shared, and bounded."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from admin.capabilities.needs import Role
from admin.http.events import hub
from admin.http.events.resources import LAST_EVENT_ID
from admin.http.limits import HttpLimits
from admin.http.tokens import TokenFile, create
from statemachine.commands import CordonBrokers
from tests.admin.http.raw_http import listening
from tests.admin.http.stream_client import watching
from tests.controller.controller_commands import asked, join, topic
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, a_controller, active, controllers

SSE = "text/event-stream"


async def cordon(node: Node, broker: int, *, cordoned: bool = True) -> int:
    """Change a broker; return the offset after the change."""
    await asked(node.controller, CordonBrokers(broker_ids=(broker,), cordoned=cordoned))
    return node.controller.committed


async def test_a_stream_goes_on_at_another_node_without_gap_and_repetition(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes, AsyncExitStack() as parts:
        first = await active(nodes.values())
        await join(first.controller, 101, 102)
        https = {each: await parts.enter_async_context(listening(nodes[each])) for each in nodes}
        async with watching(https[first.node_id], "/v1/brokers") as stream:
            event = (await stream.until("brokers", first.controller.committed))[-1]
        assert event.id is not None
        assert event.data["as_of_offset"] == event.id
        await first.stop()
        del nodes[first.node_id]
        second = await active(nodes.values())
        other = next(each for each in nodes.values() if each is not second)
        async with (
            watching(https[second.node_id], "/v1/brokers", event.id) as here,
            watching(https[other.node_id], "/v1/brokers", event.id) as there,
        ):
            # Only the records of an election have come since: nothing is repeated.
            offset = await cordon(second, 102)
            for stream in (here, there):
                (after,) = await stream.until("brokers", offset)
                assert [each["broker_id"] for each in after.data["brokers"]] == [102]
                assert after.data["brokers"][0]["cordoned"]
                assert not after.data["complete"]
        async with watching(https[other.node_id], "/v1/brokers", event.id) as late:
            (missed,) = await late.until("brokers", offset)
            assert 102 in [each["broker_id"] for each in missed.data["brokers"]]


async def test_a_node_that_is_behind_waits_until_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CATCH_UP_SECONDS_MAX", 0.5)
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, 101)
        offset = node.controller.committed
        async with watching(http, "/v1/brokers", offset + 1) as stream:
            await asked(node.controller, topic("a", 101))
            changed = await cordon(node, 101)
            (event,) = await stream.until("brokers", changed)
            assert event.data["brokers"][0]["cordoned"]
        async with watching(http, "/v1/brokers", offset + 1_000) as stream:
            closed = await stream.next()
            assert closed is not None
            assert closed.name == "closed"
            assert str(offset + 1_000) in closed.data["reason"]
            assert await stream.next() is None


async def test_the_quorum_with_the_lag_that_only_the_leader_knows(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        asks = 0
        ask = follower.router.answer

        async def counted(request: object) -> object:
            nonlocal asks
            asks += 1
            return await ask(request)  # type: ignore[arg-type]

        follower.router.answer = counted  # type: ignore[method-assign]
        async with listening(follower) as http, AsyncExitStack() as parts:
            streams = [
                await parts.enter_async_context(watching(http, "/v1/quorum")) for _ in range(20)
            ]
            for stream in streams:
                while True:
                    event = await stream.next()
                    assert event is not None
                    voters = event.data["current_voters"]
                    if all(each["lag"] >= 0 for each in voters):
                        break
                assert event.data["leader_id"] == leader.node_id
                assert [each["status"] for each in voters].count("follower") == 2
        assert asks < 20


async def test_moves_and_one_move(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        plan = b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[103]}]}'
        async with watching(http, "/v1/reassignments") as stream:
            first = await stream.next()
            assert first is not None
            assert first.data["moves"] == []
            assert (await http.ask("POST", "/v1/reassignments", plan)).status == 202
            event = (await stream.until("reassignments", node.controller.committed))[-1]
            (move,) = event.data["moves"]
            assert (move["move_id"], move["stepping"]) == (1, 1)
            assert move["example"]["reason"] == "catching-up"
        async with watching(http, "/v1/reassignments/1") as stream:
            one = await stream.next()
            assert one is not None
            assert one.data["state"] == "running"
            assert (await http.ask("POST", "/v1/reassignments/1:pause")).status == 200
            event = (await stream.until("reassignment", node.controller.committed))[-1]
            assert event.data["state"] == "paused"
        missing = await http.ask("GET", "/v1/reassignments/9", Accept=SSE)
        assert missing.status == 404


async def test_a_resource_without_events_says_so_unless_other_kinds_will_do(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        refused = await http.ask("GET", "/v1/topics", Accept=SSE)
        assert (refused.status, refused.data["title"]) == (406, "No events")
        assert "/v1/topics has no events; there are those of /v1/quorum," in refused.data["detail"]
        for accept in (f"{SSE}, */*", "*/*", f"application/json, {SSE};q=0.5"):
            assert (await http.ask("GET", "/v1/topics", Accept=accept)).status == 200


async def test_records_without_effect_are_no_change(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, 101)
        offset = node.controller.committed
        node.controller.no_op_interval_ms = 1
        while node.controller.committed < offset + 3:
            node.controller.append_no_op()
            await asyncio.sleep(0)
        async with watching(http, "/v1/brokers", offset) as stream:
            changed = await cordon(node, 101)
            (event,) = await stream.until("brokers", changed)
            assert not event.data["complete"]


async def test_streams_have_a_limit_of_their_own(tmp_path: Path) -> None:
    limits = HttpLimits(connections_max=4, connections_max_per_ip=4, streams_max_per_ip=6)
    async with a_controller(tmp_path) as node, listening(node, limits=limits) as http:
        async with AsyncExitStack() as parts:
            for _ in range(6):
                stream = await parts.enter_async_context(watching(http, "/v1/brokers"))
                assert await stream.next()
            refused = await http.ask("GET", "/v1/brokers", Accept=SSE)
            assert refused.status == 503
            assert "6 event streams" in refused.data["detail"]
            assert "retry-after" in refused.headers
            assert (await http.ask("GET", "/v1/brokers")).status == 200
        # The node notices at its next sample that they have gone.
        while http.hub.streams:  # noqa: ASYNC110 - it signals nothing
            await asyncio.sleep(0)
        async with watching(http, "/v1/brokers") as stream:
            assert await stream.next()


async def test_a_client_that_does_not_read_is_cut_off_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "UNREAD_SECONDS_MAX", 0.3)
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.0)
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, *range(101, 301))
        async with watching(http, "/v1/brokers") as slow, watching(http, "/v1/brokers") as quick:
            slow.connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
            cordoned = True
            while http.hub.streams == 2:
                command = CordonBrokers(broker_ids=tuple(range(101, 301)), cordoned=cordoned)
                await asked(node.controller, command)
                await quick.until("brokers", node.controller.committed)
                cordoned = not cordoned
            assert http.hub.streams == 1


async def test_writing_events_has_a_share_of_the_time_on_a_slow_machine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor's clock shows half a second for each write, so the next one is far off."""
    assert hub.pause_after(0.002, 1) == hub.PAUSE_SECONDS
    assert hub.pause_after(0.04, 1) == pytest.approx(2.0)
    assert hub.pause_after(0.04, 3) == pytest.approx(6.0)
    clock = itertools.count(step=0.5)
    monkeypatch.setattr(hub, "thread_time", lambda: next(clock))
    pauses = []
    planned = hub.pause_after

    def pause_after(spent_seconds: float, resources: int) -> float:
        pauses.append(planned(spent_seconds, resources))
        return 0.0

    monkeypatch.setattr(hub, "pause_after", pause_after)
    async with (
        a_controller(tmp_path) as node,
        listening(node) as http,
        watching(http, "/v1/brokers") as stream,
    ):
        await stream.until("brokers", await cordon(node, 101))
    assert set(pauses) == {0.5 / hub.WRITING_SHARE_MAX}


async def test_tokens_are_needed_for_streams_too_and_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.1)
    path = tmp_path / "tokens"
    secret = create(path, "page", Role.VIEWER, "User:page")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tokens=TokenFile(path)) as http,
    ):
        assert (await http.ask("GET", "/v1/brokers", Accept=SSE)).status == 401
        async with watching(http, "/v1/brokers", Authorization=f"Bearer {secret}") as stream:
            assert await stream.next()
            path.write_text("")
            closed = await stream.next()
            assert closed is not None
            assert (closed.name, closed.data["reason"]) == (
                "closed",
                "the bearer token is not known",
            )


async def test_a_stream_without_events_shows_that_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    async with (
        a_controller(tmp_path) as node,
        listening(node) as http,
        watching(http, "/v1/brokers") as stream,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        assert await stream.next()
        assert b": still here" in await stream.connection.reader.readuntil(b"here\n\n")


@pytest.mark.parametrize("given", ["-1", "x", "1.5", "9" * 30])
async def test_an_id_that_is_none_is_refused(tmp_path: Path, given: str) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        answer = await http.ask("GET", "/v1/brokers", Accept=SSE, Last_Event_ID=given)
        assert answer.status == 400
        assert LAST_EVENT_ID in answer.data["detail"]


async def test_a_node_that_stops_says_so(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, AsyncExitStack() as parts:
        http = await parts.enter_async_context(listening(node))
        async with watching(http, "/v1/brokers") as stream:
            assert await stream.next()
            await http.listener.close()
            closed = await stream.next()
            assert closed is not None
            assert closed.name == "closed"
            assert "stops" in closed.data["reason"]
