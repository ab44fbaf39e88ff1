"""Passing a request on to the active controller, in an Envelope (KIP-590)."""

import asyncio
import itertools
import logging
import random
from typing import Any, Final, NamedTuple

from controller.apis import envelope as envelopes
from controller.apis.request import TIMEOUT_MS_MAX, KafkaRequest
from controller.service import AsOf
from quorum.core.vocabulary import ReplicaId
from quorum.driver import Quorum
from quorum.ports import Clock, PeerAddresses
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response
from quorum.protocol.envelope_refusals import Words, words_of
from quorum.protocol.extension_tags import offset_of
from quorum.protocol.faults import Malformed
from quorum.transport.channel import Channel
from quorum.transport.outcomes import (
    ConnectionLost,
    Failure,
    Loss,
    NotServed,
    Overloaded,
    Reply,
    RequestFailed,
    Unsendable,
)
from quorum.transport.sweeper import Sweeper

logger = logging.getLogger("kafka")

ENVELOPE_VERSION: Final = 0
NOT_CONTROLLER: Final = 41


_NEVER_TAKEN: Final = frozenset({envelopes.UNSUPPORTED_VERSION, envelopes.INVALID_REQUEST})
"""How a controller refuses an envelope with a request in it that it does not take from others:
one of Kafka's, or of another release of ours. Asking it again would be no use."""


class NotForwarded(Exception):
    """The active controller's answer could not be had; `may_be_done` unless it never was asked.

    `refusal` is the error to answer with at once, where trying again here would be no use.
    """

    def __init__(self, reason: str, *, may_be_done: bool, refusal: int | None = None) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done
        self.refusal = refusal


class Forwarder:
    """Channels to the other controllers, for requests that only the active one can answer."""

    def __init__(self, quorum: Quorum, addresses: PeerAddresses, *, clock: Clock) -> None:
        self._quorum = quorum
        self._addresses = addresses
        self._sweeper = Sweeper(clock)
        self._correlations = itertools.count(1)
        self._rng = random.SystemRandom()
        self._channels: dict[ReplicaId, Channel] = {}

    async def forward(
        self, call: KafkaRequest, body: bytes, deadline: float, *, asks_who_leads: bool = False
    ) -> Any:
        """The active controller's response; raises `NotForwarded`.

        `deadline` is in seconds of the running loop's clock.
        """
        leader = self._quorum.leader
        if leader is None:
            reason, is_for_long = leaderless(self._quorum, asks_who_leads=asks_who_leads)
            refusal = NOT_CONTROLLER if is_for_long else None
            raise NotForwarded(reason, may_be_done=False, refusal=refusal)
        if leader == self._quorum.node.me.id:
            raise NotForwarded(f"node {leader} is about to be active", may_be_done=False)
        channel = self._channel_to(leader)
        correlation_id = next(self._correlations) & 0x7FFF_FFFF
        envelope = envelopes.wrap(call, body, correlation_id)
        try:
            # When the channel itself loses patience it drops the connection, and the requests of
            # others with it: so it has more than anybody, and who gives up just goes away.
            async with asyncio.timeout_at(deadline):
                reply = await channel.call(
                    ApiKey.ENVELOPE, envelope, timeout_ms=TIMEOUT_MS_MAX, version=ENVELOPE_VERSION
                )
            return _opened(leader, call, reply)
        except TimeoutError:
            raise NotForwarded(
                f"node {leader} leads, and did not answer", may_be_done=True
            ) from None
        except RequestFailed as error:
            may_be_done = _may_have_arrived(error.failure)
            raise NotForwarded(f"node {leader}: {error}", may_be_done=may_be_done) from error
        except Malformed as error:
            raise NotForwarded(f"node {leader}: {error}", may_be_done=True) from error

    def _channel_to(self, leader: ReplicaId) -> Channel:
        """Made when first needed: there are no more than have ever led."""
        channel = self._channels.get(leader)
        if channel is None:
            channel = self._channels[leader] = Channel(
                lambda: self._addresses.address_of(leader),
                client_id=f"forwarder-{self._quorum.node.me.id}",
                sweeper=self._sweeper,
                rng=self._rng,
            )
        return channel

    async def close(self) -> None:
        """Fail what is under way and close every channel."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._sweeper.close()


def _opened(leader: ReplicaId, call: KafkaRequest, reply: Reply) -> Any:
    response = reply.decode()
    error: int = response.error_code.value
    words = words_of(reply.body)
    if error in _NEVER_TAKEN:
        why = f" ({words.text})" if words and error == envelopes.INVALID_REQUEST else ""
        raise NotForwarded(
            f"node {leader} is the active controller, and takes no {call.api_key} version "
            f"{call.version} from other nodes{why}: ask it directly, or when another one leads",
            may_be_done=False,
            refusal=envelopes.UNSUPPORTED_VERSION,
        )
    if error != 0 or response.response_data is None:
        words = words or Words(f"refused: {response.error_code.name}")
        raise NotForwarded(f"node {leader}: {words.text}", may_be_done=words.may_be_done)
    body = envelopes.inner_body(call, response.response_data)
    payload = decode_response(call.api_key, call.version, body)
    offset = offset_of(call.api_key, call.version, body)
    return payload if offset is None else AsOf(payload, offset)


def _may_have_arrived(failure: Failure) -> bool:
    match failure:
        case Overloaded() | NotServed() | Unsendable():
            return False
        case ConnectionLost(Loss.REFUSED | Loss.UNREACHABLE | Loss.NO_ADDRESS):
            return False
        case _:
            return True


LEADERLESS_MS_MAX: Final = 3_000
"""So long it may be an election, which is worth waiting for; after that whoever asks about the
quorum itself is told that nobody leads."""


class Leaderless(NamedTuple):
    """Why there is no leader to ask, and whether there is no use in waiting for one."""

    reason: str
    is_for_long: bool


def leaderless(quorum: Quorum, *, asks_who_leads: bool) -> Leaderless:
    """What this node says, which knows no leader."""
    reason = f"node {quorum.node.me.id} knows no leader, epoch {quorum.node.epoch}"
    if not quorum.has_room:
        # What it hears it could not keep.
        reason += ", and will know none before there is room on its disk: ask another node"
        return Leaderless(reason, is_for_long=True)
    return Leaderless(reason, asks_who_leads and quorum.leaderless_ms >= LEADERLESS_MS_MAX)
