"""The sender of the frames, a process of its own: several connections, pipelined and interleaved.

A listener closes a connection at the first frame that it refuses. The frames after that one are
sent again on another connection, so that each one is read; which frame was the last to be read is
known from the answers, and is written to the journal with the port of the connection.
"""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import sys
from asyncio import StreamReader, StreamWriter
from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from broker.apis.broker_apis import OFFERED as broker_apis
from chaos.fuzz.frames import (
    BEFORE_AUTHENTICATION,
    CLIENT_ID,
    LENGTH,
    Frame,
    Frames,
    KafkaFrames,
    Kind,
    framed,
)
from chaos.fuzz.http_frames import HttpFrames
from controller.apis.controller_apis import OFFERED as controller_apis
from quorum.process import loop_factory
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import decode_response, request_body
from quorum.protocol.headers import write_request_header
from quorum.transport.security.plain import PLAIN

CONNECTIONS: Final = 24
BATCH_MAX: Final = 24
"""Frames that are pipelined on one connection."""
ADDRESSES: Final = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
"""Where the connections come from; the well-behaved client has another address."""
ANSWER_SECONDS: Final = 10.0
"""The time without an answer after which a connection is given up. What it still holds counts as
read, so a node without a core must not come to that."""
HTTP_ANSWER_SECONDS: Final = 2.0
"""The same for HTTP, where a body that is not whole gets no answer."""
HALF_OPEN_SECONDS: Final = 0.2
HALF_OPEN_MAX: Final = 32
REFUSED_MAX: Final = 2_000
"""Attempts to connect in a row that may fail."""
_LINGER: Final = struct.pack("ii", 1, 0)
_SENTINEL: Final = 0x7FFFFFFF
_ANSWERED_HTTP: Final = b"HTTP/1.1 "
_CONTINUE_HTTP: Final = b"HTTP/1.1 100 "


class Target(Enum):
    """The listener that the frames go to."""

    CONTROLLER = "controller"
    BROKER = "broker"
    HTTP = "http"


class Orders(msgspec.Struct, kw_only=True, frozen=True):
    """The frames to send, and their destination."""

    seed: int
    first: int
    frames: int
    target: Target
    is_harmless: bool
    addresses: tuple[tuple[str, int], ...]
    is_tls: bool = False
    login: tuple[str, str] | None = None
    authorization: str | None = None
    journal: str


class Sent(msgspec.Struct, kw_only=True):
    """The frames that were sent, and their outcome."""

    frames: int = 0
    bytes: int = 0
    connections: int = 0
    answered: int = 0
    closed: int = 0
    """Connections that the node has closed because of a frame."""
    silent: int = 0
    """Connections that were given up without an answer."""
    refused: int = 0
    """Connections that were not accepted."""
    by_kind: dict[str, int] = {}


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One connection in the journal."""

    port: str
    """Host and port of this side."""
    frames: tuple[int, ...]
    """The frames that were read; the last one closed the connection, if `was_closed`."""
    was_closed: bool


def frames_of(orders: Orders) -> Frames:
    """Return the frames that the orders name."""
    if orders.target is Target.HTTP:
        host = "{}:{}".format(*orders.addresses[0])
        return HttpFrames(
            orders.seed,
            harmless=orders.is_harmless,
            host=host,
            authorization=orders.authorization,
        )
    if orders.is_tls and orders.login is None:
        offered: Mapping[int, VersionRange] = BEFORE_AUTHENTICATION
    else:
        offered = controller_apis if orders.target is Target.CONTROLLER else broker_apis
    return KafkaFrames(orders.seed, offered, harmless=orders.is_harmless)


class Attack:
    """The connections of one run."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._frames = frames_of(orders)
        self._is_http = orders.target is Target.HTTP
        self._next = orders.first
        self._end = orders.first + orders.frames
        self._again: deque[Frame] = deque()
        self._half_open: deque[StreamWriter] = deque()
        self._kinds: Counter[str] = Counter()
        self.sent = Sent()
        self._refused = 0
        self._context: ssl.SSLContext | None = None
        if orders.is_tls:
            self._context = ssl.create_default_context()
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE

    async def carry_out(self, journal: BinaryIO) -> Sent:
        """Send all frames; raises `ConnectionError` if nobody accepts any more."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(CONNECTIONS):
                tasks.create_task(self._connections(number, journal))
        while self._half_open:
            self._half_open.popleft().transport.abort()
        self.sent.by_kind = dict(self._kinds)
        return self.sent

    async def _connections(self, number: int, journal: BinaryIO) -> None:
        rng = random.Random(f"{self._orders.seed}/{number}")
        encode = msgspec.json.encode
        while batch := self._batch():
            try:
                reader, writer = await self._connect(batch[0], rng)
            except (OSError, EOFError):
                await self._not_accepted(batch)
                continue
            self._refused = 0
            self.sent.connections += 1
            host, port = writer.get_extra_info("sockname")[:2]
            read, was_closed = 0, False
            try:
                read, was_closed = await self._exchange(reader, writer, batch, rng)
            finally:
                self._count(batch[:read])
                self._again.extendleft(reversed(batch[read:]))
                numbers = tuple(each.number for each in batch[:read])
                entry = Entry(f"{host}:{port}", numbers, was_closed)
                journal.write(encode(entry) + b"\n")

    def _batch(self) -> list[Frame]:
        batch: list[Frame] = []
        while len(batch) < BATCH_MAX:
            if self._again:
                frame = self._again.popleft()
            elif self._next < self._end:
                frame = self._frames.frame(self._next)
                self._next += 1
            else:
                break
            if self._goes_without_tls(frame) and batch:
                self._again.appendleft(frame)
                break
            batch.append(frame)
            if frame.kind.ends:
                break
        return batch

    def _goes_without_tls(self, frame: Frame) -> bool:
        return self._context is not None and frame.kind is Kind.NO_FRAME

    async def _connect(self, first: Frame, rng: random.Random) -> tuple[StreamReader, StreamWriter]:
        host, port = rng.choice(self._orders.addresses)
        context = None if self._goes_without_tls(first) else self._context
        local = (rng.choice(ADDRESSES), 0)
        reader, writer = await asyncio.open_connection(host, port, local_addr=local, ssl=context)
        if self._orders.login is not None:
            try:
                await self._log_in(reader, writer, *self._orders.login)
            except BaseException:
                writer.transport.abort()
                raise
        return reader, writer

    async def _log_in(
        self, reader: StreamReader, writer: StreamWriter, user: str, password: str
    ) -> None:
        bodies = (
            (ApiKey.SASL_HANDSHAKE, 1, {"mechanism": PLAIN}),
            (ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": f"\0{user}\0{password}".encode()}),
        )
        for key, version, values in bodies:
            header = write_request_header(key, version, 0, CLIENT_ID)
            writer.write(framed(header + request_body(key, version, **values)))
        for key, version, _ in bodies:
            answer = decode_response(key, version, (await _response(reader))[4:])
            if answer.error_code.value:
                raise AssertionError(f"the user is refused: {answer}")

    async def _not_accepted(self, batch: list[Frame]) -> None:
        self._again.extendleft(reversed(batch))
        self.sent.refused += 1
        self._refused += 1
        if self._refused > REFUSED_MAX:
            raise ConnectionError(f"{REFUSED_MAX} connections in a row were not accepted")
        await asyncio.sleep(0.01)

    async def _exchange(
        self, reader: StreamReader, writer: StreamWriter, batch: list[Frame], rng: random.Random
    ) -> tuple[int, bool]:
        """Return how many frames were read, and whether the last one closed the connection."""
        ends = batch[-1].kind.ends
        data = b"".join(each.data for each in batch)
        if not ends:
            data += self._sentinel()
        if rng.random() < 0.15:
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data) + 1)
                _write(writer, data[:at])
                data = data[at:]
                await asyncio.sleep(0)
        _write(writer, data)
        answers = self._http_answers if self._is_http else self._kafka_answers
        expected = len(batch) - 1 if ends else len(batch) + 1
        whole = HTTP_ANSWER_SECONDS if self._is_http else ANSWER_SECONDS
        patience = HALF_OPEN_SECONDS if ends else whole
        is_open, answered = True, 0
        try:
            async with asyncio.timeout(patience) as limit:
                answered, is_open = await answers(reader, expected, limit, patience)
        except TimeoutError:
            # Nothing more comes: all of it counts as read.
            if not ends:
                self.sent.silent += 1
            answered = len(batch)
        except (OSError, EOFError):
            is_open = False
        self.sent.answered += answered
        if ends and is_open:
            self._leave(writer, rng)
            return len(batch), False
        writer.transport.abort()
        if is_open:
            return len(batch), False
        self.sent.closed += 1
        return _read_until_closed(batch, answered), True

    async def _kafka_answers(
        self, reader: StreamReader, expected: int, limit: asyncio.Timeout, patience: float
    ) -> tuple[int, bool]:
        """Count the answers until the last one has come; False if the node closes before."""
        answered = 0
        now = asyncio.get_running_loop().time
        while answered < expected:
            try:
                response = await _response(reader)
            except (OSError, EOFError):
                return answered, False
            if LENGTH.unpack_from(response)[0] == _SENTINEL:
                break
            answered += 1
            limit.reschedule(now() + patience)
        return answered, True

    async def _http_answers(
        self, reader: StreamReader, expected: int, limit: asyncio.Timeout, patience: float
    ) -> tuple[int, bool]:
        """As `_kafka_answers`; the last request asks for the end of the connection."""
        answered, tail = 0, b""
        now = asyncio.get_running_loop().time
        while answered < expected:
            try:
                data = await reader.read(1 << 16)
            except OSError:
                return answered, False
            if not data:
                return answered, False
            data = tail + data
            answered += data.count(_ANSWERED_HTTP) - data.count(_CONTINUE_HTTP)
            tail = data[max(0, len(data) - len(_ANSWERED_HTTP) + 1) :]
            limit.reschedule(now() + patience)
        return answered, True

    def _sentinel(self) -> bytes:
        if self._is_http:
            host = "{}:{}".format(*self._orders.addresses[0])
            return f"GET /v1/none HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        header = write_request_header(ApiKey.API_VERSIONS, 0, _SENTINEL, CLIENT_ID)
        return framed(header)

    def _leave(self, writer: StreamWriter, rng: random.Random) -> None:
        """Leave a connection in the middle of something: reset it, end one side, or keep it."""
        match rng.randrange(3):
            case _ if writer.transport.is_closing():
                return
            case 0:
                of_connection = writer.get_extra_info("socket")
                of_connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
                writer.transport.abort()
                return
            case 1 if writer.can_write_eof():
                with contextlib.suppress(OSError):
                    writer.write_eof()
            case _:
                pass
        self._half_open.append(writer)
        if len(self._half_open) > HALF_OPEN_MAX:
            self._half_open.popleft().transport.abort()

    def _count(self, batch: list[Frame]) -> None:
        self.sent.frames += len(batch)
        for each in batch:
            self.sent.bytes += len(each.data)
            self._kinds[each.kind.value] += 1


def _read_until_closed(batch: list[Frame], answered: int) -> int:
    """Return how many frames a node has read that closed the connection after so many answers.

    It drops the answers that are not ready. So the cause is the first frame without an answer that
    is not valid.
    """
    for place in range(answered, len(batch)):
        if batch[place].kind is not Kind.VALID:
            return place + 1
    return min(answered + 1, len(batch))


def _write(writer: StreamWriter, data: bytes) -> None:
    # uvloop's transport refuses to write once the other side has closed.
    if not writer.transport.is_closing():
        writer.write(data)


async def _response(reader: StreamReader) -> bytes:
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return await reader.readexactly(length)


async def _carry_out(orders: Orders, journal: BinaryIO) -> Sent:
    return await Attack(orders).carry_out(journal)


def main() -> None:
    """Carry out the orders on standard input, and write what was sent to standard output."""
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    with (
        Path(orders.journal).open("ab") as journal,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        sent = runner.run(_carry_out(orders, journal))
    sys.stdout.buffer.write(msgspec.json.encode(sent))


if __name__ == "__main__":
    main()
