"""Passing a request on to the active controller, in an Envelope (KIP-590)."""

import asyncio
import itertools
import logging
import random
from collections.abc import Mapping
from typing import Any, Final

from admin.addresses import Address
from admin.kafka import envelopes
from admin.kafka.call import Call
from quorum.core.vocabulary import ReplicaId
from quorum.driver import Quorum
from quorum.ports import Clock
from quorum.transport.channel import Channel
from quorum.transport.outcomes import Reply, RequestFailed
from quorum.transport.sweeper import Sweeper
from quorum.wire.apis import ApiKey
from quorum.wire.codec import decode_response
from quorum.wire.faults import Malformed

logger = logging.getLogger("kafka")

ENVELOPE_VERSION: Final = 0


class Forwarder:
    """Channels to the other controllers, for requests that only the active one can answer."""

    def __init__(
        self, quorum: Quorum, addresses: Mapping[ReplicaId, Address], *, clock: Clock
    ) -> None:
        self._quorum = quorum
        self._sweeper = Sweeper(clock)
        self._correlations = itertools.count(1)
        rng = random.SystemRandom()
        self._channels = {
            replica: Channel(
                lambda address=address: address,  # type: ignore[misc]
                client_id=f"forwarder-{quorum.node.me.id}",
                sweeper=self._sweeper,
                rng=rng,
            )
            for replica, address in addresses.items()
            if replica != quorum.node.me.id
        }

    async def forward(self, call: Call, body: bytes, deadline: float) -> Any | None:
        """The active controller's response, or None when it could not be had just now.

        `deadline` is in seconds of the running loop's clock.
        """
        leader = self._quorum.leader
        channel = None if leader is None else self._channels.get(leader)
        remaining_ms = round((deadline - asyncio.get_running_loop().time()) * 1_000)
        if channel is None or remaining_ms <= 0:
            return None
        correlation_id = next(self._correlations) & 0x7FFF_FFFF
        envelope = envelopes.wrap(call, body, correlation_id)
        try:
            reply = await channel.call(
                ApiKey.ENVELOPE, envelope, timeout_ms=remaining_ms, version=ENVELOPE_VERSION
            )
            return _opened(call, reply)
        except (RequestFailed, Malformed) as error:
            logger.info("%s was not passed on to node %s: %s", call.api_key, leader, error)
            return None

    async def close(self) -> None:
        """Fail what is under way and close every channel."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._sweeper.close()


def _opened(call: Call, reply: Reply) -> Any | None:
    response = reply.decode()
    if response.error_code.value != 0 or response.response_data is None:
        logger.info("%s was passed on and refused: %s", call.api_key, response.error_code.name)
        return None
    body = envelopes.inner_body(call, response.response_data)
    return decode_response(call.api_key, call.version, body)
