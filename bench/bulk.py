"""Requests about many partitions at once, written before the clock runs and read after it stops.

Both kinds of controllers get the same bytes. The client shares the processor with those it
measures: while it is timed it only hands over bytes, and takes note of the answer's.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from time import perf_counter
from typing import Any, Final, cast

from admin.client.channels import Form
from bench import frames
from bench.faults import RunFailed
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.frames import FrameSplitter
from quorum.protocol.malformed import Malformed
from quorum.transport.address import Address

ANSWER_SECONDS_MAX: Final = 120.0
PATIENCE: Final = timedelta(seconds=ANSWER_SECONDS_MAX)

VERSIONS: Final = {
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.ALTER_PARTITION: 3,
    ApiKey.BROKER_HEARTBEAT: 1,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
_CLIENT_ID: Final = "bench"
_CORRELATION_BYTES: Final = 4
_NO_TAGS_BYTES: Final = 1
"""Of the header of an answer; every version here is a flexible one."""


def form_of(api_key: ApiKey) -> Form:
    """The form of the requests of this kind."""
    return Form(api_key, VERSIONS[api_key], PATIENCE)


def framed(form: Form, payload: Any) -> bytes:
    """The request as it goes over the wire."""
    return frames.encode_request(form.api_key, form.version, 0, _CLIENT_ID, payload)


def read(api_key: ApiKey, frame: bytes) -> Any:
    """kio's value of the answer in a frame; raises `RunFailed` for what cannot be read."""
    try:
        body = frame[_CORRELATION_BYTES + _NO_TAGS_BYTES :]
        return codec.decode_response(api_key, VERSIONS[api_key], body)
    except Malformed as error:
        raise RunFailed(f"an answer cannot be read: {error}") from None


class Bulk(asyncio.Protocol):
    """One connection to the leader, with one request under way."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter(frame_bytes_max=1 << 30)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._splitter.feed(data)
        frame = self._splitter.take()
        if frame is not None and self._answer is not None:
            self._answer.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RunFailed(f"the connection ended: {exc}"))

    async def ask(self, frame: bytes) -> bytes:
        """The frame of the answer; raises `RunFailed` if there is none."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await self._answer
        except TimeoutError:
            raise RunFailed(f"no answer came within {ANSWER_SECONDS_MAX:g} s") from None

    def close(self) -> None:
        """Close the connection."""
        self._answer = None
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def connected(leader: Address) -> AsyncIterator[Bulk]:
    """A connection to the leader, closed at the end."""
    bulk = Bulk()
    await asyncio.get_running_loop().create_connection(lambda: bulk, *leader)
    try:
        yield bulk
    finally:
        bulk.close()


async def timed(leader: Address, frames: Sequence[bytes]) -> tuple[float, list[bytes]]:
    """Seconds from the first request to the last answer, one after the other; and the answers."""
    async with connected(leader) as bulk:
        begun = perf_counter()
        answers = [await bulk.ask(frame) for frame in frames]
        return perf_counter() - begun, answers


def check(api_key: ApiKey, answers: Iterable[bytes]) -> list[Any]:
    """kio's values of the answers; raises `RunFailed` unless each says that all was done."""
    values = [read(api_key, each) for each in answers]
    for value in values:
        for error, what in _errors(value):
            if error.value:
                raise RunFailed(f"{api_key.name}: {what} was answered with {error.name}")
    return values


def _errors(value: Any) -> Iterable[tuple[Any, str]]:
    if hasattr(value, "error_code"):
        yield value.error_code, "the whole"
    for topic in getattr(value, "topics", getattr(value, "responses", ())):
        if hasattr(topic, "error_code"):
            yield topic.error_code, f"topic {topic.name}"
        for each in getattr(topic, "partitions", ()):
            yield each.error_code, f"partition {each.partition_index}"
