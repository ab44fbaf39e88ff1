"""The channel to the active controller: find it, connect, and retry until it answers.

The active controller is looked up in the quorum for each request. After NOT_CONTROLLER or a lost
connection the caller waits, 100 ms doubling to a second, so that the quorum can elect another one.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from broker.limits import (
    CONTROLLER_BACKOFF_MS,
    CONTROLLER_BACKOFF_MS_MAX,
    CONTROLLER_TIMEOUT_MS,
    LEADER_CHECK_MS,
)
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import reason_of
from quorum.protocol.errors import ErrorCode
from quorum.protocol.malformed import Malformed
from quorum.protocol.shape import Data
from quorum.transport.channel import Channel
from quorum.transport.connection import BodyWriter
from quorum.transport.outcomes import RequestFailed
from quorum.transport.sweeper import Sweeper

LeaderAddress = Callable[[], tuple[str, int] | None]
"""The address of the active controller; None while the quorum has no leader."""


class NoActiveController(Exception):
    """No active controller answered; the message names what was tried."""


class Backoff:
    """A backoff that doubles from 100 ms to a second until `reset`."""

    __slots__ = ("_next_ms",)

    def __init__(self) -> None:
        self._next_ms = CONTROLLER_BACKOFF_MS

    def reset(self) -> None:
        """Start over after a success."""
        self._next_ms = CONTROLLER_BACKOFF_MS

    async def wait(self) -> None:
        """Wait before the next try, so that the quorum can elect a leader."""
        delay_ms = self._next_ms
        self._next_ms = min(2 * delay_ms, CONTROLLER_BACKOFF_MS_MAX)
        await asyncio.sleep(delay_ms / 1_000)


class NodeToControllerChannelManager:
    """A channel to the active controller, whichever node that is.

    Requests are pipelined and answered in order: a request that must not wait behind others needs a
    manager of its own.
    """

    def __init__(
        self,
        leader_address: LeaderAddress,
        *,
        client_id: str,
        sweeper: Sweeper,
        rng: random.Random,
    ) -> None:
        self._leader_address = leader_address
        self._client_id = client_id
        self._sweeper = sweeper
        self._rng = rng
        self._address: tuple[str, int] | None = None
        self._channel: Channel | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._under_way = 0

    async def ask(self, api_key: int, **values: Any) -> Any:
        """Send a request with these fields, see `codec.build`, as `send` does."""
        return await self.send(
            api_key, lambda version: codec.request_body(api_key, version, **values)
        )

    async def send(
        self,
        api_key: int,
        body: Data | BodyWriter,
        *,
        timeout_ms: int = CONTROLLER_TIMEOUT_MS,
        version: int | None = None,
    ) -> Any:
        """Return the active controller's response; raises `NoActiveController`.

        A NOT_CONTROLLER response raises too.
        """
        address = self._leader_address()
        if address is None:
            raise NoActiveController("the quorum has no leader")
        where = f"{address[0]}:{address[1]}"
        self._under_way += 1
        self._sweeper.watch(self, self._sweeper.now_ms() + LEADER_CHECK_MS)
        try:
            reply = await self._channel_to(address).call(
                api_key, body, timeout_ms=timeout_ms, version=version
            )
            answer = reply.decode()
        except (RequestFailed, Malformed) as failure:
            raise NoActiveController(f"{where}: {failure}") from failure
        finally:
            self._under_way -= 1
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            reason = reason_of(reply.body) if api_key == ApiKey.ENVELOPE else None
            said = "not the active controller" if reason is None else reason.text
            raise NoActiveController(f"{where}: {said}")
        return answer

    def sweep(self, now_ms: int) -> int | None:
        """Fail requests to a node that no longer leads: it may never answer them."""
        address = self._leader_address()
        if self._channel is not None and address is not None and address != self._address:
            self._forget_channel()
        return now_ms + LEADER_CHECK_MS if self._under_way else None

    async def close(self) -> None:
        """Close the channel and fail the requests in flight."""
        self._sweeper.forget(self)
        if self._channel is not None:
            await self._channel.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _channel_to(self, address: tuple[str, int]) -> Channel:
        if self._channel is not None and self._address != address:
            self._forget_channel()
        if self._channel is None:
            self._address = address
            self._channel = Channel(
                lambda: address, client_id=self._client_id, sweeper=self._sweeper, rng=self._rng
            )
        return self._channel

    def _forget_channel(self) -> None:
        assert self._channel is not None
        closing = asyncio.get_running_loop().create_task(self._channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._channel = self._address = None
