"""The network around the gossip: it asks whom `quorum.discovery` names, and answers who asks.

Each exchange has a connection of its own, which ends with it: most places are asked once in a
while, and some are gone. Nothing is decided here.
"""

import asyncio
import logging
import random
from typing import Final

from quorum.addresses import HostPort
from quorum.discovery import Discovery
from quorum.gossip import DiscoverBrokersResponse
from quorum.ports import Clock
from quorum.protocol import discovery as wire
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.faults import Malformed
from quorum.protocol.raft_types import Refusal
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.complaints import Complaints
from quorum.transport.inbound import InboundRequest
from quorum.transport.outcomes import RequestFailed
from quorum.transport.sweeper import Sweeper

logger = logging.getLogger("quorum")

VERSION: Final = 0
NAP_SECONDS_MAX: Final = 1.0
"""How long it sleeps at most: who has lost its leader begins to search as soon."""


TOLD_MAX: Final = 256
"""Places of which it is remembered what was last said of them in the log."""


class Gossiper:
    """Asks until cancelled, and answers at any time."""

    def __init__(
        self,
        discovery: Discovery,
        *,
        client_id: str,
        sweeper: Sweeper,
        clock: Clock,
        rng: random.Random,
        timeout_ms: int,
        complaints: Complaints,
    ) -> None:
        self._discovery = discovery
        self._client_id = client_id
        self._sweeper = sweeper
        self._clock = clock
        self._rng = rng
        self._timeout_ms = timeout_ms
        self._complaints = complaints
        self._told: dict[HostPort, str] = {}

    async def run(self) -> None:
        """Keep asking where everyone is."""
        discovery = self._discovery
        async with asyncio.TaskGroup() as asking:
            while True:
                if discovery.is_due(self._clock()):
                    for place in discovery.round(self._clock()):
                        asking.create_task(self._ask(place))
                wait_seconds = (discovery.deadline_ms - self._clock()) / 1_000
                await asyncio.sleep(min(max(wait_seconds, 0.0), NAP_SECONDS_MAX))

    def asked(self, request: InboundRequest) -> None:
        """Answer a node or a client that asks; raises `Malformed` for what cannot be read."""
        message = wire.read_request(request.body)
        if not isinstance(message, Refusal):
            answer = self._discovery.asked(message, self._clock())
            if not isinstance(answer, str):
                request.respond(wire.write_response(answer))
                return
            message = Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, answer)
        self._complaints.refused(request.peer, str(request), str(message))
        request.respond(wire.write_refusal(message, self._discovery.cluster_id))

    async def _ask(self, place: HostPort) -> None:
        channel = Channel(
            lambda: place, client_id=self._client_id, sweeper=self._sweeper, rng=self._rng
        )
        try:
            reply = await channel.call(
                ApiKey.DISCOVER_BROKERS,
                wire.write_request(self._discovery.request()),
                timeout_ms=self._timeout_ms,
                version=VERSION,
            )
            response = wire.read_response(reply.body)
        except (RequestFailed, Malformed) as error:
            self._discovery.failed(place)
            self._tell(place, str(error))
        else:
            self._heard(place, response)
        finally:
            await channel.close()

    def _heard(self, place: HostPort, response: DiscoverBrokersResponse | Refusal) -> None:
        if isinstance(response, Refusal):
            self._discovery.failed(place)
            self._tell(place, f"it refuses to tell: {response.reason}")
            return
        foreign = self._discovery.heard(place, response, self._clock())
        self._tell(place, f"nothing is learned from it: {foreign}" if foreign else "")

    def _tell(self, place: HostPort, what: str) -> None:
        """Into the log, when it is another thing than the last time; "" is that all is well."""
        if self._told.pop(place, "") != what and what:
            logger.warning("asked %s where everyone is: %s", Address(*place), what)
        if what:
            self._told[place] = what
            if len(self._told) > TOLD_MAX:
                del self._told[next(iter(self._told))]
