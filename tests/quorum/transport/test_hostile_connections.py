"""Strangers cost a listener a bounded share, and keep nobody else from it."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.protocol.headers import read_request_header, write_request_header
from quorum.protocol.request_limits import HEADER_TAGS_MAX, REQUEST_LIMITS
from quorum.records.varint import uvarint
from quorum.transport.inbound import InboundConnection, InboundRequest
from quorum.transport.limits import (
    LARGE_REQUEST_BYTES,
    READ_BYTES,
    SMALL_REQUESTS_BYTES_MAX,
    TURN_REQUESTS_MAX,
    TURN_REQUESTS_OF_CONNECTION_MAX,
    ServerLimits,
)
from quorum.transport.refusal_log import TEXT_CHARACTERS_MAX, printable
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    LENGTH,
    Handler,
    ManualClock,
    answer_to,
    framed,
    is_served,
    our_warnings,
    peer_of,
    serving,
    vote,
)

CLOCK = ManualClock()
KIB, MIB = 1024, 1024 * 1024


def test_a_request_too_long_for_its_api_is_refused_before_it_has_come(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        limits = ServerLimits(request_bytes_of={ApiKey.VOTE: 4 * KIB})
        async with serving(Handler(), CLOCK, limits) as (server, port), peer_of(port) as peer:
            peer.write(LENGTH.pack(15 * MIB) + write_request_header(ApiKey.VOTE, 1, 1, "x"))
            await peer.lost
            assert server.large_requests_bytes == 0
            assert "Vote: frame of 15728640 bytes, at most 4096" in "".join(our_warnings(caplog))

    run(test())


def test_every_api_has_its_limits() -> None:
    assert set(ApiKey) == REQUEST_LIMITS.keys()


def test_a_header_has_few_tagged_fields() -> None:
    tags = uvarint(HEADER_TAGS_MAX + 1) + b"\x00\x00" * (HEADER_TAGS_MAX + 1)
    frame = write_request_header(ApiKey.VOTE, 2, 1, None)[:-1] + tags
    with pytest.raises(Malformed, match="at most 64"):
        read_request_header(frame, ApiKey.VOTE, 2)


def test_who_sends_many_requests_at_once_does_not_make_others_wait(run: Run) -> None:
    """40 connections pipeline 2,000 requests each, and read no answer."""

    async def test() -> None:
        order: list[str] = []
        begun = asyncio.Event()

        def handler(request: InboundRequest) -> None:
            name = bytes(request.body).decode()
            order.append(name)
            begun.set()
            request.respond(b"")

        limits = ServerLimits(outgoing_bytes_pause=MIB)
        async with AsyncExitStack() as stack:
            server, port = await stack.enter_async_context(serving(handler, CLOCK, limits))
            flood = b"".join(vote(n, b"flood") for n in range(2_000))
            peers = [await stack.enter_async_context(peer_of(port)) for _ in range(40)]
            other = await stack.enter_async_context(peer_of(port))
            for peer in peers:
                peer.transport.pause_reading()
                peer.write(flood)
            await begun.wait()
            before = len(order)
            other.write(vote(1, b"other"))
            assert await other.take_frame() == answer_to(1)[4:]
            # It waited for one round of the others at most, and for two turns.
            assert (
                order.index("other") - before
                <= 40 * TURN_REQUESTS_OF_CONNECTION_MAX + 2 * TURN_REQUESTS_MAX
            )
            assert server.connections == 41

    run(test())


def test_unfinished_requests_are_bounded_all_together(run: Run) -> None:
    """60 connections send 15 MiB each, but for one byte."""

    async def test() -> None:
        clock = ManualClock()
        limits = ServerLimits(request_bytes_of={ApiKey.VOTE: 16 * MIB}, large_request_ms_max=1_000)
        header = write_request_header(ApiKey.VOTE, 1, 1, "x")
        unfinished = LENGTH.pack(15 * MIB) + header + bytes(15 * MIB - len(header) - 1)
        async with AsyncExitStack() as stack:
            handler = Handler()
            server, port = await stack.enter_async_context(serving(handler, clock, limits))
            peers = [await stack.enter_async_context(peer_of(port)) for _ in range(60)]
            for peer in peers:
                peer.write(unfinished)
            while not server.large_requests_bytes:
                await is_served(port)
            # One address gets half of all, and small requests do not wait.
            await is_served(port)
            assert server.large_requests_bytes == 30 * MIB
            # Whoever is too slow gives its room to others.
            for _ in range(60 // 2):
                for _ in range(2):
                    clock.ms += 1_000
                    server.sweep(clock.ms)
                await is_served(port)
            await asyncio.wait({each.lost for each in peers})
            assert server.large_requests_bytes == 0

    run(test())


def test_large_requests_hold_their_room_until_they_are_answered(run: Run) -> None:
    async def test() -> None:
        limits = ServerLimits(request_bytes_of={ApiKey.VOTE: 16 * MIB})
        handler = Handler()
        async with serving(handler, CLOCK, limits) as (server, port):
            async with peer_of(port) as peer, peer_of(port) as other:
                large = vote(1, b"park" + bytes(10 * MIB))
                for each in (peer, peer, other, other):
                    each.write(large)
                await handler.until_parked(3)
                await is_served(port)
                assert len(handler.parked) == 3
                assert server.large_requests_bytes == 3 * (len(large) - 4)
                handler.parked.popleft().respond(b"")
                await handler.until_parked(3)
            while server.large_requests_bytes:
                await is_served(port)

    run(test())


def test_who_sends_one_large_request_after_the_other_is_not_too_slow(run: Run) -> None:
    """At each sweep a request is under way, and never the same one."""

    async def test() -> None:
        clock = ManualClock()
        limits = ServerLimits(large_request_ms_max=3_000, request_bytes_of={ApiKey.VOTE: MIB})
        async with serving(Handler(), clock, limits) as (server, port), peer_of(port) as peer:
            # All of one request, and the first half of the next one.
            whole = vote(1, bytes(32 * KIB))
            half = len(whole) // 2
            peer.write(whole[:half])
            for _ in range(10):
                while not server.large_requests_bytes:  # noqa: ASYNC110 - no event tells it
                    await asyncio.sleep(0)
                clock.ms += 1_000
                server.sweep(clock.ms)
                peer.write(whole[half:] + whole[:half])
                assert await peer.take_frame() == answer_to(1, bytes(32 * KIB))[4:]
            assert server.connections == 1

    run(test())


def test_who_is_served_first_finds_room_while_others_hold_all_of_it(run: Run) -> None:
    async def test() -> None:
        handler = Handler()

        def serve(request: InboundRequest) -> None:
            if bytes(request.body) == b"broker":
                request.serve_first()
            handler(request)

        limits = ServerLimits(request_bytes_of={ApiKey.VOTE: 16 * MIB})
        async with AsyncExitStack() as stack:
            server, port = await stack.enter_async_context(serving(serve, CLOCK, limits))
            first = await stack.enter_async_context(peer_of(port))
            first.write(vote(1, b"broker"))
            await first.take_frame()
            for _ in range(2):
                peer = await stack.enter_async_context(peer_of(port))
                peer.write(LENGTH.pack(16 * MIB) + vote(1)[4:])
            while server.large_requests_bytes < 32 * MIB:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0)
            heartbeat = bytes(100 * KIB)
            first.write(vote(2, heartbeat))
            assert await first.take_frame() == answer_to(2, heartbeat)[4:]
            assert server.large_requests_bytes == 32 * MIB

    run(test())


@pytest.mark.parametrize("size_bytes", [10, 1_000, 10_000])
def test_what_a_connection_holds_outside_of_the_room_for_large_requests_is_bounded(
    run: Run, size_bytes: int
) -> None:
    """20 connections pipeline requests that are not answered."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            handler = Handler()
            server, port = await stack.enter_async_context(serving(handler, CLOCK))
            flood = vote(1, b"park" + bytes(size_bytes)) * (MIB // size_bytes)
            for _ in range(20):
                peer = await stack.enter_async_context(peer_of(port))
                peer.write(flood)
            while sum(each._is_paused for each in server._connections) < 20:
                await is_served(port)
            await is_served(port)
            for each in server._connections:
                unread = len(each._splitter._data) + sum(map(len, each._splitter._parts))
                asked = sum(len(request.body) for request in each._pending)
                assert unread <= READ_BYTES + LARGE_REQUEST_BYTES
                assert asked <= SMALL_REQUESTS_BYTES_MAX + LARGE_REQUEST_BYTES
            assert server.large_requests_bytes == 0
            # Reading goes on with the answers.
            for _ in range(2_000):
                await handler.until_parked(1)
                handler.parked.popleft().respond(b"")

    run(test())


def test_one_connection_alone_is_not_held_up_by_its_share_of_a_turn(run: Run) -> None:
    async def test() -> None:
        turns = [0]
        loop = asyncio.get_running_loop()

        def handler(request: InboundRequest) -> None:
            if not turns[-1]:
                loop.call_soon(turns.append, 0)
            turns[-1] += 1
            request.respond(b"")

        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n) for n in range(1_000)))
            for n in range(1_000):
                assert await peer.take_frame() == answer_to(n)[4:]
        assert max(turns) > 4 * TURN_REQUESTS_OF_CONNECTION_MAX

    run(test())


def test_idle_connections_keep_nobody_out(run: Run) -> None:
    """At the limit, those that have never sent anything give way, the oldest first."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            limits = ServerLimits(connections_max=10)
            server, port = await stack.enter_async_context(serving(Handler(), CLOCK, limits))
            used = [await stack.enter_async_context(peer_of(port)) for _ in range(5)]
            for each in used:
                each.write(vote(1))
                assert await each.take_frame() == answer_to(1)[4:]
            idle = [await stack.enter_async_context(peer_of(port)) for _ in range(100)]
            for n in range(5):
                other = await stack.enter_async_context(peer_of(port))
                other.write(vote(n))
                assert await other.take_frame() == answer_to(n)[4:]
            assert server.connections <= 11
            assert not any(each.lost.done() for each in used)
            await asyncio.wait({each.lost for each in idle})

    run(test())


def test_one_address_does_not_get_all_connections(run: Run) -> None:
    async def test() -> None:
        limits = ServerLimits(connections_per_address_max=3)
        async with AsyncExitStack() as stack:
            server, port = await stack.enter_async_context(serving(Handler(), CLOCK, limits))
            peers = [await stack.enter_async_context(peer_of(port)) for _ in range(3)]
            for each in peers:
                each.write(vote(1))
                assert await each.take_frame() == answer_to(1)[4:]
            further = await stack.enter_async_context(peer_of(port))
            await further.lost
            assert server.connections == 3

    run(test())


def test_a_network_of_ipv6_is_one_address(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    class Accepted(asyncio.Transport):
        """An accepted connection from a subscriber's address of this number."""

        def __init__(self, number: int) -> None:
            super().__init__({"peername": (f"2001:db8::{number:x}", 5, 0, 0)})

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def close(self) -> None:
            pass

    async def test() -> None:
        limits = ServerLimits(connections_per_address_max=10)
        async with serving(Handler(), CLOCK, limits) as (server, _):
            for number in range(11):
                connection = InboundConnection(server._terms, number)
                connection.has_asked = True
                connection.connection_made(Accepted(number))
                assert connection.is_open == (number < 10)
            for each in tuple(server._connections):
                each.connection_lost(None)
        assert "10 connections of one address are open" in "".join(our_warnings(caplog))

    run(test())


def test_nothing_that_a_terminal_obeys_is_logged() -> None:
    assert printable("a\0b\x1b[31m\nc") == r"a\x00b\x1b[31m\nc"
    assert printable("\u202e") == r"\u202e"
    assert len(printable("x" * 10_000)) == TEXT_CHARACTERS_MAX + 3
    assert printable("Ünïcode") == "Ünïcode"


def test_a_stack_trace_is_not_logged_for_each_request(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        def handler(request: InboundRequest) -> None:
            raise RuntimeError("a fault of ours")

        async with serving(handler, CLOCK) as (_, port):
            for _ in range(50):
                async with peer_of(port) as peer:
                    peer.write(vote(1))
                    await peer.lost

    run(test())
    assert len([each for each in caplog.records if each.exc_info]) == 1


def test_frames_are_split_as_before_where_the_key_comes_late(run: Run) -> None:
    """The limit of an API is known only when the two bytes of its key have come."""

    async def test() -> None:
        limits = ServerLimits(request_bytes_of={ApiKey.VOTE: 16 * MIB})
        async with serving(Handler(), CLOCK, limits) as (_, port), peer_of(port) as peer:
            request = vote(1, bytes(10_000))
            for at in (4, 5, 6):
                peer.write(request[:at])
                await is_served(port)
                peer.write(request[at:])
                assert await peer.take_frame() == answer_to(1, bytes(10_000))[4:]
            short = framed(b"\x00")
            peer.write(short)
            await peer.lost

    run(test())
