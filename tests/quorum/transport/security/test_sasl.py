"""SASL on a connection: who gets in, who does not, and what may be said before."""

import asyncio
import base64
import logging
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quorum.clocks import wall_ms
from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response, request_body
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport import connection
from quorum.transport.limits import LARGE_REQUEST_BYTES
from quorum.transport.outcomes import Cause
from quorum.transport.security import sasl_server
from quorum.transport.security.credentials import DelegationTokenInfo, ScramMechanism
from quorum.transport.security.plain import PlainServer
from quorum.transport.security.protocols import PLAIN_CLIENT
from quorum.transport.security.sasl_client import ClientSasl
from quorum.transport.security.scram import ScramClient
from quorum.transport.security.secret import Secret
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import LENGTH, OFFERED, Peer, framed, peer_of, vote
from tests.quorum.transport.security.secured import (
    PASSWORD,
    Recorder,
    alice,
    echo,
    mechanisms,
    refusal,
    sasl_client,
    sasl_listener,
    scram_credentials,
    secure_channel,
    secured,
    server_tls,
    trusting,
)
from tests.support.pem_authority import Authority

KIB = 1024
NAMES = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOLD = "Authentication failed during authentication due to invalid credentials with SASL mechanism "


async def ask(peer: Peer, api_key: ApiKey, version: int, **values: Any) -> Any:
    """The decoded answer to a request on a raw connection."""
    header = headers.write_request_header(api_key, version, 1, "test")
    peer.write(framed(header + request_body(api_key, version, **values)))
    frame = await peer.take_frame()
    start = headers.response_body_start(frame, api_key, version)
    return decode_response(api_key, version, frame[start:])


async def expired(recorder: Recorder) -> None:
    """Let the loop turn until the proof of the last client has ended."""
    inbound = recorder.last._connection
    while inbound._handler == inbound._terms.handler:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)


async def shake(peer: Peer, mechanism: str, version: int = 1) -> Any:
    return await ask(peer, ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", NAMES)
def test_the_right_password_lets_a_client_in(run: Run, mechanism: str) -> None:
    async def go() -> None:
        async with (
            secured(sasl_listener()) as (_, port, recorder),
            secure_channel(port, sasl_client(alice(mechanism))) as channel,
        ):
            assert await echo(channel) == b"hello"
            assert recorder.who == "User:alice"
            large = bytes(1_000_000)
            assert await echo(channel, large) == large

    run(go())


@pytest.mark.parametrize("mechanism", NAMES)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    run: Run, caplog: pytest.LogCaptureFixture, mechanism: str, user: str, password: str
) -> None:
    async def go() -> None:
        security = sasl_client(alice(mechanism, password, user))
        async with (
            secured(sasl_listener()) as (_, port, recorder),
            secure_channel(port, sasl_client(alice(mechanism))) as others,
            secure_channel(port, security) as channel,
        ):
            await echo(others)
            for _ in range(3):
                failure = await refusal(channel)
                assert failure.cause is Cause.UNAUTHENTICATED
                assert failure.reason == TOLD + mechanism
            assert await echo(others) == b"hello"
            assert all(str(each.principal) == "User:alice" for each in recorder.seen)

    run(go())
    here = f"authentication with {mechanism} failed: "
    assert len([each for each in caplog.messages if here in each]) == 1
    assert len([each for each in caplog.messages if TOLD + mechanism in each]) == 1
    for secret in (PASSWORD, "wrong"):
        assert all(
            secret not in each.removeprefix(here) or "is wrong" in each for each in caplog.messages
        )
        assert base64.b64encode(secret.encode()).decode() not in caplog.text
    assert PASSWORD not in caplog.text


def test_over_tls_alike(run: Run, tmp_path: Path) -> None:
    files = Authority().files(tmp_path, "server")

    async def go() -> None:
        async with (
            secured(sasl_listener(tls=server_tls(files))) as (_, port, recorder),
            secure_channel(
                port, sasl_client(alice("SCRAM-SHA-512"), trusting(files.truststore))
            ) as channel,
        ):
            assert await echo(channel) == b"hello"
            assert recorder.who == "User:alice"

    run(go())


def test_a_client_without_sasl_gets_no_further_than_api_versions(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, recorder):
            async with secure_channel(port, PLAIN_CLIENT) as channel:
                assert (await refusal(channel)).cause is Cause.CLOSED
            async with peer_of(port) as peer:
                offer = await ask(
                    peer,
                    ApiKey.API_VERSIONS,
                    3,
                    client_software_name="x",
                    client_software_version="1",
                )
                keys = {each.api_key for each in offer.api_keys}
                assert keys == {*OFFERED, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
            assert not recorder.seen

    run(go())
    assert "Vote came before the client had authenticated" in caplog.text


def test_before_the_proof_frames_are_small_and_time_is_limited(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, recorder):
            async with peer_of(port) as peer:
                peer.write(LENGTH.pack(1_000_000) + bytes(100))
                await peer.lost
            async with secure_channel(port, sasl_client(alice("PLAIN"))) as channel:
                await echo(channel)
                monkeypatch.setattr(sasl_server, "AUTHENTICATION_MS_MAX", 20)
                async with peer_of(port) as peer:
                    await peer.lost
                await echo(channel)
            assert len(recorder.seen) == 2

    run(go())
    assert "no authentication within 20 ms" in caplog.text
    assert (
        "frame of 1000000 bytes, at most 524288 are allowed, before the client has authenticated"
        in caplog.text
    )


def test_strangers_take_no_room_that_authenticated_clients_need(run: Run) -> None:
    """Many begin SASL messages of 128 KiB and finish none."""
    size = 128 * KIB

    async def go() -> None:
        async with AsyncExitStack() as stack:
            listener = secured(
                sasl_listener(), frame_bytes_max=1024 * KIB, large_requests_bytes_max=2048 * KIB
            )
            server, port, _ = await stack.enter_async_context(listener)
            header = headers.write_request_header(ApiKey.SASL_AUTHENTICATE, 2, 1, "test")
            for _ in range(8):
                peer = await stack.enter_async_context(peer_of(port))
                await shake(peer, "PLAIN")
                peer.write(LENGTH.pack(size) + header + bytes(size // 2))
            security = sasl_client(alice("PLAIN"))
            channel = await stack.enter_async_context(secure_channel(port, security))
            assert await echo(channel) == b"hello"
            # The strangers' address has half of a quarter; the client, of the same, half of all.
            assert server.large_requests_bytes == 2 * size
            large = bytes(700 * KIB)
            assert await echo(channel, large) == large

    run(go())


@pytest.mark.parametrize("is_authenticated", [False, True])
def test_a_sasl_message_has_a_limit_before_and_after_the_proof(
    run: Run, caplog: pytest.LogCaptureFixture, is_authenticated: bool
) -> None:
    async def go() -> None:
        listener = sasl_listener(receive_bytes_max=4 * KIB)
        async with secured(listener) as (_, port, _), peer_of(port) as peer:
            await shake(peer, "PLAIN")
            if is_authenticated:
                message = f"\0alice\0{PASSWORD}".encode()
                await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
                await shake(peer, "PLAIN")
            header = headers.write_request_header(ApiKey.SASL_AUTHENTICATE, 2, 1, "test")
            body = request_body(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bytes(5_000))
            peer.write(framed(header + body))
            await peer.lost

    run(go())
    refused = "a SASL message of 5000 bytes, at most 4096 are allowed"
    if not is_authenticated:
        refused = "frame of 5018 bytes, at most 4096 are allowed, before the client has"
    assert refused in caplog.text


@pytest.mark.parametrize("mechanism", ["GSSAPI", "EXTERNAL", "scram-sha-256"])
def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(
    run: Run, mechanism: str
) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, _), peer_of(port) as peer:
            answer = await shake(peer, mechanism)
            assert answer.error_code.name == "unsupported_sasl_mechanism"
            assert answer.mechanisms == NAMES
            await peer.lost

    run(go())


def test_our_client_names_the_mechanisms_that_are_enabled(run: Run) -> None:
    async def go() -> None:
        only_plain = {"PLAIN": PlainServer({"alice": Secret(PASSWORD)})}
        async with (
            secured(sasl_listener(only_plain)) as (_, port, _),
            secure_channel(port, sasl_client(alice("SCRAM-SHA-256"))) as channel,
        ):
            said = (await refusal(channel)).reason
            assert said == "it does not enable SCRAM-SHA-256; enabled are: PLAIN"
        async with (
            secured(sasl_listener(mechanisms())) as (_, port, _),
            secure_channel(port, sasl_client(alice("PLAIN"))) as channel,
        ):
            await echo(channel)

    run(go())


def test_a_client_with_sasl_says_so_of_a_listener_without(run: Run) -> None:
    from quorum.transport.security.protocols import UNPROTECTED

    async def go() -> None:
        async with (
            secured(UNPROTECTED) as (_, port, recorder),
            secure_channel(port, sasl_client(alice("PLAIN"))) as channel,
        ):
            failure = await refusal(channel)
            assert failure.cause is Cause.UNAUTHENTICATED
            assert "it takes no SASL" in failure.reason
            assert all(each.api_key == ApiKey.API_VERSIONS for each in recorder.seen)

    run(go())


def test_a_failure_is_answered_after_a_delay_and_ends_the_connection(run: Run) -> None:
    async def go() -> None:
        async with (
            secured(sasl_listener(failure_delay_ms=50)) as (_, port, recorder),
            peer_of(port) as peer,
        ):
            await shake(peer, "PLAIN")
            began = asyncio.get_running_loop().time()
            header = headers.write_request_header(ApiKey.SASL_AUTHENTICATE, 2, 5, "test")
            body = request_body(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0guess")
            peer.write(framed(header + body))
            frame = await peer.take_frame()
            answer = decode_response(ApiKey.SASL_AUTHENTICATE, 2, frame[5:])
            assert asyncio.get_running_loop().time() - began >= 0.045
            assert (answer.error_code.name, answer.error_message) == (
                "sasl_authentication_failed",
                TOLD + "PLAIN",
            )
            await peer.lost
            assert not recorder.seen
            assert not peer.received

    run(go())


@pytest.mark.parametrize(
    "message",
    [b"", b"\0alice", b"\0\0x", b"\0alice\0", b"\xff\0a\0b", b"bob\0alice\0" + PASSWORD.encode()],
)
def test_malformed_messages_of_plain_are_refused(run: Run, message: bytes) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, _), peer_of(port) as peer:
            await shake(peer, "PLAIN")
            answer = await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
            assert answer.error_code.name == "sasl_authentication_failed"
            await peer.lost

    run(go())


@pytest.mark.parametrize(
    "messages",
    [
        [b""],
        [b"n,,n=alice"],
        [b"n,,n=,r=abc"],
        [b"p=tls-unique,,n=alice,r=abc"],
        [b"n,a=bob,n=alice,r=abc"],
        [b"n,,n=al=ice,r=abc"],
        [b"\xff"],
        [b"n,,n=alice,r=abc", b"c=biws,r=abc,p=AAAA"],
        [b"n,,n=alice,r=abc", b"nothing"],
    ],
)
def test_malformed_messages_of_scram_are_refused(run: Run, messages: list[bytes]) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, _), peer_of(port) as peer:
            await shake(peer, "SCRAM-SHA-256")
            for message in messages:
                answer = await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
            assert answer.error_code.name == "sasl_authentication_failed"
            await peer.lost

    run(go())


def test_after_a_handshake_of_version_0_bare_frames_follow(run: Run) -> None:
    async def go() -> None:
        async with secured(sasl_listener()) as (_, port, recorder):
            async with peer_of(port) as peer:
                await shake(peer, "PLAIN", 0)
                peer.write(framed(f"\0alice\0{PASSWORD}".encode()))
                assert await peer.take_frame() == b""
                peer.write(vote(7, b"now"))
                assert (await peer.take_frame()).endswith(b"now")
                assert recorder.who == "User:alice"
            async with peer_of(port) as peer:
                await shake(peer, "PLAIN", 0)
                peer.write(framed(b"\0alice\0wrong"))
                await peer.lost
                assert not peer.received

    run(go())


def test_a_server_that_does_not_know_the_password_is_refused(run: Run) -> None:
    async def go() -> None:
        credential = scram_credentials().scram("alice", 1)
        assert credential is not None
        forged = type(credential)(
            credential.salt, credential.stored_key, bytes(32), credential.iterations
        )
        credentials = scram_credentials()
        credentials._scram = {("alice", 1): forged}
        async with (
            secured(sasl_listener(mechanisms(credentials))) as (_, port, _),
            secure_channel(port, sasl_client(alice("SCRAM-SHA-256"))) as channel,
        ):
            said = (await refusal(channel)).reason
            assert said == "the server did not prove that it knows the password"

    run(go())


@pytest.mark.interpreted
def test_sessions_are_renewed_while_requests_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Early, for a busy machine.
    monkeypatch.setattr(connection, "RENEWED_AFTER", (0.1, 0.2))

    async def go() -> None:
        async with (
            secured(sasl_listener(reauth_ms=1_000)) as (_, port, recorder),
            secure_channel(port, sasl_client(alice("SCRAM-SHA-256"))) as channel,
        ):
            await echo(channel)
            session = recorder.last._connection._session
            assert session is not None
            sent = 1
            for _ in range(3):
                before = session._authenticated
                while session._authenticated is before:
                    await asyncio.gather(*(echo(channel) for _ in range(3)))
                    sent += 3
            assert len(recorder.seen) == sent
            assert len({each.connection_id for each in recorder.seen}) == 1

    run(go())


def test_a_session_that_is_not_renewed_ends(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with (
            secured(sasl_listener(reauth_ms=500)) as (_, port, recorder),
            peer_of(port) as peer,
        ):
            await shake(peer, "PLAIN")
            message = f"\0alice\0{PASSWORD}".encode()
            answer = await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
            assert timedelta(0) < answer.session_lifetime <= timedelta(milliseconds=500)
            peer.write(vote(1, b"in time"))
            await peer.take_frame()
            await expired(recorder)
            # It may still prove itself anew, with the same mechanism.
            await shake(peer, "PLAIN")
            answer = await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
            assert answer.error_code.name == "none"
            peer.write(vote(2, b"in time"))
            await peer.take_frame()
            await expired(recorder)
            peer.write(vote(3, b"late"))
            await peer.lost
            assert len(recorder.seen) == 2

    run(go())
    assert "its authentication has expired" in caplog.text


@pytest.mark.parametrize("is_raw", [False, True])
def test_the_room_of_a_long_sasl_message_is_given_back(run: Run, is_raw: bool) -> None:
    password = "x" * 2 * LARGE_REQUEST_BYTES

    async def go() -> None:
        users = {"alice": Secret(password)}
        async with (
            secured(sasl_listener({"PLAIN": PlainServer(users)})) as (server, port, _),
            peer_of(port) as peer,
        ):
            await shake(peer, "PLAIN", 0 if is_raw else 1)
            message = f"\0alice\0{password}".encode()
            if is_raw:
                peer.write(framed(message))
                assert await peer.take_frame() == b""
            else:
                await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
            assert server.large_requests_bytes == 0

    run(go())


def test_nobody_becomes_another_by_re_authentication(run: Run) -> None:
    async def go() -> None:
        users = {"alice": Secret(PASSWORD), "bob": Secret(PASSWORD)}
        async with (
            secured(sasl_listener({"PLAIN": PlainServer(users)})) as (_, port, recorder),
            peer_of(port) as peer,
        ):
            for user, error in (("alice", "none"), ("bob", "sasl_authentication_failed")):
                await shake(peer, "PLAIN")
                message = f"\0{user}\0{PASSWORD}".encode()
                answer = await ask(peer, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
                assert answer.error_code.name == error
            await peer.lost
            assert not recorder.seen

    run(go())


def test_a_delegation_token_stands_for_its_owner(run: Run) -> None:
    secret = base64.b64encode(b"an hmac of the token").decode()
    tokens = {
        name: DelegationTokenInfo(
            token_id=name,
            owner=KafkaPrincipal("User", "owner"),
            hmac=Secret(secret),
            expires_ms=wall_ms() + left_ms,
        )
        for name, left_ms in (("token", 60_000), ("old", -1))
    }

    async def go() -> None:
        found = mechanisms(scram_credentials(tokens=tokens))

        def token(name: str, password: str, *, is_token: bool = True) -> ClientSasl:
            client = ScramClient(ScramMechanism.SHA_256, name, Secret(password), is_token=is_token)
            return ClientSasl(client)

        async with secured(sasl_listener(found)) as (_, port, recorder):
            for _ in range(2):
                security = sasl_client(token("token", secret).mechanism)
                async with secure_channel(port, security) as channel:
                    await echo(channel)
                    expected = KafkaPrincipal("User", "owner", token_authenticated=True)
                    assert recorder.last.principal == expected
            for wrong in (
                token("token", "guess"),
                token("old", secret),
                token("token", secret, is_token=False),
                token("alice", PASSWORD),
            ):
                async with secure_channel(port, sasl_client(wrong.mechanism)) as channel:
                    assert (await refusal(channel)).cause is Cause.UNAUTHENTICATED

    run(go())


def test_no_secret_is_in_a_repr_or_a_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    listener, client = sasl_listener(), sasl_client(alice("SCRAM-SHA-512"))

    async def go() -> None:
        async with (
            secured(listener) as (_, port, _),
            secure_channel(port, client) as channel,
        ):
            await echo(channel)

    run(go())
    assert listener.sasl is not None
    shown = " ".join(
        [
            caplog.text,
            repr(listener),
            repr(client),
            repr(vars(listener.sasl.mechanisms["PLAIN"])),
            repr(scram_credentials().scram("alice", 1)),
            repr(Secret(PASSWORD)),
            str(Secret(PASSWORD)),
        ]
    )
    assert PASSWORD not in shown
    credential = scram_credentials().scram("alice", 1)
    assert credential is not None
    assert repr(credential.stored_key) not in shown
