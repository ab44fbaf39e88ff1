"""Bulk requests: encoded before the measurement starts and decoded after it ends.

Both kinds of controllers get the same bytes. The client shares the processor with the measured
controllers, so during the measurement it only sends bytes and stores those of the response.
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
from quorum.protocol.errors import Malformed
from quorum.protocol.frames import FrameSplitter
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
"""The size of a response header; every version used here is flexible."""


def form_of(api_key: ApiKey) -> Form:
    """The message builder for requests of this API."""
    return Form(api_key, VERSIONS[api_key], PATIENCE)


def framed(form: Form, payload: Any) -> bytes:
    """Encode the request as a frame."""
    return frames.encode_request(form.api_key, form.version, 0, _CLIENT_ID, payload)


def read(api_key: ApiKey, frame: bytes) -> Any:
    """Decode the response in a frame with kio; raises `RunFailed` if that fails."""
    try:
        body = frame[_CORRELATION_BYTES + _NO_TAGS_BYTES :]
        return codec.decode_response(api_key, VERSIONS[api_key], body)
    except Malformed as error:
        raise RunFailed(f"an answer cannot be read: {error}") from None


class Bulk(asyncio.Protocol):
    """A connection to the leader with one request in flight."""

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
        """Send the request and return the frame of the response; raises `RunFailed` without one."""
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
    """Connect to the leader for the duration of the context."""
    bulk = Bulk()
    await asyncio.get_running_loop().create_connection(lambda: bulk, *leader)
    try:
        yield bulk
    finally:
        bulk.close()


async def timed(leader: Address, frames: Sequence[bytes]) -> tuple[float, list[bytes]]:
    """Send the requests in sequence; return the seconds that this took, and the responses."""
    async with connected(leader) as bulk:
        begun = perf_counter()
        answers = [await bulk.ask(frame) for frame in frames]
        return perf_counter() - begun, answers


def check(api_key: ApiKey, answers: Iterable[bytes]) -> list[Any]:
    """Decode the responses with kio; raises `RunFailed` if one has an error."""
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
