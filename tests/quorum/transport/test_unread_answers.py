"""Answers that nobody reads are bounded in their sum over all connections of a listener."""

import asyncio
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quorum.transport.admission import RequestPacer
from quorum.transport.inbound import InboundRequest
from quorum.transport.limits import UNREAD_CHECK_MS, UNREAD_MS_MAX, ServerLimits
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.server import Server
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    Handler,
    ManualClock,
    Peer,
    answer_to,
    our_warnings,
    peer_of,
    serving,
    vote,
)
from tests.quorum.transport.security.secured import server_tls, ssl_listener, trusting
from tests.support.pem_authority import Authority

MIB = 1024 * 1024
ANSWER = bytes(16 * MIB)
"""More than the kernel takes for a peer that does not read."""
LIMITS = ServerLimits(unread_bytes_max=24 * MIB)
"""Room for one such answer."""


class Listener:
    """A listener whose requests "first" make their connection one that is served first."""

    def __init__(
        self,
        stack: AsyncExitStack,
        *,
        security: ListenerSecurity = UNPROTECTED,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.handler = Handler()
        self._stack = stack
        self._security = security
        self._context = context
        self._server: Server
        self._port = 0

    async def open(self) -> None:
        serving_it = serving(self._handle, self.clock, LIMITS, self._security)
        self._server, self._port = await self._stack.enter_async_context(serving_it)

    def _handle(self, request: InboundRequest) -> None:
        if bytes(request.body) == b"first":
            request.serve_first()
        self.handler(request)

    async def peer(self) -> Peer:
        opened = peer_of(self._port, self._context, receive_bytes=64 * 1024)
        return await self._stack.enter_async_context(opened)

    async def first(self) -> Peer:
        """Return a peer that is served first."""
        peer = await self.peer()
        await ask(peer, b"first")
        return peer

    async def asks_and_does_not_read(self, peer: Peer) -> InboundRequest:
        """Return the request of a peer that will not read its answer."""
        before = len(self.handler.parked)
        peer.transport.pause_reading()
        peer.write(vote(1, b"park"))
        await self.handler.until_parked(before + 1)
        return self.handler.parked[-1]

    def unread_bytes(self) -> int:
        return sum(each.count_unread(self.clock.ms) for each in self._server._connections)

    def passes(self, ms: int) -> None:
        self.clock.ms += ms
        self._server._sweeper.sweep()


async def ask(peer: Peer, body: bytes) -> None:
    peer.write(vote(7, body))
    assert await peer.take_frame() == answer_to(7, body)[4:]


def test_peers_that_do_not_read_are_closed_the_longest_first(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            first = await listener.first()
            peers = [await listener.peer() for _ in range(3)]
            asked = [await listener.asks_and_does_not_read(each) for each in peers]
            for each in asked:
                each.respond(ANSWER)
                await ask(first, b"the answer has left as far as it can")
                listener.clock.ms += 100
            assert listener.unread_bytes() > 24 * MIB
            listener.passes(UNREAD_MS_MAX - 301)
            assert not any(each.is_gone for each in asked)
            listener.passes(201)
            # The third has not waited for so long, and has room now.
            assert [each.is_gone for each in asked] == [True, True, False]
            await ask(first, b"the connections have closed")
            assert listener.unread_bytes() < 24 * MIB
            (line,) = our_warnings(caplog)
            assert line.startswith(f"listener: closed the connection from {peers[0].name}: ")
            assert "25165824 bytes of answers of all connections wait to be read, which" in line
            peers[2].transport.resume_reading()
            assert await peers[2].take_frame() == answer_to(1, ANSWER)[4:]

    run(test())


def test_others_wait_until_slow_readers_have_read_and_nobody_is_closed(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            first, other = await listener.first(), await listener.peer()
            slow = [await listener.peer() for _ in range(2)]
            for each in [await listener.asks_and_does_not_read(each) for each in slow]:
                each.respond(ANSWER)
            other.write(vote(1, b"delayed"))
            # Nobody who is served first waits, however many requests it sends.
            first.write(b"".join(vote(n, b"") for n in range(400)))
            for n in range(400):
                assert await first.take_frame() == answer_to(n)[4:]
            listener.passes(UNREAD_CHECK_MS)
            await ask(first, b"a turn later")
            assert b"delayed" not in [bytes(each.body) for each in listener.handler.seen]
            assert not other.received
            for peer in slow:
                peer.transport.resume_reading()
                assert await peer.take_frame() == answer_to(1, ANSWER)[4:]
            listener.passes(UNREAD_CHECK_MS)
            assert await other.take_frame() == answer_to(1, b"delayed")[4:]
            assert not our_warnings(caplog)

    run(test())


def test_answers_to_requests_under_way_are_bounded_too(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Many requests are answered in the same turn: no request could be held back."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            small = await listener.peer()
            small.write(vote(1, b"park"))
            await listener.handler.until_parked(1)
            peers = [await listener.peer() for _ in range(8)]
            for each in [await listener.asks_and_does_not_read(each) for each in peers]:
                each.respond(ANSWER)
            assert listener.unread_bytes() <= 2 * 24 * MIB + len(ANSWER)
            gone = [each.is_gone for each in listener.handler.parked]
            assert gone == [False] * 3 + [True] * 6
            listener.handler.parked[0].respond(b"small")
            assert await small.take_frame() == answer_to(1, b"small")[4:]
            assert "twice 25165824 bytes of answers of all" in our_warnings(caplog)[0]

    run(test())


def test_who_is_served_first_has_room_of_its_own_and_a_bound_of_its_own(run: Run) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            other = await listener.peer()
            silent = [await listener.first() for _ in range(2)]
            asked = [await listener.asks_and_does_not_read(each) for each in silent]
            for each in asked:
                each.respond(ANSWER)
            await ask(other, b"others do not wait for them")
            listener.passes(UNREAD_MS_MAX)
            assert [each.is_gone for each in asked].count(True) == 1

    run(test())


def test_answers_behind_one_that_does_not_come_count_as_unread(run: Run) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            peer = await listener.peer()
            peer.write(vote(1, b"park") + vote(2, b"park"))
            await listener.handler.until_parked(2)
            listener.handler.parked[1].respond(bytes(30 * MIB))
            listener.passes(UNREAD_MS_MAX)
            await peer.lost
            assert listener.unread_bytes() == 0

    run(test())


def test_answers_over_tls_count_until_they_are_read(run: Run, tmp_path: Path) -> None:
    """The loop's transport does not count what it has encrypted."""
    files = Authority().files(tmp_path, "server")
    security = ssl_listener(server_tls(files))
    context = trusting(files.truststore).context()

    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack, security=security, context=context)
            await listener.open()
            first = await listener.first()
            peers = [await listener.peer() for _ in range(4)]
            asked = [await listener.asks_and_does_not_read(each) for each in peers]
            for each in asked[:3]:
                each.respond(ANSWER)
                for _ in range(3):
                    await ask(first, b"the answer has left as far as it can")
            assert listener.unread_bytes() > 24 * MIB
            listener.passes(UNREAD_MS_MAX)
            left = [n for n in range(3) if not asked[n].is_gone]
            assert 0 < len(left) < 3
            await ask(first, b"the connections have closed")
            assert listener.unread_bytes() < 24 * MIB
            # Answers that are ready also count while the connection closes.
            asked[left[0]].reject("of the test")
            assert listener.unread_bytes() > 8 * MIB
            # Reading goes on with the answer, and what comes after it.
            asked[3].respond(bytes(5 * MIB) + b"!")
            for n in range(2, 40):
                peers[3].write(vote(n, b"%d" % n))
            listener.passes(UNREAD_CHECK_MS)
            peers[3].transport.resume_reading()
            assert await peers[3].take_frame() == answer_to(1, bytes(5 * MIB) + b"!")[4:]
            for n in range(2, 40):
                assert await peers[3].take_frame() == answer_to(n, b"%d" % n)[4:]

    run(test())


def test_answers_after_the_one_that_closes_a_connection_are_not_kept(run: Run) -> None:
    """The loop tells of the lost connection only later, and its requests are kept until then."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            listener = Listener(stack)
            await listener.open()
            peer = await listener.peer()
            peer.write(b"".join(vote(n, b"park") for n in range(6)))
            await listener.handler.until_parked(6)
            asked = list(listener.handler.parked)
            for each in reversed(asked):
                each.respond(ANSWER)
            assert all(each.is_gone and not each.answer_parts for each in asked)

    run(test())


class Waiting:
    """A connection that waits for its turn."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_served_first = False
        self.network = "127.0.0.1"
        self.turns = 0

    def on_turn(self) -> None:
        self.turns += 1

    def on_room(self, size_bytes: int) -> None:
        raise AssertionError


def test_a_held_pacer_gives_turns_to_those_who_are_served_first_alone(run: Run) -> None:
    async def test() -> None:
        pacer = RequestPacer()
        others, first, closed = Waiting(), Waiting(), Waiting()
        pacer.hold()
        for each in (others, first, closed):
            assert not pacer.take()
            pacer.wait(each)
        for _ in range(3):
            await asyncio.sleep(0)
        first.is_served_first = True
        closed.is_open = False
        pacer.hold()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (others.turns, first.turns) == (0, 1)
        pacer.go_on()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (others.turns, first.turns, closed.turns) == (1, 1, 0)
        assert pacer.take()

    run(test())
