"""A client of the Kafka protocol for tests: any API at any version, with kio's values.

It goes through our own channel, and knows nothing of what is asked.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from quorum.clocks import monotonic_ms
from quorum.protocol.codec import encode_request_body, request_schema
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.sweeper import Sweeper
from tests.support.kio_values import make_known, nested

PATIENCE_MS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Form:
    """A request of one API and version, to be filled in."""

    api_key: int
    version: int

    def request(self, **values: Any) -> Any:
        """The request; fields that the version lacks are left out."""
        return make_known(request_schema(self.api_key, self.version), **values)

    def part(self, name: str, /, **values: Any) -> Any:
        """A structure inside the request, by the name of its class."""
        schema = request_schema(self.api_key, self.version)
        return make_known(nested(schema, name), **values)

    def body(self, payload: Any) -> bytes:
        """The bytes of the request."""
        return encode_request_body(self.api_key, self.version, payload)


class KafkaClient:
    """One connection to one listener."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def send(self, form: Form, payload: Any, *, timeout_ms: int = PATIENCE_MS) -> Any:
        """The answer to a request; raises `RequestFailed` when there is none."""
        return await self.send_bytes(form, form.body(payload), timeout_ms=timeout_ms)

    async def send_bytes(self, form: Form, body: bytes, *, timeout_ms: int = PATIENCE_MS) -> Any:
        """As `send`, for a body that is written already."""
        reply = await self._channel.call(
            form.api_key, body, timeout_ms=timeout_ms, version=form.version
        )
        return reply.decode()

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        """The answer to a request of plain fields."""
        form = Form(api_key, version)
        return await self.send(form, form.request(**values))


@asynccontextmanager
async def kafka_client(address: tuple[str, int]) -> AsyncIterator[KafkaClient]:
    """A client of the listener at this address."""
    sweeper = Sweeper(monotonic_ms)
    channel = Channel(
        lambda: Address(*address), client_id="test", sweeper=sweeper, rng=random.Random(7)
    )
    try:
        yield KafkaClient(channel)
    finally:
        await channel.close()
        sweeper.close()
