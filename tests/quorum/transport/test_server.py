import asyncio
import itertools
import logging
import struct
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum.transport.limits import ServerLimits
from quorum.transport.server import InboundRequest
from quorum.wire import headers
from quorum.wire.apis import ApiKey
from quorum.wire.faults import Malformed
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    Handler,
    ManualClock,
    Peer,
    answer_to,
    framed,
    peer_of,
    serving,
    vote,
)

CLOCK = ManualClock()


async def is_served(port: int) -> None:
    """The listener still answers somebody else, so it has also done what came before."""
    async with peer_of(port) as peer:
        peer.write(vote(99, b"ping"))
        assert await peer.take_frame() == answer_to(99, b"ping")[4:]


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What we have logged, not what the event loop says of slow callbacks."""
    return [record for record in caplog.records if record.name.startswith("quorum.")]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in ours(caplog) if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_answers_leave_in_the_order_of_the_requests(run: Run, order: tuple[int, ...]) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"park") for n in range(3)) + vote(3, b"echo"))
            await handler.until_parked(3)
            for n in order:
                handler.parked[n].respond(b"%d" % n)
            expected = [answer_to(n, b"%d" % n) for n in range(3)] + [answer_to(3, b"echo")]
            assert await peer.take(len(b"".join(expected))) == b"".join(expected)

    run(test())


def test_an_answer_waits_for_those_before_it(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park") + vote(2, b"second"))
            await handler.until_parked(1)
            await is_served(port)
            assert not peer.received
            handler.parked[0].respond(b"first")
            both = answer_to(1, b"first") + answer_to(2, b"second")
            assert await peer.take(len(both)) == both

    run(test())


def test_answers_of_one_turn_leave_in_one_write(run: Run) -> None:
    async def test() -> None:
        async with serving(Handler(), CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"x" * 50) for n in range(200)))
            expected = b"".join(answer_to(n, b"x" * 50) for n in range(200))
            assert await peer.take(len(expected)) == expected
            # One for each read of the server, not one for each answer.
            assert peer.chunks <= 4

    run(test())


def test_a_body_may_come_and_go_in_parts_and_be_large(run: Run) -> None:
    async def test() -> None:
        large = bytes(range(256)) * 1_000

        def in_parts(request: InboundRequest) -> None:
            request.respond([b"head", request.body, b"", memoryview(b"tail")])

        async with serving(in_parts, CLOCK) as (_, port), peer_of(port) as peer:
            request = vote(1, large)
            for start in range(0, len(request), 50_000):
                peer.write(request[start : start + 50_000])
            assert await peer.take_frame() == answer_to(1, b"head" + large + b"tail")[4:]

    run(test())


def test_a_request_says_what_it_is_and_whose(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            header = headers.write_request_header(ApiKey.FETCH, 16, 8, None)
            peer.write(framed(header + b"body") + vote(9, b"park"))
            await handler.until_parked(1)
            first, second = handler.seen
            assert (first.api_key, first.api_version, first.correlation_id) == (1, 16, 8)
            assert (first.client_id, second.client_id) == (None, "test")
            assert first.peer == second.peer == peer.name
            assert first.connection_id == second.connection_id
            assert str(second) == f"Vote v1 of {peer.name}"
            second.respond(b"")

    run(test())


def test_a_request_that_wants_no_answer_gets_none_and_holds_up_nobody(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park") + vote(2, b"second"))
            await handler.until_parked(1)
            handler.parked[0].respond_nothing()
            assert await peer.take_frame() == answer_to(2, b"second")[4:]

    run(test())


def test_requests_that_want_no_answer_make_room_for_others_too(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(requests_in_flight_max=2)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"park") for n in range(5)) + vote(6, b"last"))
            for _ in range(5):
                await handler.until_parked(1)
                handler.parked.popleft().respond_nothing()
            assert await peer.take_frame() == answer_to(6, b"last")[4:]

    run(test())


BAD_STREAMS = [
    (struct.pack(">i", -1), "frame of -1 bytes, a length is never negative"),
    (struct.pack(">i", 2_000), "frame of 2000 bytes, at most 1000 are allowed"),
    (b"GET / HTTP/1.1\r\n\r\n", "frame of 1195725856 bytes, at most 1000 are allowed"),
    (framed(b"short"), "api -1 v0: a request of 5 bytes has no header"),
    (framed(b"\x00\x34\x00\x01" + bytes(4)), "Vote v1: the header ends before the client id"),
    (framed(b"\x00\x34\x00\x09" + bytes(6)), "Vote v9, served are versions 0 to 1"),
    (framed(b"\x00\x03\x00\x09" + bytes(6)), "Metadata v9, which is not served here"),
    (framed(b"\x4e\x20\x00\x00" + bytes(6)), "api 20000 v0, which is not served here"),
]


@pytest.mark.parametrize(("stream", "reason"), BAD_STREAMS)
def test_a_stream_that_cannot_be_read_is_closed_with_one_line(
    run: Run, caplog: pytest.LogCaptureFixture, stream: bytes, reason: str
) -> None:
    async def test() -> None:
        limits = ServerLimits(frame_bytes_max=1_000)
        async with serving(Handler(), CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"good") + stream)
            # What was right before is still answered.
            assert await peer.take_frame() == answer_to(1, b"good")[4:]
            await peer.lost
            assert warnings(caplog) == [f"listener: closed the connection of {peer.name}: {reason}"]
            await is_served(port)

    run(test())


def test_a_peer_that_leaves_in_the_middle_of_a_frame_leaves_nothing_behind(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port):
            async with peer_of(port) as peer:
                peer.write(vote(1, b"park") + vote(2, b"cut off")[:9])
                await handler.until_parked(1)
            while not handler.parked[0].is_gone:
                await is_served(port)
            handler.parked[0].respond(b"to nobody")

    run(test())


def test_an_api_versions_request_that_is_too_new_is_answered_with_what_is_served(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-511: in version 0, and the connection lives on."""

    async def test() -> None:
        async with serving(Handler(), CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(framed(struct.pack(">hhi", 18, 99, 7) + b"whatever") + vote(8, b"next"))
            body = b"\x00\x23" + b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"
            assert await peer.take_frame() == struct.pack(">i", 7) + body
            assert await peer.take_frame() == answer_to(8, b"next")[4:]
        assert not warnings(caplog)

    run(test())


def test_a_handler_that_raises_loses_its_connection_and_no_other(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        def handler(request: InboundRequest) -> None:
            if request.body == b"fail":
                raise LookupError("the cause")
            request.respond(request.body)

        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"fail") + vote(2, b"never seen"))
            await peer.lost
            (record,) = ours(caplog)
            assert record.getMessage() == (
                f"listener: failed at Vote v1 of {peer.name}, closed the connection"
            )
            assert record.exc_info is not None
            assert "the cause" in str(record.exc_info[1])
            await is_served(port)

    run(test())


def test_a_body_that_the_handler_cannot_read_is_the_fault_of_the_peer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        def handler(request: InboundRequest) -> None:
            raise Malformed(ApiKey.VOTE, 1, "no such topic")

        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1))
            await peer.lost
            assert warnings(caplog) == [
                f"listener: closed the connection of {peer.name}: Vote v1: no such topic"
            ]
            assert ours(caplog)[0].exc_info is None

    run(test())


def test_a_request_may_be_rejected_later(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].reject("no reason")
            await peer.lost
            assert warnings(caplog) == [
                f"listener: closed the connection of {peer.name}: no reason"
            ]

    run(test())


def test_to_answer_twice_is_a_fault_of_ours(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"once"))
            await peer.take_frame()
            with pytest.raises(AssertionError, match="answered twice"):
                handler.seen[0].respond(b"twice")

    run(test())


def test_requests_beyond_the_limit_wait_unread_until_others_are_answered(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(requests_in_flight_max=4)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"park") for n in range(10)))
            await handler.until_parked(4)
            await is_served(port)
            assert len(handler.parked) == 4
            for n in range(10):
                await handler.until_parked(1)
                handler.parked.popleft().respond(b"%d" % n)
                assert await peer.take_frame() == answer_to(n, b"%d" % n)[4:]

    run(test())


def test_a_peer_that_reads_slowly_is_served_slowly(run: Run) -> None:
    async def test() -> None:
        answered: list[int] = []

        def handler(request: InboundRequest) -> None:
            if request.body == b"ping":
                request.respond(request.body)
                return
            answered.append(request.correlation_id)
            request.respond(bytes(100_000))

        limits = ServerLimits(outgoing_bytes_pause=200_000)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.transport.pause_reading()
            peer.write(b"".join(vote(n) for n in range(2_000)))
            before = -1
            while len(answered) > before:
                before = len(answered)
                await is_served(port)
            # What the kernel takes, and little more; not all that was asked for.
            assert 0 < len(answered) < 1_000
            peer.transport.resume_reading()
            for n in range(2_000):
                assert await peer.take_frame() == answer_to(n, bytes(100_000))[4:]
            assert answered == list(range(2_000))

    run(test())


def test_a_peer_that_leaves_too_much_unread_is_closed(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(outgoing_bytes_max=4_000_000)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.transport.pause_reading()
            peer.write(b"".join(vote(n, b"park") for n in range(50)))
            await handler.until_parked(50)
            for request in handler.parked:
                request.respond(bytes(1_000_000))
            assert handler.parked[0].is_gone
            (line,) = warnings(caplog)
            assert line.startswith(f"listener: closed the connection of {peer.name}: 4000036 bytes")
            peer.transport.resume_reading()
            await peer.lost

    run(test())


def test_answers_that_wait_for_an_earlier_one_count_as_unread(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(outgoing_bytes_max=1_000_000, outgoing_bytes_pause=1_000)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"park") for n in range(4)))
            await handler.until_parked(4)
            # One answer alone may be larger than the limit.
            handler.parked[1].respond(bytes(1_500_000))
            assert not handler.parked[1].is_gone
            handler.parked[2].respond(b"")
            await peer.lost
            assert "1500009 bytes of answers wait to be read" in warnings(caplog)[0]

    run(test())


def test_one_answer_may_be_larger_than_all_that_may_wait(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(outgoing_bytes_max=1_000, outgoing_bytes_pause=1_000)
        async with serving(handler, CLOCK, limits) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].respond(bytes(3_000_000))
            assert await peer.take_frame() == answer_to(1, bytes(3_000_000))[4:]

    run(test())


def test_a_peer_that_reads_nothing_any_more_is_closed_in_time(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        clock, handler = ManualClock(), Handler()
        limits = ServerLimits(outgoing_bytes_pause=1_000, stall_ms=5_000)
        async with serving(handler, clock, limits) as (server, port), peer_of(port) as peer:
            peer.transport.pause_reading()
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].respond(bytes(20_000_000))
            # The kernel takes what it can; only then is the rest unread for good.
            server.sweep(clock.ms)
            await is_served(port)
            server.sweep(clock.ms)
            clock.ms += 4_999
            server.sweep(clock.ms)
            assert not warnings(caplog)
            clock.ms += 1
            server.sweep(clock.ms)
            assert handler.parked[0].is_gone
            assert "bytes unread for 5000 ms" in warnings(caplog)[0]
            peer.transport.resume_reading()
            await peer.lost

    run(test())


def test_a_peer_that_reads_slowly_but_does_read_is_not_closed(run: Run) -> None:
    async def test() -> None:
        clock, handler = ManualClock(), Handler()
        limits = ServerLimits(outgoing_bytes_pause=1_000, stall_ms=5_000)
        async with serving(handler, clock, limits) as (server, port), peer_of(port) as peer:
            peer.transport.pause_reading()
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].respond(bytes(40_000_000))
            await is_served(port)
            server.sweep(clock.ms)
            for _ in range(3):
                clock.ms += 4_000
                server.sweep(clock.ms)
                peer.transport.resume_reading()
                await peer.take(10_000_000)
                peer.transport.pause_reading()
                await is_served(port)
                server.sweep(clock.ms)
            peer.transport.resume_reading()
            await peer.take(10_000_009)

    run(test())


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(run: Run) -> None:
    async def test() -> None:
        clock, handler = ManualClock(), Handler()
        limits = ServerLimits(idle_ms=10_000)
        async with (
            serving(handler, clock, limits) as (server, port),
            peer_of(port) as idle,
            peer_of(port) as waiting,
        ):
            idle.write(vote(1, b"echo"))
            await idle.take_frame()
            waiting.write(vote(2, b"park"))
            await handler.until_parked(1)
            server.sweep(clock.ms)
            clock.ms += 9_999
            server.sweep(clock.ms)
            assert server.connections == 2
            clock.ms += 1
            server.sweep(clock.ms)
            await idle.lost
            handler.parked[0].respond(b"late")
            assert await waiting.take_frame() == answer_to(2, b"late")[4:]

    run(test())


def test_connections_beyond_the_limit_are_turned_away(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        limits = ServerLimits(connections_max=3)
        async with serving(Handler(), CLOCK, limits) as (server, port), AsyncExitStack() as stack:
            peers: list[Peer] = []
            for n in range(3):
                peers.append(await stack.enter_async_context(peer_of(port)))
                peers[-1].write(vote(n, b"in"))
                await peers[-1].take_frame()
            flood = [await stack.enter_async_context(peer_of(port)) for _ in range(30)]
            await asyncio.wait({peer.lost for peer in flood})
            assert len(warnings(caplog)) == 30
            reason = "3 connections are open, which is the limit"
            assert f"listener: closed the connection of {flood[7].name}: {reason}" in warnings(
                caplog
            )
            assert not any(peer.lost.done() for peer in peers)
            peers[0].close()
            while server.connections > 2:
                peers[1].write(vote(1, b"turn"))
                await peers[1].take_frame()
            await is_served(port)

    run(test())


def test_closing_lets_answers_leave_and_lets_nobody_in(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (server, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            async with asyncio.TaskGroup() as group:
                closing = group.create_task(server.close(within_ms=60_000))
                while True:
                    try:
                        async with peer_of(port) as late:
                            await late.lost
                    except ConnectionError:
                        break
                peer.write(vote(2, b"too late"))
                assert not closing.done()
                handler.parked[0].respond(b"in time")
            assert await peer.take_frame() == answer_to(1, b"in time")[4:]
            await peer.lost
            assert not peer.received
            assert len(handler.seen) == 1

    run(test())


def test_closing_does_not_wait_for_answers_for_ever(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (server, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            await server.close(within_ms=1)
            await peer.lost
            assert handler.parked[0].is_gone

    run(test())


@pytest.mark.parametrize("name", ["stall_ms", "connections_max", "frame_bytes_max"])
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        ServerLimits(**{name: 0})


def test_a_pause_above_the_maximum_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="or no peer is ever paused"):
        ServerLimits(outgoing_bytes_pause=10, outgoing_bytes_max=9)


PIECES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(framed),
    st.tuples(st.sampled_from([1, 18, 52, 53]), st.integers(0, 17), st.binary(max_size=30)).map(
        lambda t: framed(struct.pack(">hhi", t[0], t[1], 5) + t[2])
    ),
    st.binary(max_size=20).map(lambda body: vote(3, body)),
)


@given(pieces=st.lists(PIECES, max_size=6), size=st.integers(1, 60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_peer_sends_nothing_is_raised_and_others_are_served(
    run: Run, pieces: list[bytes], size: int
) -> None:
    async def test() -> None:
        async with serving(Handler(), CLOCK) as (server, port):
            async with peer_of(port) as peer:
                stream = b"".join(pieces)
                for start in range(0, len(stream), size):
                    peer.write(stream[start : start + size])
                peer.transport.write_eof()
                await peer.lost
            await is_served(port)
            while server.connections > 1:
                await is_served(port)

    run(test())
