"""OAUTHBEARER: which tokens count, and how keys are found."""

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from quorum.clocks import monotonic_ms, wall_ms
from quorum.transport import connection
from quorum.transport.outcomes import Cause
from quorum.transport.security.mechanisms import AuthenticationFailed
from quorum.transport.security.oauthbearer import (
    EXPIRES_MS_MAX,
    RETRY_MS_MIN,
    UNKNOWN_KEY_MS_MIN,
    KeySource,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenSource,
    Unavailable,
)
from quorum.transport.security.secret import Secret
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import HOST
from tests.quorum.transport.security.issuer import Issuer
from tests.quorum.transport.security.secured import (
    echo,
    refusal,
    sasl_client,
    sasl_listener,
    secure_channel,
    secured,
)


def server(url: str, *, skew_seconds: int = 0) -> OAuthBearerServer:
    return OAuthBearerServer(
        KeySource(url, refresh_ms=3_600_000, clock_ms=monotonic_ms),
        audience=("kafka", "other"),
        issuer="issuer",
        subject_claim="sub",
        skew_seconds=skew_seconds,
    )


def client(path: Path, token: str) -> OAuthBearerClient:
    path.write_text(token + "\n")
    return OAuthBearerClient(TokenSource(path.as_uri()))


def test_a_signed_token_lets_its_subject_in(run: Run, tmp_path: Path) -> None:
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(issuer.jwks)

    async def go() -> None:
        listener = sasl_listener({"OAUTHBEARER": server(jwks.as_uri())})
        security = sasl_client(client(tmp_path / "token", issuer.token()))
        async with (
            secured(listener) as (_, port, recorder),
            secure_channel(port, security) as channel,
        ):
            assert await echo(channel) == b"hello"
            assert recorder.who == "User:alice"

    run(go())


NOW = wall_ms() / 1_000


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (lambda issuer: issuer.token(exp=NOW - 10), "Signature has expired"),
        (lambda issuer: issuer.token(aud="else"), "Audience doesn't match"),
        (lambda issuer: issuer.token(iss="else"), "Invalid issuer"),
        (lambda issuer: issuer.token(without="exp"), '"exp"'),
        (lambda issuer: issuer.token(without="sub"), "without the claim 'sub'"),
        (lambda issuer: issuer.token(sub=""), "without the claim 'sub'"),
        (lambda _: Issuer().token(), "Signature verification failed"),
        (lambda _: Issuer("key-2").token(), "the unknown key 'key-2'"),
        (
            lambda _: jwt.encode({"sub": "alice", "exp": NOW + 60}, "x" * 32, "HS256"),
            "signed with 'HS256'",
        ),
        (
            lambda _: jwt.encode({"sub": "alice", "exp": NOW + 60}, "", "none"),
            "signed with 'none'",
        ),
        (lambda _: "a.b.c", "does not count"),
    ],
)
def test_any_other_token_is_refused_and_not_logged(
    run: Run,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    token: Callable[[Issuer], str],
    said: str,
) -> None:
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(issuer.jwks)
    written = token(issuer)

    async def go() -> None:
        listener = sasl_listener({"OAUTHBEARER": server(jwks.as_uri())})
        security = sasl_client(client(tmp_path / "token", written))
        async with (
            secured(listener) as (_, port, recorder),
            secure_channel(port, security) as channel,
        ):
            failure = await refusal(channel)
            assert failure.cause is Cause.UNAUTHENTICATED
            assert "invalid credentials with SASL mechanism OAUTHBEARER" in failure.reason
            assert not recorder.seen

    run(go())
    assert said in caplog.text
    assert written not in caplog.text


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer((HOST, 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{web.server_port}"
        finally:
            web.shutdown()
            thread.join()


@contextmanager
def served(
    pages: Mapping[str, Callable[[http.server.BaseHTTPRequestHandler], str]],
) -> Iterator[str]:
    """A web server on loopback; gives its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[self.path](self).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as web:
        yield web


@contextmanager
def redirecting(target: str) -> Iterator[str]:
    """A web server that sends everybody on to this address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(302)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as web:
        yield web


async def test_a_new_key_is_fetched_but_not_for_every_stranger() -> None:
    old, new = Issuer("old"), Issuer("new")
    current, fetches, now = [old], [0], [0]

    def jwks(_: Any) -> str:
        fetches[0] += 1
        return current[0].jwks

    with served({"/jwks": jwks}) as web:
        source = KeySource(f"{web}/jwks", refresh_ms=3_600_000, clock_ms=lambda: now[0])
        assert await source.key("old") is not None
        current[0] = new
        assert await source.key("new") is None
        assert fetches[0] == 1
        now[0] += UNKNOWN_KEY_MS_MIN
        assert await source.key("new") is not None
        assert fetches[0] == 2
    # The server is gone: the keys that are known still count.
    now[0] += 3_600_000
    assert await source.key("new") is not None


async def test_keys_that_cannot_be_had_are_not_fetched_for_every_stranger() -> None:
    fetches, now = [0], [0]

    def broken(_: Any) -> str:
        fetches[0] += 1
        return "no keys"

    with served({"/jwks": broken}) as web:
        source = KeySource(f"{web}/jwks", refresh_ms=3_600_000, clock_ms=lambda: now[0])
        for _ in range(3):
            asking = [source.key("any") for _ in range(3)]
            found = await asyncio.gather(*asking, return_exceptions=True)
            assert {str(each) for each in found} == {str(found[0])}
            assert isinstance(found[0], Unavailable)
        assert fetches[0] == 1
        now[0] += RETRY_MS_MIN
        with pytest.raises(Unavailable):
            await source.key("any")
        assert fetches[0] == 2


async def test_a_key_for_encryption_signs_nothing(tmp_path: Path) -> None:
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(issuer.jwks_for("enc"))
    with pytest.raises(AuthenticationFailed, match="unknown key 'key-1'"):
        await server(jwks.as_uri()).identity(issuer.token())


async def test_a_token_may_be_valid_for_longer_than_a_calendar_lasts(tmp_path: Path) -> None:
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(issuer.jwks)
    found = await server(jwks.as_uri()).identity(issuer.token(exp=1e30))
    assert found.expires_ms == EXPIRES_MS_MAX
    with pytest.raises(AuthenticationFailed, match="a token that does not count"):
        await server(jwks.as_uri()).identity(issuer.token(exp=float("inf")))


async def test_credentials_do_not_follow_a_redirect() -> None:
    seen: list[str | None] = []

    def elsewhere(request: http.server.BaseHTTPRequestHandler) -> str:
        seen.append(request.headers["Authorization"])
        return '{"access_token": "abc.def.ghi"}'

    with served({"/token": elsewhere}) as other, redirecting(f"{other}/token") as web:
        source = TokenSource(f"{web}/token", client_id="me", client_secret=Secret("swordfish"))
        with pytest.raises(Unavailable, match=f"redirects to {other}/token: name that address"):
            await source.token()
    assert not seen


async def test_a_token_endpoint_gets_the_credentials_of_the_client() -> None:
    seen: list[str | None] = []

    def token(request: http.server.BaseHTTPRequestHandler) -> str:
        seen.append(request.headers["Authorization"])
        body = request.rfile.read(int(request.headers["Content-Length"]))
        assert body == b"grant_type=client_credentials&scope=kafka"
        return '{"access_token": "abc.def.ghi", "expires_in": 60}'

    with served({"/token": token}) as web:
        source = TokenSource(
            f"{web}/token", client_id="me", client_secret=Secret("swordfish"), scope="kafka"
        )
        assert await source.token() == "abc.def.ghi"
    assert seen == ["Basic bWU6c3dvcmRmaXNo"]


@pytest.mark.interpreted
def test_a_session_is_renewed_before_its_token_ends(
    run: Run,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Early, for a busy machine.
    monkeypatch.setattr(connection, "RENEWED_AFTER", (0.1, 0.2))
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(issuer.jwks)

    async def go() -> None:
        # PyJWT counts in seconds; the session in milliseconds.
        listener = sasl_listener({"OAUTHBEARER": server(jwks.as_uri(), skew_seconds=5)})
        own = client(tmp_path / "token", issuer.token(exp=wall_ms() / 1_000 + 2))
        async with (
            secured(listener) as (_, port, recorder),
            secure_channel(port, sasl_client(own)) as channel,
        ):
            await echo(channel)
            # The client authenticates again by itself, with the token that is there by then.
            client(tmp_path / "token", issuer.token())
            first = recorder.last._connection._session
            assert first is not None
            before = first._authenticated
            while first._authenticated is before:
                assert await echo(channel) == b"hello"

    run(go())
    assert not [each for each in caplog.messages if "expired" in each]


@pytest.mark.parametrize("url", ["ftp://x/y", "jwks.json", "http:"])
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"clientId|begins with neither"):
        TokenSource(url)
