"""Listeners and their security from settings with Kafka's names."""

from pathlib import Path
from typing import Any

import pytest

from admin.client.command_config import load_client_config
from admin.config import Config, load
from admin.settings import InvalidSetting
from broker.config import BrokerConfig
from quorum.transport.address import Address
from quorum.transport.listener import named
from quorum.transport.security.protocols import SecurityProtocol
from quorum.transport.security.tls import ClientAuth

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "log.dir": "/var/lib/x",
    "quorum.voters": "1@127.0.0.1:9093",
}
BROKER = {**CONTROLLER, "process.roles": "broker", "node.id": "101"}
TLS = {"ssl.keystore.location": "/etc/key.pem", "ssl.truststore.location": "/etc/trust.pem"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="n" '
SCRAM += 'password="swordfish";'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
PLAIN += 'username="node" password="swordfish" user_node="swordfish" user_alice="other";'


def loaded(*settings: dict[str, str]) -> Any:
    given = {name: value for each in settings for name, value in each.items()}
    return load(None, {}, [f"{name}={value}" for name, value in given.items()])


def refusal(*settings: dict[str, str]) -> str:
    with pytest.raises(InvalidSetting) as caught:
        loaded(*settings)
    assert "swordfish" not in str(caught.value)
    return str(caught.value)


def test_without_settings_everything_is_plaintext_as_before() -> None:
    config: Config = loaded(CONTROLLER)
    (listener,) = config.listeners
    assert (listener.name, listener.security.protocol) == ("CONTROLLER", SecurityProtocol.PLAINTEXT)
    assert config.quorum.security.protocol is SecurityProtocol.PLAINTEXT
    assert config.quorum.listener_name == "CONTROLLER"
    broker: BrokerConfig = loaded(BROKER, {"listeners": "127.0.0.1:9092"})
    assert [each.name for each in broker.listeners] == ["PLAINTEXT"]
    assert broker.quorum.advertised == Address("127.0.0.1", 9092)


def test_several_listeners_each_with_its_own_security() -> None:
    config: BrokerConfig = loaded(
        BROKER,
        TLS,
        {
            "listeners": "INTERNAL://127.0.0.1:9092,CLIENTS://0.0.0.0:9094,PLAIN://127.0.0.1:9095",
            "advertised.listeners": "CLIENTS://broker.example:9094",
            "listener.security.protocol.map": (
                "INTERNAL:SSL,CLIENTS:SASL_SSL,PLAIN:PLAINTEXT,CONTROLLER:SSL"
            ),
            "inter.broker.listener.name": "INTERNAL",
            "ssl.client.auth": "required",
            "listener.name.clients.ssl.keystore.location": "/etc/clients.pem",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": PLAIN,
            "listener.name.clients.scram-sha-256.connections.max.reauth.ms": "5s",
            "listener.name.clients.sasl.server.max.receive.size": "4096",
        },
    )
    assert config.inter_broker.protocol is config.quorum.security.protocol is SecurityProtocol.SSL
    internal, clients = named(config.listeners, "INTERNAL"), named(config.listeners, "CLIENTS")
    assert clients.place == Address("broker.example", 9094)
    assert internal.security.tls is not None
    assert internal.security.tls._settings.client_auth is ClientAuth.REQUIRED
    assert clients.security.tls is not None
    # As in Kafka, ssl.client.auth is not for SASL_SSL.
    assert clients.security.tls._settings.client_auth is ClientAuth.NONE
    assert str(clients.security.tls._settings.chain).endswith("/etc/clients.pem")
    assert clients.security.sasl is not None
    assert set(clients.security.sasl.mechanisms) == {"SCRAM-SHA-256", "PLAIN"}
    assert clients.security.sasl.receive_bytes_max == 4_096
    assert clients.security.sasl.reauth_ms == {"SCRAM-SHA-256": 5_000, "PLAIN": 0}
    # Nodes of another protocol could not ask it who is where.
    assert config.quorum.advertised is None
    assert "swordfish" not in repr(config)
    assert config.settings["listener.name.clients.plain.sasl.jaas.config"] == "[hidden]"


def test_a_controller_connects_with_the_credentials_of_its_listener() -> None:
    config: Config = loaded(
        CONTROLLER,
        {
            "listeners": "QUORUM://127.0.0.1:9093",
            "controller.listener.names": "QUORUM",
            "listener.security.protocol.map": "QUORUM:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.quorum.plain.sasl.jaas.config": PLAIN,
        },
    )
    assert config.quorum.listener_name == "QUORUM"
    assert config.quorum.security.sasl is not None
    assert config.quorum.security.sasl.mechanism.name == "PLAIN"
    assert "swordfish" not in repr(config)


def test_settings_of_a_listener_come_from_the_environment_too() -> None:
    environ = {
        "METAQUORUM_" + name.upper().replace(".", "_"): value for name, value in CONTROLLER.items()
    }
    environ |= {
        "METAQUORUM_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:SASL_SSL",
        "METAQUORUM_LISTENER_NAME_CONTROLLER_SSL_KEYSTORE_LOCATION": "/etc/key.pem",
        "METAQUORUM_LISTENER_NAME_CONTROLLER_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "METAQUORUM_LISTENER_NAME_CONTROLLER_SCRAM_SHA_512_SASL_JAAS_CONFIG": SCRAM,
        "METAQUORUM_SASL_MECHANISM_CONTROLLER_PROTOCOL": "SCRAM-SHA-512",
    }
    config = load(None, environ)
    assert config.quorum.security.sasl is not None
    assert config.quorum.security.sasl.mechanism.name == "SCRAM-SHA-512"


SASL = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.jaas.config": PLAIN,
}
SSL = {"listener.security.protocol.map": "CONTROLLER:SSL", **TLS}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"controller.listener.names": "X"}, "begins with X, which is not in listeners"),
        ({"listener.security.protocol.map": "X:SSL"}, "has no protocol for CONTROLLER"),
        ({"listener.security.protocol.map": "CONTROLLER"}, "'CONTROLLER' is not NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "CONTROLLER:TLS"}, "'TLS' is not a security protocol"),
        ({"listeners": "A://127.0.0.1:1,A://127.0.0.1:2"}, "two listeners are called A"),
        ({"listeners": "CONTROLLER://127.0.0.1:1,B://127.0.0.1:1"}, "127.0.0.1:1 is listed twice"),
        ({"listener.security.protocol.map": "CONTROLLER:SSL"}, "ssl.keystore.location is not set"),
        ({**SSL, "ssl.keystore.type": "JKS"}, "'JKS' is not supported; convert it to PEM"),
        ({**SSL, "ssl.keystore.key": "x"}, "choose one"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1"}, "'TLSv1' is not supported"),
        ({**SSL, "ssl.client.auth": "maybe"}, "neither required, requested nor none"),
        ({**SSL, "ssl.principal.mapping.rules": "RULE:x"}, "is neither DEFAULT nor RULE:"),
        (
            {**SASL, "sasl.enabled.mechanisms": "GSSAPI"},
            "'GSSAPI' is not supported; there",
        ),
        ({**SASL, "sasl.jaas.config": SCRAM}, "plain.sasl.jaas.config names no users"),
        ({**SASL, "sasl.jaas.config": "swordfish"}, "it does not begin like"),
        ({**SASL, "listener.name.controller.plain.sasl.jaas.config": SCRAM}, "is of SCRAM-SHA-256"),
        ({"listener.name.controller.node.id": "1"}, "is not a setting"),
        ({"listener.name.controller.gssapi.sasl.jaas.config": "swordfish"}, "is not a setting"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_shown(settings: dict[str, str], message: str) -> None:
    assert message in refusal(CONTROLLER, settings)


def test_a_broker_names_the_listener_of_the_others() -> None:
    two = {"listeners": "SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", **TLS}
    config: BrokerConfig = loaded(BROKER, two)
    assert config.inter_broker_listener == "PLAINTEXT"
    config = loaded(BROKER, two, {"security.inter.broker.protocol": "SSL"})
    assert (config.inter_broker_listener, config.listener.port) == ("SSL", 1)
    said = refusal(BROKER, two, {"security.inter.broker.protocol": "SASL_SSL"})
    assert "0 listeners have the security protocol SASL_SSL" in said
    assert "not in listeners" in refusal(BROKER, two, {"inter.broker.listener.name": "X"})


def test_a_client_file_of_kafkas_tools(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nrequest.timeout.ms=5000\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '  username="alice" \\\n  password="swordfish";\n'
        f"ssl.truststore.location={tmp_path}/trust.pem\nssl.truststore.type=PEM\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    config = load_client_config(path)
    assert config.security.protocol is SecurityProtocol.SASL_SSL
    assert config.librdkafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "swordfish",
        "ssl.ca.location": f"{tmp_path}/trust.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert "swordfish" not in repr(config)
    path.write_text("security.protocol=SASL_SSL\nsasl.jaas.config=swordfish\n")
    with pytest.raises(InvalidSetting, match=r"client.properties: sasl.mechanism is not set"):
        load_client_config(path)


@pytest.mark.parametrize(("step", "connects"), [("prepare", 0), ("switch", 1), (None, 1)])
def test_a_migration_decides_who_is_served_and_how_others_are_connected(
    step: str | None, connects: int
) -> None:
    settings = {
        **CONTROLLER,
        "listeners": "CONTROLLER://127.0.0.1:9",
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.location": "/node.pem",
    }
    if step is not None:
        settings["listener.name.controller.security.migration"] = step
    config = load(None, {}, [f"{name}={value}" for name, value in settings.items()])
    assert isinstance(config, Config)
    assert config.listeners[0].security.protocol is SecurityProtocol.SSL
    assert config.listeners[0].security.accepts_plaintext is (step is not None)
    assert config.quorum.security.protocol == connects
