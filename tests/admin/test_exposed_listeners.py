"""The warnings of a node's start about listeners that more than this machine can reach."""

from pathlib import Path

import pytest

from admin.config import Config, load
from admin.http.start import http_exposures
from quorum.transport.exposure import exposures, is_local

PLAIN_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'


def warnings(folder: Path, *settings: str) -> list[str]:
    """The warnings of a controller with these settings; it is at 10.0.0.1, and 127.0.0.1 too."""
    pem = folder / "any.pem"
    overrides = {
        "process.roles": "controller",
        "node.id": "1",
        "log.dir": str(folder),
        "quorum.voters": "1@10.0.0.1:9",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.location": str(pem),
        "sasl.jaas.config": PLAIN_USERS,
        "advertised.listeners": "CONTROLLER://10.0.0.1:9",
    }
    given = dict(each.split("=", 1) for each in settings)
    config = load(None, {}, [f"{k}={v}" for k, v in {**overrides, **given}.items()])
    assert isinstance(config, Config)
    return [*exposures(config.listeners), *http_exposures(config.http)]


OPEN = "is open to other machines"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("listeners=CONTROLLER://127.0.0.1:9", "http.listener=127.0.0.1:8"), []),
        (
            ("listeners=CONTROLLER://0.0.0.0:9",),
            [
                f"Listener CONTROLLER://0.0.0.0:9 {OPEN} without authentication and encryption "
                "(PLAINTEXT)"
            ],
        ),
        (
            ("listeners=CONTROLLER://10.0.0.1:9", "listener.security.protocol.map=CONTROLLER:SSL"),
            [
                f"Listener CONTROLLER://10.0.0.1:9 {OPEN} without authentication: "
                "ssl.client.auth is not required"
            ],
        ),
        (
            (
                "listeners=CONTROLLER://10.0.0.1:9",
                "listener.security.protocol.map=CONTROLLER:SSL",
                "ssl.client.auth=required",
            ),
            [],
        ),
        (
            (
                "listeners=CONTROLLER://10.0.0.1:9",
                "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms=PLAIN",
                "sasl.mechanism.controller.protocol=PLAIN",
                f"listener.name.controller.plain.sasl.jaas.config={PLAIN_USERS[:-1]} "
                'username="a" password="b";',
            ),
            [
                f"Listener CONTROLLER://10.0.0.1:9 {OPEN} and takes passwords without TLS "
                "(SASL_PLAINTEXT)"
            ],
        ),
        (
            ("listeners=CONTROLLER://127.0.0.1:9", "http.listener=0.0.0.0:8"),
            [
                f"The HTTP listener 0.0.0.0:8 {OPEN} without authentication: http.tokens.file is "
                "not set"
            ],
        ),
        (
            (
                "listeners=CONTROLLER://127.0.0.1:9",
                "http.listener=0.0.0.0:8",
                "http.tokens.file=/tokens",
            ),
            [f"The HTTP listener 0.0.0.0:8 {OPEN} and takes bearer tokens without TLS"],
        ),
        (
            (
                "listeners=CONTROLLER://127.0.0.1:9",
                "http.listener=0.0.0.0:8",
                "http.tokens.file=/tokens",
                "listener.name.http.ssl.keystore.location=/http.pem",
            ),
            [],
        ),
    ],
)
def test_what_strangers_could_reach_is_said(
    tmp_path: Path, settings: tuple[str, ...], said: list[str]
) -> None:
    assert warnings(tmp_path, *settings) == said


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("node1", False),
    ],
)
def test_only_loopback_is_this_machine_alone(host: str, *, local: bool) -> None:
    assert is_local(host) is local
