"""Connections of a client to nodes, one per address, and requests from plain values.

A request is sent once, to one node, and ends with the answer or with `NoResponse`; the clients
retry it.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from admin.client.protocol_probe import answers_without_tls, other_protocol, speaks_tls
from admin.faults import CertificateRefused, Incompatible, Unauthenticated
from quorum.clocks import monotonic_ms
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import build, encode_request_body, request_schema
from quorum.protocol.errors import Malformed
from quorum.protocol.extension import (
    Extension,
    details_of,
    extension_of,
    is_newer,
    with_extension,
)
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.connection import WANTS_SASL, BodyWriter
from quorum.transport.outcomes import NOT_SENT, Cause, Failure, Reply, RequestFailed
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity, SecurityProtocol
from quorum.transport.security.sasl_client import TAKES_NO_SASL
from quorum.transport.security.tls import CERTIFICATE_REFUSED, ENDED_HANDSHAKE, NO_TLS
from quorum.transport.sweeper import Sweeper
from quorum.version import VERSION

T = TypeVar("T")

_TIMELESS_CHANGES: Final = frozenset({ApiKey.REMOVE_RAFT_VOTER})
"""Changes without a field for the time-out: the extension has it, and the node gives up in time."""


class NoResponse(Exception):
    """There is no answer. `may_be_done` unless the node can never have seen the request."""

    def __init__(self, reason: str, *, may_be_done: bool, is_unconnected: bool = False) -> None:
        """`is_unconnected` if no connection was made."""
        super().__init__(reason)
        self.may_be_done = may_be_done
        self.is_unconnected = is_unconnected


class Response(NamedTuple, Generic[T]):
    """An answer, or what was read of it, and the offset that it is as of, if it says one."""

    value: T
    as_of: int | None


@dataclass(frozen=True, slots=True)
class Form:
    """A request to be filled in, of the version that both sides speak."""

    api_key: ApiKey
    version: int
    patience: timedelta
    """The time that the client waits for the answer."""

    def request(self, **values: Any) -> Any:
        """Make the request: mappings in `values` become the structures inside it.

        Fields that the version lacks are left out; `timeout` is the patience unless it is given.
        """
        schema = request_schema(self.api_key, self.version)
        return build(schema, {"timeout": self.patience, **values})


Fill = Callable[[Form], Any]


def details_in(response: Any, kind: type[T]) -> T | None:
    """The details that only our nodes give in an answer; raises `Incompatible`."""
    try:
        return details_of(response, kind)
    except Malformed as error:
        raise Incompatible(f"invalid response: {error}") from None


def only(results: Sequence[T]) -> T:
    """The result of a request about one thing; raises `Incompatible` for another number of them."""
    if len(results) != 1:
        raise Incompatible(f"invalid response: {len(results)} results in place of one")
    return results[0]


def _extension_in(address: Address, response: Any) -> Extension | None:
    """The extension of an answer; raises `Malformed`, or `Incompatible` for a newer one."""
    found = extension_of(response)
    if is_newer(found):
        raise Incompatible(
            f"{address} answers in a way that metaquorum {VERSION} cannot read: use the command of "
            "the newer release"
        )
    return found


PROBE_AFTER_SECONDS: Final = 1.0
"""The silence of a node that has never answered, after which its protocol is looked at."""


class Channels:
    """The channels of one client, made when first used; belongs to one event loop."""

    def __init__(self, client_id: str, security: ClientSecurity = PLAIN_CLIENT) -> None:
        self._client_id = client_id
        self._security = security
        self._sweeper = Sweeper(monotonic_ms)
        self._channels: dict[Address, Channel] = {}
        self._understood: set[Address] = set()
        """Nodes that have answered."""
        self._probed: set[Address] = set()
        """Other nodes, of which it is known that they speak nothing else."""
        self._hung_up: set[Address] = set()
        """Nodes that seem to want SASL."""

    async def ask(
        self,
        address: Address,
        api_key: ApiKey,
        fill: Fill,
        extension: Extension | None = None,
        *,
        timeout_ms: int,
    ) -> Response[Any]:
        """The answer of the node at `address`, as kio's value; `extension` is put in the request.

        Raises `NoResponse`, or `Incompatible` when no version is common or the answer is garbled.
        """

        def write(version: int) -> bytes:
            payload = fill(Form(api_key, version, timedelta(milliseconds=timeout_ms)))
            body = encode_request_body(api_key, version, payload)
            added = extension
            if api_key in _TIMELESS_CHANGES:
                added = Extension(patience_ms=timeout_ms)
            return body if added is None else with_extension(type(payload), body, added)

        reply = await self.exchange(address, api_key, write, timeout_ms=timeout_ms)
        try:
            response = reply.decode()
            answered = _extension_in(address, response)
        except Malformed as error:
            raise Incompatible(f"invalid response from {address}: {error}") from None
        return Response(response, None if answered is None else answered.as_of)

    async def exchange(
        self, address: Address, api_key: ApiKey, write: BodyWriter, *, timeout_ms: int
    ) -> Reply:
        """The answer of the node at `address`, not decoded; `write` encodes the request's body.

        Raises as `ask` does.
        """
        channel = self._channels.get(address) or self._open(address)
        try:
            call = channel.call(api_key, write, timeout_ms=timeout_ms)
            reply = await self._reply(address, call)
        except RequestFailed as error:
            match error.failure:
                case Failure(Cause.NOT_SERVED, _) if api_key == ApiKey.CAPABILITY:
                    raise Incompatible(
                        f"{address} does not know this command, as no node of Kafka does: ask a "
                        "controller of metaquorum with --bootstrap-controller"
                    ) from None
                case Failure(Cause.UNAUTHENTICATED, reason):
                    raise await self._unauthenticated(address, reason) from None
                case Failure(Cause.NOT_SERVED | Cause.UNSENDABLE, reason):
                    raise Incompatible(f"{address}: {reason}") from None
                case Failure(Cause.REFUSED | Cause.UNREACHABLE, reason):
                    if reason.endswith(ENDED_HANDSHAKE):
                        await self._check_protocol(address)
                    # The reason names the address.
                    raise NoResponse(reason, may_be_done=False, is_unconnected=True) from None
                case failure:
                    if failure.cause in (Cause.CLOSED, Cause.GARBLED):
                        await self._check_protocol(address)
                    self._check_sasl(address, failure.reason)
                    may_be_done = failure.cause not in NOT_SENT
                    raise NoResponse(f"{address}: {failure}", may_be_done=may_be_done) from None
        self._understood.add(address)
        return reply

    async def _unauthenticated(self, address: Address, reason: str) -> Unauthenticated:
        """Return the error of a connection that TLS or SASL refused; raises `Incompatible`."""
        if reason == TAKES_NO_SASL:
            return self._mismatch(address, "asks for no SASL", SecurityProtocol.SASL_PLAINTEXT)
        if reason.startswith(NO_TLS):
            await self._check_protocol(address)
        is_refused = reason.startswith(CERTIFICATE_REFUSED)
        return (CertificateRefused if is_refused else Unauthenticated)(f"{address}: {reason}")

    def is_of_kafka(self, address: Address) -> bool:
        """Return whether the connected node at `address` is one of Kafka's, not one of ours."""
        channel = self._channels.get(address)
        return channel is not None and channel.serves(ApiKey.DISCOVER_BROKERS) is False

    def _check_sasl(self, address: Address, reason: str) -> None:
        """Raise `Incompatible` if a node has hung up a second time on a client without SASL.

        Once, a broker of Kafka without SASL may do so as it stops.
        """
        if reason != WANTS_SASL:
            return
        if address not in self._hung_up:
            self._hung_up.add(address)
            return
        protocol = self._security.protocol
        wanted = "SASL_SSL" if protocol.has_tls else "SASL_PLAINTEXT"
        raise Incompatible(
            f"{address} hangs up at the first request, as a listener does that asks for SASL, and "
            f"security.protocol of this client is {protocol.name}: give --command-config a file "
            f"with {wanted}, sasl.mechanism and sasl.jaas.config"
        )

    async def _reply(self, address: Address, call: Coroutine[Any, Any, Reply]) -> Reply:
        """Await the reply; raise `Incompatible` if a silent node turns out to be none."""
        if address in self._understood or address in self._probed:
            return await call
        task = asyncio.get_running_loop().create_task(call)
        try:
            await asyncio.wait([task], timeout=PROBE_AFTER_SECONDS)
            if not task.done():
                await self._check_protocol(address)
            return await task
        finally:
            task.cancel()

    async def _check_tls(self, address: Address) -> bool:
        """Return whether a listener speaks TLS; raise `Incompatible` if this client does not agree.

        At the first request of a client without TLS our nodes close the connection, and Kafka's
        send an alert of TLS before that. At a handshake of TLS a listener without it hangs up.
        """
        has_tls = await speaks_tls(address)
        if self._security.tls is None and has_tls:
            raise Incompatible(
                f"{address} speaks TLS, and this client does not: give --command-config a file "
                "with security.protocol, SSL or SASL_SSL, and what that needs"
            )
        if self._security.tls is not None and not has_tls and await answers_without_tls(address):
            raise self._mismatch(address, "answers, but without TLS", SecurityProtocol.SSL)
        return has_tls

    def _mismatch(self, address: Address, what: str, excess: SecurityProtocol) -> Unauthenticated:
        """The error of a client whose protocol has what the listener lacks: TLS, or SASL."""
        ours = self._security.protocol
        wanted = SecurityProtocol(ours & ~excess)
        return Unauthenticated(
            f"{address} {what}, and security.protocol of this client is {ours.name}: set "
            f"{wanted.name}, or give the port of a listener with {ours.name}"
        )

    async def _check_protocol(self, address: Address) -> None:
        """Raise `Incompatible` if a listener is no node's, or does not agree about TLS."""
        if address in self._understood or address in self._probed:
            return
        has_tls, tls = await self._check_tls(address), self._security.tls
        name = await other_protocol(address, tls.context() if tls and has_tls else None)
        if name is not None:
            raise Incompatible(
                f"{address} speaks {name}, not the Kafka protocol: give the port of the Kafka "
                "listener of a broker or controller"
            )
        self._probed.add(address)

    async def close(self) -> None:
        """Close every connection; requests under way stay unanswered."""
        channels = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channel.close() for channel in channels))
        self._sweeper.close()

    def _open(self, address: Address) -> Channel:
        channel = Channel(
            lambda: address,
            client_id=self._client_id,
            sweeper=self._sweeper,
            rng=random.Random(),
            security=self._security,
        )
        self._channels[address] = channel
        return channel
