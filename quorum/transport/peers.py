"""The channels of a node to its peers: replicas, other controllers, or leaders of partitions.

Responses leave in the order of the requests, and a leader may park a fetch for half a second. So
each node gets two connections: one for fetches and snapshots, one for all other requests.
"""

import asyncio
import random
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from quorum.core.vocabulary import ReplicaId
from quorum.ports import PeerAddresses
from quorum.protocol.apis import ApiKey
from quorum.transport.channel import Channel
from quorum.transport.connection import BodyWriter, OnDone
from quorum.transport.limits import ChannelLimits
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper


class Lane(Enum):
    """The two connections to a node."""

    FETCH = "fetch"
    CONTROL = "control"


_FETCHES: Final = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})


class Peers:
    """A channel for each node and lane, made when first used.

    Addresses are looked up at each connection; there are at most two channels for each known node.
    """

    def __init__(
        self,
        addresses: PeerAddresses,
        *,
        client_id: str,
        sweeper: Sweeper,
        rng: random.Random,
        limits: ChannelLimits | None = None,
        security: ClientSecurity = PLAIN_CLIENT,
        on_gone: Callable[[ReplicaId], None] | None = None,
    ) -> None:
        """`on_gone` is called with a fetched-from replica whose process seems to be gone."""
        self._on_gone = on_gone
        self._security = security
        self._addresses = addresses
        self._client_id = client_id
        self._sweeper = sweeper
        self._rng = rng
        self._limits = limits or ChannelLimits()
        self._channels: dict[tuple[ReplicaId, Lane], Channel] = {}

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
        """Send a request to `replica`; see `Channel.request`."""
        lane = Lane.FETCH if api_key in _FETCHES else Lane.CONTROL
        channel = self.channel(replica, lane)
        channel.request(api_key, body, on_done, timeout_ms=timeout_ms, lowest=lowest)

    def channel(self, replica: ReplicaId, lane: Lane) -> Channel:
        """Return the channel to `replica` for this lane."""
        known = self._channels.get((replica, lane))
        if known is not None:
            return known
        on_gone = None
        if self._on_gone is not None and lane is Lane.FETCH:
            on_gone = partial(self._on_gone, replica)
        channel = Channel(
            lambda: self._addresses.address_of(replica),
            client_id=self._client_id,
            sweeper=self._sweeper,
            rng=self._rng,
            limits=self._limits,
            security=self._security,
            on_gone=on_gone,
        )
        self._channels[replica, lane] = channel
        return channel

    def look_up_again(self, replica: ReplicaId) -> None:
        """Reconnect if another address of `replica` is known: another node answers at this one."""
        for lane in Lane:
            channel = self._channels.get((replica, lane))
            if channel is not None:
                channel.look_up_again()

    async def close(self) -> None:
        """Fail the requests under way and close every channel."""
        channels = tuple(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channel.close() for channel in channels))
