"""The files of OAUTHBEARER and of delegation tokens in docs/security.md do what the page says."""

import re
from pathlib import Path

import pytest

from admin.client.command_config import load_client_config
from admin.properties import read_properties
from quorum.transport.security.mechanisms import AuthenticationFailed
from quorum.transport.security.oauthbearer import OAuthBearerClient
from quorum.transport.security.scram import ScramClient
from tests.admin.test_security_settings import BROKER, TLS, loaded
from tests.quorum.transport.security.issuer import Issuer
from tests.support.tree import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ISSUER = "https://issuer.example.com"


def block(comment: str) -> str:
    """The properties whose first line is this comment."""
    (found,) = [
        each
        for each in re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
        if each.startswith(f"# {comment}")
    ]
    return str(found)


async def test_a_token_of_the_issuer_counts_for_this_audience_only(tmp_path: Path) -> None:
    jwks = tmp_path / "jwks.json"
    issuer = Issuer()
    jwks.write_text(issuer.jwks)
    node = {each.name: each.value for each in read_properties(block("a broker, for OAUTHBEARER"))}
    assert node["sasl.oauthbearer.jwks.endpoint.url"].startswith(ISSUER)
    node["sasl.oauthbearer.jwks.endpoint.url"] = jwks.as_uri()
    listeners = {
        "listeners": "CLIENTS://127.0.0.1:9092",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "controller.listener.names": "CONTROLLER",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="n" password="p";'
        ),
    }
    (listener,) = loaded(BROKER, TLS, listeners, node).listeners
    assert listener.security.sasl is not None
    server = listener.security.sasl.mechanisms["OAUTHBEARER"]

    file = tmp_path / "oauth.properties"
    file.write_text(block("oauth.properties").replace("/etc/metaquorum", str(tmp_path)))
    sasl = load_client_config(file).security.sasl
    assert sasl is not None

    async def principal(**claims: str) -> str:
        (tmp_path / "token").write_text(issuer.token(**claims) + "\n")
        there, here = server.begin(), sasl.mechanism.begin()
        reply = await here.answer(await there.answer(await here.first()))
        if reply is not None:
            await there.answer(reply)
        assert there.authenticated is not None
        return str(there.authenticated.principal)

    assert await principal(iss=ISSUER) == "User:alice"
    with pytest.raises(AuthenticationFailed, match="that does not count: Audience doesn't match"):
        await principal(iss=ISSUER, aud="another")
    with pytest.raises(AuthenticationFailed, match=r"that does not count: Invalid issuer"):
        await principal(iss="https://another.example.com")


@pytest.mark.parametrize(
    ("comment", "mechanism"),
    [("in its place: a token endpoint", OAuthBearerClient), ("token.properties", ScramClient)],
)
def test_a_client_takes_the_file(tmp_path: Path, comment: str, mechanism: type) -> None:
    file = tmp_path / "client.properties"
    lines = block(comment)
    if mechanism is OAuthBearerClient:
        lines = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + lines
    file.write_text(lines)
    sasl = load_client_config(file).security.sasl
    assert sasl is not None
    assert isinstance(sasl.mechanism, mechanism)
