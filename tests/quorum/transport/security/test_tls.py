"""TLS between a listener and its clients: who is let in, who is not, and what each is told."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum.clocks import wall_ms
from quorum.protocol.apis import ApiKey
from quorum.transport.outcomes import NOT_SENT, Cause
from quorum.transport.security.principal_mapping import parse_rules
from quorum.transport.security.protocols import PLAIN_CLIENT
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import (
    ClientAuth,
    ClientTls,
    Pem,
    ServerTls,
    TlsSettings,
    TlsUnusable,
)
from quorum.transport.security.tls_listener import HANDSHAKES_MAX, HANDSHAKES_OF_ADDRESS_MAX
from quorum.transport.security.validity import WARNINGS
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import HOST, Outcomes, failure_cause, our_warnings, peer_of
from tests.quorum.transport.security.secured import (
    client_tls,
    echo,
    pems,
    refusal,
    secure_channel,
    secured,
    server_tls,
    ssl_client,
    ssl_listener,
    trusting,
)
from tests.support.pem_authority import Authority, Files


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def turns(until: Callable[[], bool]) -> None:
    """Let the loop turn until this is so."""
    while not until():  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)


def test_a_client_without_a_certificate_is_anonymous(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (_, port, recorder),
            secure_channel(port, ssl_client(trusting(files.truststore))) as channel,
        ):
            assert await echo(channel) == b"hello"
            assert recorder.who == "User:ANONYMOUS"
            assert (recorder.last.listener, recorder.last.client_host) == ("SECURE", HOST)
            large = bytes(3_000_000)
            assert await echo(channel, large) == large

    run(go())


def test_a_client_with_a_certificate_is_its_subject(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")
    client = authority.files(tmp_path, "broker-1")

    async def go() -> None:
        tls = server_tls(files, client_auth=ClientAuth.REQUIRED)
        async with (
            secured(ssl_listener(tls)) as (_, port, recorder),
            secure_channel(port, ssl_client(client_tls(client))) as channel,
        ):
            await echo(channel)
            assert recorder.who == "User:CN=broker-1,O=Test"
        rules = parse_rules("RULE:^CN=(.*?),.*$/$1/U")
        tls = server_tls(files, client_auth=ClientAuth.REQUESTED, rules=rules)
        async with (
            secured(ssl_listener(tls)) as (_, port, recorder),
            secure_channel(port, ssl_client(client_tls(client))) as channel,
            secure_channel(port, ssl_client(trusting(files.truststore))) as stranger,
        ):
            await echo(channel)
            assert recorder.who == "User:BROKER-1"
            await echo(stranger)
            assert recorder.who == "User:ANONYMOUS"

    run(go())


def test_a_subject_that_no_rule_maps_is_refused(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.files(tmp_path, "server")
    tls = server_tls(
        files, client_auth=ClientAuth.REQUIRED, rules=parse_rules("RULE:^CN=admin$/admin/")
    )

    async def go() -> None:
        async with (
            secured(ssl_listener(tls)) as (_, port, recorder),
            secure_channel(port, ssl_client(client_tls(files))) as channel,
        ):
            assert (await refusal(channel)).cause is Cause.CLOSED
            assert not recorder.seen

    run(go())
    assert "no rule of ssl.principal.mapping.rules matches 'CN=server,O=Test'" in caplog.text


@pytest.mark.parametrize(
    ("who", "server_says", "client_says"),
    [
        ("another authority", "certificate is refused", "it refused our certificate"),
        ("expired", "certificate has expired", "it refused our certificate"),
        ("none", "it presented no certificate", "it wants a certificate, and none is configured"),
    ],
)
def test_a_wrong_certificate_is_refused_and_said_once_on_both_sides(
    run: Run,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    who: str,
    server_says: str,
    client_says: str,
) -> None:
    files = authority.files(tmp_path, "server")
    good = authority.files(tmp_path, "good")
    keystore: Path | None = None
    if who == "another authority":
        keystore = Authority("other").files(tmp_path, "client").keystore
    elif who == "expired":
        keystore = authority.files(tmp_path, "client", is_expired=True).keystore
    bad = (
        trusting(files.truststore)
        if keystore is None
        else client_tls(Files(keystore, files.truststore))
    )

    async def go() -> None:
        tls = server_tls(files, client_auth=ClientAuth.REQUIRED)
        async with (
            secured(ssl_listener(tls)) as (_, port, recorder),
            secure_channel(port, ssl_client(client_tls(good))) as others,
            secure_channel(port, ssl_client(bad)) as channel,
        ):
            await echo(others)
            for _ in range(3):
                failure = await refusal(channel)
                assert failure.cause is Cause.UNAUTHENTICATED, failure
                assert client_says in failure.reason
            assert await echo(others) == b"hello"
            assert all(str(each.principal) == "User:CN=good,O=Test" for each in recorder.seen)

    run(go())
    said = warnings_of(caplog)
    assert len([each for each in said if server_says in each]) == 1, said
    assert len([each for each in said if client_says in each]) == 1, said


def test_a_client_refuses_a_wrong_server_and_both_say_why(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.files(tmp_path, "server")
    elsewhere = tmp_path / "elsewhere.pem"
    elsewhere.write_text(authority.issue("elsewhere", hosts=("elsewhere.example",)).both)
    foreign = Authority("other").files(tmp_path, "foreign")

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (_, port, _),
            secure_channel(port, ssl_client(trusting(foreign.truststore))) as channel,
        ):
            failure = await refusal(channel)
            assert failure.cause is Cause.UNAUTHENTICATED
            assert "its certificate is refused: unable to get local issuer" in failure.reason
        assert "it refused our certificate: it does not know the authority" in caplog.text
        old = authority.files(tmp_path, "old", is_expired=True)
        async with (
            secured(ssl_listener(server_tls(old))) as (_, port, _),
            secure_channel(port, ssl_client(trusting(old.truststore))) as channel,
        ):
            assert "has expired" in (await refusal(channel)).reason
        assert "it refused our certificate: it has expired" in caplog.text
        other = Files(elsewhere, files.truststore)
        async with secured(ssl_listener(server_tls(other))) as (_, port, _):
            async with secure_channel(port, ssl_client(trusting(files.truststore))) as channel:
                failure = await refusal(channel)
                assert "IP address mismatch" in failure.reason
            assert "or not for the host that was connected to" in caplog.text
            relaxed = trusting(files.truststore, verifies_host=False)
            async with secure_channel(port, ssl_client(relaxed)) as channel:
                assert await echo(channel) == b"hello"

    run(go())


def test_the_common_name_of_a_server_is_no_host(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")
    files.keystore.write_text(authority.issue("localhost", hosts=()).both)

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (_, port, _),
            secure_channel(port, ssl_client(trusting(files.truststore)), "localhost") as channel,
        ):
            failure = await refusal(channel)
            assert failure.cause is Cause.UNAUTHENTICATED
            assert "Hostname mismatch" in failure.reason

    run(go())


def test_who_speaks_no_tls_is_told_apart(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        async with secured(ssl_listener(server_tls(files))) as (_, port, recorder):
            async with secure_channel(port, PLAIN_CLIENT) as channel:
                assert (await refusal(channel)).cause in (Cause.CLOSED, Cause.GARBLED)
            async with peer_of(port) as peer:
                peer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await peer.lost
            assert not recorder.seen

    run(go())
    assert "it does not speak TLS" in caplog.text


def test_certificates_are_loaded_again_and_open_connections_stay(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = authority.files(tmp_path, "server")
    other = Authority("second")

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (_, port, recorder),
            secure_channel(port, ssl_client(trusting(files.truststore))) as before,
        ):
            await echo(before)
            files.keystore.write_text("-----BEGIN CERTIFICATE-----\nhalf")
            trusts_old = ssl_client(trusting(files.truststore))
            async with secure_channel(port, trusts_old) as between:
                assert await echo(between) == b"hello"
            renewed = other.files(tmp_path, "renewed")
            files.keystore.write_text(renewed.keystore.read_text())
            async with secure_channel(port, trusts_old) as refused:
                assert (await refusal(refused)).cause is Cause.UNAUTHENTICATED
            async with secure_channel(port, ssl_client(trusting(renewed.truststore))) as after:
                assert await echo(after) == b"hello"
            assert await echo(before) == b"hello"
            assert len({each.connection_id for each in recorder.seen}) == 3

    run(go())
    assert "Still using the certificates loaded before: ssl.keystore.location" in caplog.text
    assert "Loaded certificates again for new connections" in caplog.text


def test_certificates_that_are_not_valid_are_named_at_start_and_at_each_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keystore = tmp_path / "keystore.pem"
    authority = Authority()

    def write(*days: float) -> None:
        keystore.write_text(authority.issue("node", days=(days[0], days[1])).both)

    def said() -> list[str]:
        found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        caplog.clear()
        return found

    write(-9, 400)
    chain = TlsSettings(chain=Pem("ssl.keystore.location", keystore))
    tls, client = ServerTls(chain), ClientTls(chain, is_node=True)
    tls.check()
    client.check()
    assert said() == []
    place = f"ssl.keystore.location {keystore}: the certificate of CN=node,O=Test"
    for days, fault in (
        ((-9, 29), "expires on "),
        ((-9, 28), "expires on "),
    ):
        write(*days)
        tls.check()
        (line,) = said()
        assert line.startswith(f"{place} {fault}")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", line.rpartition(fault)[2])
        # Another listener, or a client, that loads the same file.
        client.check()
        tls.check()
        assert said() == []
    write(-9, 31)
    tls.check()
    assert said() == []
    write(-9, -2)
    ClientTls(chain).check()
    assert said() == []
    WARNINGS.forget()
    of_listeners = [
        ServerTls(TlsSettings(chain=Pem(f"listener.name.{each}.ssl.keystore.location", keystore)))
        for each in ("controller", "http")
    ]
    for each in of_listeners:
        each.check()
    (line,) = said()
    assert line.startswith(
        "listener.name.controller.ssl.keystore.location, listener.name.http.ssl.keystore.location "
        f"{keystore}: the certificate of CN=node,O=Test has expired on "
    )


def test_a_valid_certificate_stays_until_the_new_one_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    files = authority.files(tmp_path, "node")
    tls, client = server_tls(files), ClientTls(TlsSettings(**pems(files)), is_node=True)

    def begins(days: float) -> None:
        now_ms = wall_ms()
        monkeypatch.setattr(
            "quorum.transport.security.tls.wall_ms", lambda: now_ms + round(days * 86_400_000)
        )

    for old, days, fault in (
        (tls.context(), (-9, -2), "has expired on "),
        (tls.context(), (3, 400), "is not valid before "),
    ):
        client.check()
        files.keystore.write_text(authority.issue("node", days=days).both)
        assert tls.context() is old
        client.check()
        (line,) = warnings_of(caplog)
        caplog.clear()
        assert line.startswith("Still using the certificate loaded before, which is valid until ")
        assert f"{files.keystore}: the new certificate of CN=node,O=Test {fault}" in line
    assert tls.context() is old
    begins(2.9)
    assert tls.context() is old
    begins(3.1)
    assert tls.context() is not old
    # What is not valid any more is replaced by whatever comes.
    files.keystore.write_text(authority.issue("node", days=(-9, -2)).both)
    assert warnings_of(caplog) == []
    begins(400)
    last = tls.context()
    files.keystore.write_text(authority.issue("node", days=(-9, -1)).both)
    assert tls.context() is not last
    assert "the certificate of CN=node,O=Test has expired on" in caplog.text


def test_an_authority_that_is_no_longer_trusted_lets_nobody_new_in(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files, client = authority.files(tmp_path, "server"), authority.files(tmp_path, "client")

    async def go() -> None:
        tls = server_tls(files, client_auth=ClientAuth.REQUIRED)
        security = ssl_client(client_tls(client))
        async with (
            secured(ssl_listener(tls)) as (_, port, _),
            secure_channel(port, security) as channel,
        ):
            await echo(channel)
            files.truststore.write_text(Authority("other").certificate)
            async with secure_channel(port, security) as late:
                assert (await refusal(late)).cause is Cause.UNAUTHENTICATED
            await echo(channel)

    run(go())


def test_handshakes_that_never_end_are_bounded_and_others_go_on(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        async with secured(ssl_listener(server_tls(files))) as (server, port, _):
            silent = [
                socket.create_connection((HOST, port))
                for _ in range(HANDSHAKES_OF_ADDRESS_MAX + 10)
            ]
            try:
                (door,) = server._tls_listeners
                await turns(lambda: door.handshakes >= HANDSHAKES_OF_ADDRESS_MAX)
                assert door.handshakes <= HANDSHAKES_MAX
                for each in silent:
                    each.close()
                # Theirs end now, and with them what keeps others waiting.
                await turns(lambda: door.handshakes == 0)
                client = ssl_client(trusting(files.truststore))
                async with secure_channel(port, client) as channel:
                    assert await echo(channel) == b"hello"
            finally:
                for each in silent:
                    each.close()
        assert server.connections == 0

    run(go())
    assert "handshakes of its address are under way, which is the limit" in caplog.text


def test_an_address_has_no_more_handshakes_than_connections(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        listener = ssl_listener(server_tls(files))
        async with secured(listener, connections_per_address_max=3) as (server, port, _):
            silent = [await asyncio.open_connection(HOST, port) for _ in range(8)]
            try:
                for reader, _ in silent[3:]:
                    assert await reader.read() == b""
                (door,) = server._tls_listeners
                assert door.handshakes == 3
            finally:
                for _, writer in silent:
                    writer.close()

    run(go())


def test_pem_in_the_settings_takes_one_line(run: Run, authority: Authority) -> None:
    issued = authority.issue("server").encrypted("open sesame")
    one_line = " ".join(issued.key.split("\n"))
    tls = ServerTls(
        TlsSettings(
            chain=Pem("chain", text=Secret(issued.certificate)),
            key=Pem("key", text=Secret(one_line)),
            key_password=Secret("open sesame"),
        )
    )
    trust = ClientTls(TlsSettings(trusted=Pem("trust", text=Secret(authority.certificate))))

    async def go() -> None:
        async with (
            secured(ssl_listener(tls)) as (_, port, _),
            secure_channel(port, ssl_client(trust)) as channel,
        ):
            assert await echo(channel) == b"hello"

    run(go())


def test_what_cannot_be_used_is_named_and_never_shown(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("server")
    keystore = tmp_path / "keystore.pem"
    settings = {"chain": Pem("ssl.keystore.location", keystore)}

    def says(**more: object) -> str:
        with pytest.raises(TlsUnusable) as caught:
            ServerTls(TlsSettings(**{**settings, **more})).check()  # type: ignore[arg-type]
        assert "PRIVATE KEY" not in str(caught.value)
        assert "sesame" not in str(caught.value)
        return str(caught.value)

    assert says() == f"ssl.keystore.location {keystore} cannot be read: No such file or directory"
    keystore.write_text("nothing")
    assert "holds no PEM" in says()
    keystore.write_text(authority.issue("other").key + issued.certificate)
    assert "the key is not the one of the certificate" in says()
    keystore.write_text(issued.encrypted("open sesame").both)
    assert "the key is encrypted, and ssl.key.password is not set" in says()
    wrong = says(key_password=Secret("sesame"))
    assert "the key cannot be decrypted with ssl.key.password" in wrong
    keystore.write_text(issued.certificate)
    assert "no certificate with its private key" in says()
    keystore.write_text(issued.both)
    assert "set ssl.truststore.location" in says(client_auth=ClientAuth.REQUIRED)
    assert "OpenSSL knows none of NO_SUCH" in says(cipher_suites=("NO_SUCH",))


def test_versions_and_cipher_suites_are_limited(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
        tls = server_tls(files, cipher_suites=(suite,))
        async with secured(ssl_listener(tls)) as (_, port, recorder):
            async with secure_channel(port, ssl_client(trusting(files.truststore))) as channel:
                await echo(channel)
                transport = recorder.last._connection._transport
                assert transport is not None
                spoken = transport.get_extra_info("ssl_object")
                assert (spoken.version(), spoken.cipher()[0]) == (
                    "TLSv1.2",
                    "ECDHE-ECDSA-AES256-GCM-SHA384",
                )
            newer = trusting(files.truststore, versions=("TLSv1.3",))
            async with secure_channel(port, ssl_client(newer)) as channel:
                assert "no TLS version is common" in (await refusal(channel)).reason

    run(go())


def test_nothing_is_said_of_a_listener_that_closes(
    run: Run, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (server, port, _),
            secure_channel(port, ssl_client(trusting(files.truststore))) as channel,
        ):
            await echo(channel)
            with socket.create_connection((HOST, port)):
                await server.close(within_ms=500)

    run(go())
    assert not our_warnings(caplog)


def test_a_request_on_a_connection_that_breaks_may_have_been_carried_out(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    files = authority.files(tmp_path, "server")

    async def go() -> None:
        async with (
            secured(ssl_listener(server_tls(files))) as (_, port, recorder),
            secure_channel(port, ssl_client(trusting(files.truststore))) as channel,
        ):
            await echo(channel)
            outcomes = Outcomes()
            channel.request(ApiKey.VOTE, b"park", outcomes, timeout_ms=10_000, version=1)
            await recorder.until_parked(1)
            transport = recorder.last._connection._transport
            assert transport is not None
            # The end of the stream, without TLS's own end before it.
            raw = transport.get_extra_info("socket")
            with socket.socket(fileno=os.dup(raw.fileno())) as end:
                end.shutdown(socket.SHUT_WR)
            (outcome,) = await outcomes.until(1)
            assert failure_cause(outcome) is Cause.CLOSED
            assert Cause.CLOSED not in NOT_SENT

    run(go())
