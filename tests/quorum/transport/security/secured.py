"""Listeners and channels with TLS and SASL, on loopback."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.limits import FRAME_BYTES_MAX
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.transport.channel import Channel
from quorum.transport.inbound import InboundRequest
from quorum.transport.limits import ChannelLimits, ServerLimits
from quorum.transport.outcomes import Failure, RequestFailed
from quorum.transport.security.credentials import (
    CredentialsInMemory,
    DelegationTokenInfo,
    ScramCredential,
    ScramMechanism,
)
from quorum.transport.security.mechanisms import ClientMechanism, ServerMechanism
from quorum.transport.security.plain import PlainClient, PlainServer
from quorum.transport.security.protocols import (
    ClientSecurity,
    ListenerSecurity,
    SecurityProtocol,
)
from quorum.transport.security.sasl_client import ClientSasl
from quorum.transport.security.sasl_server import RECEIVE_BYTES_MAX, ServerSasl
from quorum.transport.security.scram import ScramClient, ScramServer, credential_of
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import ClientTls, Pem, ServerTls, TlsSettings
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.loopback import HOST, OFFERED, Handler
from tests.support.pem_authority import Files

PASSWORD = "swordfish-of-alice"
SALT = b"a salt of 18 bytes"


def pems(files: Files) -> dict[str, Any]:
    return {
        "chain": Pem("ssl.keystore.location", files.keystore),
        "trusted": Pem("ssl.truststore.location", files.truststore),
    }


def server_tls(files: Files, **more: Any) -> ServerTls:
    return ServerTls(TlsSettings(**pems(files), **more))


def client_tls(files: Files, **more: Any) -> ClientTls:
    """The TLS of a client with a certificate."""
    return ClientTls(TlsSettings(**pems(files), **more))


def trusting(truststore: Path, **more: Any) -> ClientTls:
    """The TLS of a client without one."""
    return ClientTls(TlsSettings(trusted=Pem("ssl.truststore.location", truststore), **more))


def ssl_listener(tls: ServerTls) -> ListenerSecurity:
    return ListenerSecurity(name="SECURE", protocol=SecurityProtocol.SSL, tls=tls)


def ssl_client(tls: ClientTls) -> ClientSecurity:
    return ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls)


def scram_credentials(
    password: str = PASSWORD, *, tokens: Mapping[str, DelegationTokenInfo] | None = None
) -> CredentialsInMemory:
    """The credentials of alice."""
    found: dict[tuple[str, int], ScramCredential] = {
        ("alice", each.number): credential_of(each, password, SALT) for each in ScramMechanism
    }
    return CredentialsInMemory(found, tokens)


def mechanisms(credentials: CredentialsInMemory | None = None) -> dict[str, ServerMechanism]:
    """PLAIN and SCRAM with the user alice."""
    scram = credentials or scram_credentials()
    return {
        "PLAIN": PlainServer({"alice": Secret(PASSWORD)}),
        **{each.mechanism: ScramServer(each, scram, wall_clock=wall_ms) for each in ScramMechanism},
    }


def sasl_listener(
    found: Mapping[str, ServerMechanism] | None = None,
    *,
    tls: ServerTls | None = None,
    reauth_ms: int = 0,
    failure_delay_ms: int = 1,
    receive_bytes_max: int = RECEIVE_BYTES_MAX,
) -> ListenerSecurity:
    enabled = mechanisms() if found is None else found
    return ListenerSecurity(
        name="SASL",
        protocol=SecurityProtocol.SASL_PLAINTEXT if tls is None else SecurityProtocol.SASL_SSL,
        tls=tls,
        sasl=ServerSasl(
            mechanisms=enabled,
            reauth_ms=dict.fromkeys(enabled, reauth_ms),
            failure_delay_ms=failure_delay_ms,
            receive_bytes_max=receive_bytes_max,
            wall_clock=wall_ms,
        ),
    )


def sasl_client(mechanism: ClientMechanism, tls: ClientTls | None = None) -> ClientSecurity:
    return ClientSecurity(
        protocol=SecurityProtocol.SASL_PLAINTEXT if tls is None else SecurityProtocol.SASL_SSL,
        tls=tls,
        sasl=ClientSasl(mechanism),
    )


def alice(mechanism: str, password: str = PASSWORD, user: str = "alice") -> ClientMechanism:
    if mechanism == "PLAIN":
        return PlainClient(user, Secret(password))
    found = next(each for each in ScramMechanism if each.mechanism == mechanism)
    return ScramClient(found, user, Secret(password))


class Recorder(Handler):
    """Echoes, and says whose request was the last."""

    @property
    def last(self) -> InboundRequest:
        return self.seen[-1]

    @property
    def who(self) -> str:
        return str(self.last.principal)


@asynccontextmanager
async def secured(
    security: ListenerSecurity,
    handler: Handler | None = None,
    offered: Mapping[int, VersionRange] = OFFERED,
    **bounds: int,
) -> AsyncIterator[tuple[Server, int, Recorder]]:
    recorder = handler if isinstance(handler, Recorder) else Recorder()
    # The requests of these tests carry bytes of any length in a Vote.
    limits = ServerLimits(request_bytes_of={ApiKey.VOTE: FRAME_BYTES_MAX}, **bounds)
    server = Server(
        recorder, offered=offered, name="listener", clock_ms=monotonic_ms, limits=limits
    )
    port = await server.listen(HOST, 0, security)
    try:
        yield server, port, recorder
    finally:
        await server.close(within_ms=500)


@asynccontextmanager
async def secure_channel(
    port: int, security: ClientSecurity, host: str = HOST
) -> AsyncIterator[Channel]:
    sweeper = Sweeper(monotonic_ms)
    channel = Channel(
        lambda: (host, port),
        client_id="test",
        sweeper=sweeper,
        rng=random.Random(5),
        limits=ChannelLimits(retry_backoff_ms=1, retry_backoff_ms_max=5),
        security=security,
    )
    try:
        yield channel
    finally:
        await channel.close()
        sweeper.close()


async def echo(channel: Channel, body: bytes = b"hello") -> bytes:
    """Send a request that the listener echoes; return the answer."""
    reply = await channel.call(ApiKey.VOTE, body, timeout_ms=10_000, version=1)
    return bytes(reply.body)


async def refusal(channel: Channel) -> Failure:
    """Send a request that fails; return the failure."""
    try:
        await echo(channel)
    except RequestFailed as error:
        return error.failure
    raise AssertionError("it was answered")
