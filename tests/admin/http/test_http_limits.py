"""The bounds on what an unauthenticated client may take of the HTTP listener."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from admin.http.bodies import LIMITS, read_body
from admin.http.limits import SMALL_BYTES, Account, HttpLimits, Share
from admin.http.problems import Problem
from tests.admin.http.raw_http import PAUSE, Connection, listening
from tests.support.controllers import a_controller

MIB = 1024 * 1024
PLAN = "/v1/reassignments"


def begin_plan(connection: Connection, size: int) -> None:
    """A plan of which the last byte does not come."""
    connection.write("POST", PLAN, Content_Type="application/json", Content_Length=str(size))
    connection.writer.write(b" " * (size - 1))


async def test_plans_that_never_end_hold_a_bounded_memory(tmp_path: Path) -> None:
    """48 bodies of 63 MiB without their last byte held 3 GB; the numbers here are smaller."""
    limits = HttpLimits(plan_bytes_max=MIB, held_bytes_max_per_ip=2 * MIB, held_bytes_max=4 * MIB)
    async with (
        a_controller(tmp_path) as node,
        listening(node, limits=limits) as http,
        AsyncExitStack() as clients,
    ):
        statuses: list[int] = []

        async def send() -> None:
            connection = await clients.enter_async_context(http.connected())
            begin_plan(connection, MIB)
            statuses.append((await connection.response()).status)

        async with asyncio.TaskGroup() as tasks:
            senders = [tasks.create_task(send()) for _ in range(8)]
            while len(statuses) < 6:  # noqa: ASYNC110 - eight tasks fill it
                await asyncio.sleep(0)
            # Two wait for their last byte; meanwhile everyone else is served.
            assert (await http.ask("GET", "/v1/quorum")).status == 200
            paused = await http.ask("POST", f"{PLAN}:generate", b'{"topics": ["a"]}')
            assert paused.status == 404
            for each in senders:
                each.cancel()
        assert statuses == [503] * 6


async def test_a_refused_plan_gives_back_what_it_held(tmp_path: Path) -> None:
    limits = HttpLimits(plan_bytes_max=MIB, held_bytes_max_per_ip=MIB, held_bytes_max=MIB)
    async with a_controller(tmp_path) as node, listening(node, limits=limits) as http:
        for _ in range(3):
            answer = await http.ask("POST", PLAN, b"[" * MIB)
            assert (answer.status, answer.data["title"]) == (400, "Invalid plan")


async def test_only_a_body_that_lists_partitions_may_be_long(tmp_path: Path) -> None:
    limits = HttpLimits(body_bytes_max=1_000, plan_bytes_max=10_000)
    async with a_controller(tmp_path) as node, listening(node, limits=limits) as http:
        for path, size, status in [
            (PAUSE, 1_001, 413),
            (PLAN, 1_001, 400),
            (f"{PLAN}:cancel", 1_001, 400),
            (PLAN, 10_001, 413),
        ]:
            assert (await http.ask("POST", path, b"x" * size)).status == status, path
        chunked = b"x" * 600
        async with http.connected() as connection:
            connection.write(
                "POST", PAUSE, Content_Type="application/json", Transfer_Encoding="chunked"
            )
            connection.writer.write((b"258\r\n" + chunked + b"\r\n") * 2)
            assert (await connection.response()).status == 413


async def test_a_body_of_many_elements_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path) as node,
        listening(node, limits=HttpLimits(elements_max=1_000)) as http,
    ):
        few = await http.ask("POST", PLAN, b"[" + b"[]," * 400 + b"0]")
        assert (few.status, few.data["title"]) == (400, "Invalid plan")
        many = await http.ask("POST", PLAN, b"[" + b"[]," * 600 + b"0]")
        assert (many.status, many.data["title"]) == (413, "Too many elements")


async def test_a_body_that_is_late_is_given_up(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path) as node,
        listening(node, limits=HttpLimits(body_ms=100)) as http,
    ):
        async with http.connected() as connection:
            begin_plan(connection, 1_000)
            answer = await connection.response()
            assert (answer.status, answer.data["title"]) == (408, "Too slow")
            await connection.rest()
        await http.until_open(0)


@pytest.mark.parametrize("sent", [b"", b"GET /v1/quorum HTTP/1.1\r\nHost: a\r\nX"])
async def test_a_connection_without_a_whole_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    async with (
        a_controller(tmp_path) as node,
        listening(node, limits=HttpLimits(idle_ms=100)) as http,
        http.connected() as connection,
    ):
        connection.writer.write(sent)
        assert await connection.rest() == b""


async def test_connections_are_bounded_in_total_and_by_address(tmp_path: Path) -> None:
    limits = HttpLimits(connections_max=3, connections_max_per_ip=2)
    async with (
        a_controller(tmp_path) as node,
        listening(node, limits=limits) as http,
        http.connected() as first,
    ):
        async with http.connected() as second:
            assert (await first.ask("GET", "/v1/quorum")).status == 200
            assert (await second.ask("GET", "/v1/quorum")).status == 200
            async with http.connected() as third:
                assert await third.rest() == b""
            assert (await first.ask("GET", "/v1/quorum")).status == 200
        await http.until_open(1)
        assert (await http.ask("GET", "/v1/quorum")).status == 200


async def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    size = 64 * MIB

    async def long_response(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * size)

    limits = HttpLimits(response_ms=200, response_bytes_per_s_min=1024 * MIB)
    async with (
        a_controller(tmp_path) as node,
        listening(node, route=("/long", long_response), limits=limits) as http,
        http.connected() as connection,
    ):
        connection.write("GET", "/long")
        await http.until_open(1)
        await http.until_open(0)


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secret\r\n\r\n",
    b"GET /v1/quorum HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nsecret\xff\xfe\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: secret\r\n\r\n",
    b"GET /" + b"secret" * 2_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: secret\r\n" * 1_000 + b"\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
]


@pytest.mark.parametrize("request_", MALFORMED, ids=lambda each: repr(each[:20]))
async def test_a_malformed_request_is_answered_400_and_said_once(
    tmp_path: Path, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        caplog.clear()
        for _ in range(20):
            async with http.connected() as connection:
                connection.writer.write(request_)
                answer = await connection.response()
                assert answer.status == 400
                assert answer.headers["content-type"].startswith("application/problem+json")
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert b"secret" not in answer.body
                assert await connection.rest() == b""
        lines = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert len(lines) == 1
        assert lines[0].exc_info is None
        assert "secret" not in lines[0].getMessage()
        assert (await http.ask("GET", "/v1/quorum")).status == 200


async def test_a_malformed_body_is_answered_400_without_a_stack_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        caplog.clear()
        for headers, body in [
            ({"Transfer_Encoding": "chunked"}, b"secret\r\n"),
            ({"Content_Encoding": "gzip", "Content_Length": "6"}, b"secret"),
        ]:
            async with http.connected() as connection:
                connection.write("POST", PLAN, Content_Type="application/json", **headers)
                connection.writer.write(body)
                assert (await connection.response()).status == 400
        # Gone in the middle of its body.
        async with http.connected() as connection:
            begin_plan(connection, 1_000)
            await http.until_open(1)
        await http.until_open(0)
        assert (await http.ask("GET", "/v1/quorum")).status == 200
    assert not [each for each in caplog.records if each.exc_info]
    assert "secret" not in caplog.text


async def test_a_body_of_a_connection_that_has_closed_before_is_cut_off() -> None:
    loop = asyncio.get_running_loop()
    app = web.Application()
    app[LIMITS] = HttpLimits()
    body = StreamReader(BaseProtocol(loop), 1024, loop=loop)
    request = make_mocked_request("POST", PLAN, app=app, payload=body)
    with pytest.raises(Problem, match="cut off"):
        await read_body(request)


def test_an_account_is_bounded_in_total_and_by_address() -> None:
    account = Account(10, 6)
    assert account.take("a", 6)
    assert not account.take("a", 1)
    assert account.take("b", 4)
    assert not account.take("c", 1)
    # Not even the only one of its address, while others hold something.
    assert not account.take("c", 100, alone=True)
    account.give_back("a", 6)
    account.give_back("b", 4)
    assert account.take("c", 100, alone=True)
    assert not account.take("a", 1, alone=True)
    account.give_back("c", 100)
    assert account.total == 0


def test_a_small_body_is_not_charged() -> None:
    account = Account(10, 10)
    share = Share(account, "a")
    assert share.grow(SMALL_BYTES)
    assert share.grow(10)
    assert not share.grow(1)
    assert Share(account, "a").grow(SMALL_BYTES)
    assert account.total == 10
    share.release()
    assert account.total == 0
