"""The channel to the active controller: find it, connect, and retry until it answers.

The active controller is looked up in the quorum for each request. After NOT_CONTROLLER or a lost
connection the caller waits, 100 ms doubling to a second, so that the quorum can elect another one.
"""

import asyncio
import random
from typing import Any, Final

from quorum.core.vocabulary import HostPort
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import reason_of
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.shape import Data
from quorum.transport.channel import AddressLookup, Channel
from quorum.transport.connection import BodyWriter
from quorum.transport.outcomes import NOT_SENT, RequestFailed
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper

CONTROLLER_BACKOFF_MS: Final = 100
CONTROLLER_BACKOFF_MS_MAX: Final = 1_000
"""The pause between two attempts to reach the active controller, doubling up to the maximum."""
CONTROLLER_TIMEOUT_MS: Final = 5_000
"""The time for one request to a controller."""
LEADER_CHECK_MS: Final = 100
"""The interval at which a waiting request checks that its controller still leads."""


class NoActiveController(Exception):
    """No active controller answered; the message names what was tried."""

    def __init__(self, reason: str, *, may_be_done: bool = True) -> None:
        """`may_be_done` unless no controller can have carried out the request."""
        super().__init__(reason)
        self.may_be_done = may_be_done


class Backoff:
    """A backoff that doubles from 100 ms to a maximum until `reset`."""

    __slots__ = ("_max_ms", "_next_ms")

    def __init__(self, max_ms: int = CONTROLLER_BACKOFF_MS_MAX) -> None:
        self._max_ms = max_ms
        self._next_ms = CONTROLLER_BACKOFF_MS

    def reset(self) -> None:
        """Start over after a success."""
        self._next_ms = CONTROLLER_BACKOFF_MS

    def next_seconds(self) -> float:
        """Return the pause before the next attempt, and double the one after it."""
        delay_ms = self._next_ms
        self._next_ms = min(2 * delay_ms, self._max_ms)
        return delay_ms / 1_000

    async def wait(self) -> None:
        """Wait before the next attempt, so that the quorum can elect a leader."""
        await asyncio.sleep(self.next_seconds())


class NodeToControllerChannelManager:
    """A channel to the active controller, whichever node that is.

    Requests are pipelined and answered in order: a request that must not wait behind others needs a
    manager of its own.
    """

    def __init__(
        self,
        leader_address: AddressLookup,
        *,
        client_id: str,
        sweeper: Sweeper,
        rng: random.Random,
        security: ClientSecurity = PLAIN_CLIENT,
    ) -> None:
        self._leader_address = leader_address
        self._sweeper = sweeper
        self._address: HostPort | None = None
        """The last known address."""
        self._channel = Channel(
            lambda: self._address,
            client_id=client_id,
            sweeper=sweeper,
            rng=rng,
            security=security,
        )
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
            raise NoActiveController("the quorum has no leader", may_be_done=False)
        where = f"{address[0]}:{address[1]}"
        self._address = address
        self._channel.leave_old_address()
        self._under_way += 1
        self._sweeper.watch(self, self._sweeper.now_ms() + LEADER_CHECK_MS)
        try:
            reply = await self._channel.call(api_key, body, timeout_ms=timeout_ms, version=version)
            answer = reply.decode()
            refusal = reason_of(answer) if api_key == ApiKey.ENVELOPE else None
        except RequestFailed as error:
            may_be_done = error.failure.cause not in NOT_SENT
            raise NoActiveController(f"{where}: {error}", may_be_done=may_be_done) from error
        except Malformed as error:
            raise NoActiveController(f"{where}: {error}") from error
        finally:
            self._under_way -= 1
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            if refusal is None:
                raise NoActiveController(f"{where}: not the active controller")
            raise NoActiveController(f"{where}: {refusal.text}", may_be_done=refusal.may_be_done)
        return answer

    def sweep(self, now_ms: int) -> int | None:
        """Fail requests to a node that no longer leads: it may never answer them."""
        self._address = self._leader_address() or self._address
        self._channel.leave_old_address()
        return now_ms + LEADER_CHECK_MS if self._under_way else None

    async def close(self) -> None:
        """Close the channel and fail the requests in flight."""
        self._sweeper.forget(self)
        await self._channel.close()
