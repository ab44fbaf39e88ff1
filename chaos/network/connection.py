"""One in-memory connection between the product's own client and server code.

Simulated calls are messages that are handed over whole. Where the bytes matter, one call runs here
through `RaftRpc`, `ClientConnection`, `InboundConnection` and the codec, in an event loop of its
own. There is no core behind the server end: the caller decides what an arriving request means.

`visit` is the other direction: bytes of anybody for the listener of a process.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorum.core.events import Asker
from quorum.core.messages import Request, Response
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Gossip
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.frames import FrameSplitter
from quorum.protocol.headers import request_header_tail, write_framed_request_prefix
from quorum.protocol.principal import KafkaPrincipal
from quorum.protocol.raft_messages import VERSIONS
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode
from quorum.raft_rpc import RaftRpc
from quorum.transport.admission import LargeRequests, RequestPacer, UnreadAnswers
from quorum.transport.buffers import ReadBuffer
from quorum.transport.connection import BodyWriter, ClientConnection, Exchange, OnDone
from quorum.transport.inbound import Flushes, Handler, InboundConnection, InboundRequest, Terms
from quorum.transport.limits import ServerLimits
from quorum.transport.outcomes import Cause, Failure, Reply
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.request_times import RequestTimes
from quorum.transport.sweeper import Sweeper

OFFERED: Final = {**VERSIONS, ApiKey.API_VERSIONS: VersionRange(0, 4)}
TURNS: Final = 3
"""Of the loop, until all that was written has left."""

Spoil = Callable[[bytes], bytes]
"""A change to the bytes of one frame, its length included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of a connection, as far as calls depend on it."""

    key: ReplicaKey
    cluster_id: str | None
    standing: LeaderAndEpoch


@dataclass(slots=True)
class CallResult:
    """The result of one call."""

    asked: Request | None = None
    """The request that the other side's core would get."""
    is_closed: bool = False
    """True if the server side has closed the connection."""
    is_lost: bool = False
    """True if the client side has closed it."""
    is_over: bool = False
    """True if the call has ended, with an answer or without."""
    response: Response | None = None
    """The response that the client side's core gets."""
    records: bytes = b""


class _Wire(asyncio.Transport):
    """One end of a connection without a socket: it keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("somebody", 1)})
        self.sent = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, Sequence)
        self.sent += b"".join(list_of_data)

    def take(self) -> bytes:
        """The bytes written since the last call."""
        sent, self.sent = self.sent, b""
        return sent

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _OnLine(Peers):
    """A peer set with one connection; it reports the end of calls as a channel does."""

    def __init__(self, told: CallResult) -> None:
        sweeper, book = Sweeper(_no_time), AddressBook(Gossip(None))
        super().__init__(book, client_id="somebody", sweeper=sweeper, rng=random.Random(0))
        self._told = told
        self.connection = ClientConnection(
            self, client_id="somebody", frame_bytes_max=1 << 24, rng=random.Random(0)
        )
        self.version: Callable[[int, int], int] = lambda _, highest: highest

    def request(
        self,
        replica: ReplicaId,
        api_key: int,
        body: BodyWriter,
        on_done: OnDone,
        *,
        timeout_ms: int,
        lowest: int = 0,
    ) -> None:
        version = self.version(max(lowest, VERSIONS[api_key].lowest), VERSIONS[api_key].highest)
        written = body(version)
        parts = (written,) if isinstance(written, bytes | memoryview) else written
        exchange = Exchange(
            api_key, b"", on_done, version=version, timeout_ms=timeout_ms, deadline_ms=0
        )
        self.connection.send(exchange, version, parts)

    def on_ready(self, connection: ClientConnection) -> None:
        """See `Owner`."""

    def on_replies(self, replies: Sequence[tuple[Exchange, Reply]]) -> None:
        """See `Owner`."""
        for exchange, reply in replies:
            exchange.on_done(reply)

    def on_lost(self, connection: ClientConnection, cause: Cause, reason: str) -> None:
        """See `Owner`."""
        self._told.is_lost = True
        for exchange in connection.in_flight:
            exchange.on_done(Failure(cause, reason))


def call(
    asker: Side,
    answerer: Side,
    request: Request,
    *,
    draw: Callable[[int, int], int],
    response: Response | None = None,
    records: bytes = b"",
    spoil_request: Spoil = bytes,
    spoil_answer: Spoil = bytes,
) -> CallResult:
    """Make one call between two sides, over bytes that `spoil_request` and `spoil_answer` change.

    `draw` chooses the API version from a range. With `response`, that is the server core's answer.
    """
    line = _call(asker, answerer, request, draw, response, records, spoil_request, spoil_answer)
    return asyncio.run(line)


async def _call(
    asker: Side,
    answerer: Side,
    request: Request,
    draw: Callable[[int, int], int],
    response: Response | None,
    records: bytes,
    spoil_request: Spoil,
    spoil_answer: Spoil,
) -> CallResult:
    told = CallResult()

    def asked(who: Asker, message: Request) -> None:
        told.asked = message
        if response is not None:
            answering.answer(who, response, records)

    def done(answer: Response | None, data: bytes) -> None:
        told.is_over, told.response, told.records = True, answer, data

    peers = _OnLine(told)
    peers.version = draw
    asking = _calls(asker, peers, lambda _, __: None)
    answering = _calls(answerer, peers, asked)
    here, there = _Wire(), _Wire()
    inbound = InboundConnection(_terms(_handler_of(answering), OFFERED, _log()), 1)
    inbound.connection_made(there)
    peers.connection.connection_made(here)
    await _settle()
    inbound.data_received(here.take())
    await _settle()
    peers.connection.data_received(there.take())
    assert peers.connection.offered is not None, "the two ends do not understand each other"
    asking.send(answerer.key.id, request, done)
    await _settle()
    inbound.data_received(spoil_request(here.take()))
    await _settle()
    told.is_closed = there.is_closed
    answer = there.take()
    if answer:
        peers.connection.data_received(spoil_answer(answer))
        await _settle()
    peers.connection.drop()
    return told


async def _settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def _calls(side: Side, peers: Peers, on_request: Callable[[Asker, Request], None]) -> RaftRpc:
    return RaftRpc(
        LocalNode(cluster_id=side.cluster_id, replica=side.key),
        side.standing,
        peers,
        addresses=AddressBook(Gossip(None)),
        on_request=on_request,
        timeout_ms=1,
        refusal_log=_log(),
    )


def _handler_of(calls: RaftRpc) -> Handler:
    def handle(request: InboundRequest) -> None:
        if request.api_key == ApiKey.API_VERSIONS:
            request.respond(write_offer(request.api_version, OFFERED))
        else:
            calls.asked(request)

    return handle


def _terms(handler: Handler, offered: Mapping[int, VersionRange], refusal_log: RefusalLog) -> Terms:
    limits, sweeper = ServerLimits(), Sweeper(_no_time)
    unread = UnreadAnswers(limits.unread_bytes_max, (), sweeper, pacer=None)
    return Terms(
        name="simulation",
        refusal_log=refusal_log,
        pacer=RequestPacer(_no_time),
        large=LargeRequests(limits.large_requests_bytes_max),
        unread=unread,
        unread_of_first=unread,
        read_buffer=ReadBuffer(),
        flushes=Flushes(),
        handler=handler,
        offered=offered,
        limits=limits,
        admit=lambda _: None,
        release=lambda _: None,
        times=RequestTimes(),
    )


def _log() -> RefusalLog:
    return RefusalLog("simulation", _no_time)


class _FailureLog(RefusalLog):
    """Keeps the error that a request has raised: in the product it goes to the log."""

    error: BaseException | None = None

    def failed(self, peer: str, request: str) -> None:
        self.error = sys.exc_info()[1]


class Message(NamedTuple):
    """A request as bytes."""

    api_key: int
    version: int
    body: bytes


def visit(
    handlers: Mapping[int, Handler],
    offered: Mapping[int, VersionRange],
    messages: Sequence[Message],
    principal: KafkaPrincipal,
    connection_id: int,
) -> int:
    """Send these requests over one connection of `principal`; return the number of answers.

    Whatever a handler raises is raised here.
    """
    return asyncio.run(_visit(handlers, offered, messages, principal, connection_id))


async def _visit(
    handlers: Mapping[int, Handler],
    offered: Mapping[int, VersionRange],
    messages: Sequence[Message],
    principal: KafkaPrincipal,
    connection_id: int,
) -> int:
    log, there, answers = _FailureLog("simulation", _no_time), _Wire(), FrameSplitter()

    def handle(request: InboundRequest) -> None:
        handlers[request.api_key](request)

    inbound = InboundConnection(_terms(handle, offered, log), connection_id)
    inbound.connection_made(there)
    inbound.authenticated(principal)
    for number, (api_key, version, body) in enumerate(messages):
        tail = request_header_tail(api_key, version, "stranger")
        prefix = write_framed_request_prefix(api_key, version, number, len(tail) + len(body))
        inbound.data_received(prefix + tail + body)
    await _settle()
    if log.error is not None:
        raise log.error
    answers.feed(there.take())
    count = 0
    while answers.take() is not None:
        count += 1
    inbound.connection_lost(None)
    return count


def _no_time() -> int:
    return 0
