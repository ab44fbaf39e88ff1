import asyncio
import itertools
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.transport.inbound import InboundConnection, InboundRequest
from quorum.transport.limits import ServerLimits
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    Handler,
    ManualClock,
    answer_to,
    framed,
    is_served,
    our_records,
    our_warnings,
    peer_of,
    serving,
    vote,
)
from tests.support.parameters import at_most_in_quick

CLOCK = ManualClock()


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


@pytest.mark.interpreted
def test_a_connection_that_cannot_send_keeps_no_other_from_sending(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = InboundConnection.flush
    failed: list[InboundConnection] = []

    def failing_once(connection: InboundConnection) -> None:
        if not failed:
            failed.append(connection)
            raise RuntimeError("planted")
        flush(connection)

    async def test() -> None:
        handler = Handler()
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context.get("exception"))
        )
        async with (
            serving(handler, CLOCK) as (_, port),
            peer_of(port) as one,
            peer_of(port) as two,
            peer_of(port) as three,
        ):
            for n, peer in enumerate((one, two, three)):
                peer.write(vote(n, b"park"))
                await handler.until_parked(n + 1)
            monkeypatch.setattr(InboundConnection, "flush", failing_once)
            for parked in handler.parked:
                parked.respond(b"done")
            for n, peer in ((1, two), (2, three)):
                expected = answer_to(n, b"done")
                assert await peer.take(len(expected)) == expected
        assert [str(each) for each in reported] == ["planted"]

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
    (struct.pack(">i", -1), "frame with the negative length -1"),
    (struct.pack(">i", 2_000), "frame of 2000 bytes, at most 1000 are allowed"),
    (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request in place of the Kafka protocol"),
    (b"\x16\x03\x01\x02\x00\x01", "a TLS handshake in place of the Kafka protocol"),
    (framed(b"short"), "api -1 v0: a request of 5 bytes has no header"),
    (framed(b"\x00\x34\x00\x01" + bytes(4)), "Vote v1: the header ends before the client id"),
    (framed(b"\x00\x34\x00\x09" + bytes(6)), "Vote v9, served are versions 0 to 1"),
    (framed(b"\x00\x03\x00\x09" + bytes(6)), "Metadata v9, not served here"),
    (framed(b"\x75\x2f\x00\x00" + bytes(6)), "api 29999 v0, not served here"),
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
            assert our_warnings(caplog) == [
                f"listener: closed the connection from {peer.name}: {reason}"
            ]
            await is_served(port)

    run(test())


@pytest.mark.parametrize("cut_bytes", [1, 9])
def test_a_peer_that_leaves_in_the_middle_of_a_frame_leaves_one_line_behind(
    run: Run, caplog: pytest.LogCaptureFixture, cut_bytes: int
) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port):
            async with peer_of(port) as peer:
                peer.write(vote(1, b"park") + vote(2, b"cut off")[:cut_bytes])
                await handler.until_parked(1)
            while not handler.parked[0].is_gone:
                await is_served(port)
            handler.parked[0].respond(b"to nobody")
            assert our_warnings(caplog) == [
                f"listener: closed the connection from {peer.name}: "
                "it ended in the middle of a request, which is dropped"
            ]

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
        assert not our_warnings(caplog)

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
            (record,) = our_records(caplog)
            assert record.getMessage() == (
                f"listener: Vote v1 of {peer.name} failed; closing the connection"
            )
            assert record.exc_info is not None
            assert "the cause" in str(record.exc_info[1])
            await is_served(port)

    run(test())


def test_a_body_that_the_handler_cannot_read_is_the_fault_of_the_peer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        echo, seen = Handler(), asyncio.Event()

        def handler(request: InboundRequest) -> None:
            if request.correlation_id == 1:
                seen.set()
                raise Malformed(ApiKey.VOTE, 1, "no such topic")
            echo(request)

        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1))
            await seen.wait()
            await is_served(port)
            assert peer.lost.done(), "before somebody else was answered"
            assert our_warnings(caplog) == [
                f"listener: closed the connection from {peer.name}: Vote v1: no such topic"
            ]
            assert our_records(caplog)[0].exc_info is None

    run(test())


def test_a_request_may_be_rejected_later(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"park"))
            await handler.until_parked(1)
            handler.parked[0].reject("no reason")
            await peer.lost
            assert our_warnings(caplog) == [
                f"listener: closed the connection from {peer.name}: no reason"
            ]

    run(test())


def test_answering_twice_is_an_internal_error(run: Run) -> None:
    async def test() -> None:
        handler = Handler()
        async with serving(handler, CLOCK) as (_, port), peer_of(port) as peer:
            peer.write(vote(1, b"once"))
            await peer.take_frame()
            with pytest.raises(AssertionError, match="answered twice"):
                handler.seen[0].respond(b"twice")

    run(test())


PIECES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(framed),
    st.tuples(st.sampled_from([1, 18, 52, 53]), st.integers(0, 17), st.binary(max_size=30)).map(
        lambda t: framed(struct.pack(">hhi", t[0], t[1], 5) + t[2])
    ),
    st.binary(max_size=20).map(lambda body: vote(3, body)),
)


@given(pieces=st.lists(PIECES, max_size=6), size=st.integers(1, 60))
@settings(
    max_examples=at_most_in_quick(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_bytes_of_a_peer_raise_an_error_or_stop_the_service_of_others(
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
