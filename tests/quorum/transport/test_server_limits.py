import asyncio
import gc
import socket
from contextlib import AsyncExitStack

import pytest

from quorum.transport.inbound import InboundRequest
from quorum.transport.limits import ServerLimits
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    Handler,
    ManualClock,
    Peer,
    answer_to,
    is_served,
    our_warnings,
    peer_of,
    serving,
    vote,
)

CLOCK = ManualClock()


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


def test_a_throttled_connection_is_not_read_and_its_answers_leave(run: Run) -> None:
    """KIP-219: the answer leaves at once, and the client is muted afterwards."""

    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK, ServerLimits()) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park") + vote(2, b"park"))
            await handler.until_parked(2)
            first, second = handler.parked
            first.throttle(3_600_000)
            # A shorter time does not end the longer one.
            first.throttle(1)
            first.respond(b"1")
            assert await peer.take_frame() == answer_to(1, b"1")[4:]
            peer.write(vote(3))
            second.respond(b"2")
            assert await peer.take_frame() == answer_to(2, b"2")[4:]
            await is_served(port)
            assert [each.correlation_id for each in handler.seen] == [1, 2, 99]
            assert not first.is_gone

    run(test())


def test_a_throttled_connection_is_served_again(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK, ServerLimits()) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].throttle(20)
            handler.parked[0].respond(b"1")
            peer.write(vote(2))
            for n, body in ((1, b"1"), (2, b"")):
                assert await peer.take_frame() == answer_to(n, body)[4:]

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
            (line,) = our_warnings(caplog)
            assert line.startswith(
                f"listener: closed the connection from {peer.name}: 4000036 bytes"
            )
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
            assert "1500009 bytes of answers wait to be read" in our_warnings(caplog)[0]

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
            assert not our_warnings(caplog)
            clock.ms += 1
            server.sweep(clock.ms)
            assert handler.parked[0].is_gone
            assert "bytes unread for 5000 ms" in our_warnings(caplog)[0]
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
            # Not one line for each: the peer that floods us would flood the log, too.
            (line,) = our_warnings(caplog)
            assert line.endswith(": 3 connections are open, which is the limit")
            assert any(peer.name in line for peer in flood)
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


def test_requests_that_were_not_handed_on_are_not_served_while_closing(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        limits = ServerLimits(requests_in_flight_max=2)
        async with serving(handler, CLOCK, limits) as (server, port), peer_of(port) as peer:
            peer.write(b"".join(vote(n, b"park") for n in range(3)))
            await handler.until_parked(2)
            async with asyncio.TaskGroup() as group:
                group.create_task(server.close(within_ms=60_000))
                handler.parked[0].respond(b"")
                await peer.take_frame()
                handler.parked[1].respond(b"")
            await peer.lost
            assert len(handler.seen) == 2

    run(test())


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_during_a_close_is_closed_at_any_turn_of_the_loop(
    run: Run, turns: int
) -> None:
    """A socket that is left open shows as a warning when it is collected, which fails the test."""

    async def test() -> None:
        async with serving(Handler(), CLOCK) as (server, port):
            with socket.create_connection(("127.0.0.1", port)):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await server.close()
                assert server.connections == 0

    run(test())
    gc.collect()


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
        ServerLimits(**{name: 0})  # type: ignore[arg-type]


def test_a_pause_above_the_maximum_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="or no peer is ever paused"):
        ServerLimits(outgoing_bytes_pause=10, outgoing_bytes_max=9)
