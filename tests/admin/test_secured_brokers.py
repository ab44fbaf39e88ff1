"""Embedded brokers with security on every listener, and librdkafka as their client."""

import asyncio
import base64
import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.client.admin_client import AdminClient
from admin.client.command_config import ClientConfig, load_client_config
from admin.client.consumer import Consumer
from admin.client.producer import Producer
from admin.client.security import set_user
from admin.config import load
from admin.faults import AdminError, Unauthenticated
from broker.broker_server import BrokerServer
from broker.config import BrokerConfig
from quorum.protocol.apis import ApiKey
from quorum.records.encode import ClientRecord
from quorum.transport.address import Address
from quorum.transport.listener import named
from quorum.transport.outcomes import RequestFailed
from quorum.transport.security.credentials import LateCredentials, ScramMechanism
from quorum.transport.security.tls import ClientAuth
from quorum.transport.security.token_hmacs import DelegationTokenConfig, DelegationTokens
from statemachine.errors import Error
from tests.quorum.transport.security.issuer import Issuer
from tests.quorum.transport.security.secured import (
    PASSWORD,
    client_tls,
    scram_credentials,
    secure_channel,
    server_tls,
    ssl_client,
    ssl_listener,
)
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import HOST, Node, Secured, active, controllers
from tests.support.kafka_client import Form
from tests.support.pem_authority import Authority, Files

TOKEN_KEY = "the key of the tokens"
MODULES = "org.apache.kafka.common.security"


@dataclass
class Cluster:
    """A controller and two brokers, with what a client of theirs needs."""

    folder: Path
    authority: Authority
    files: Files
    node: Node
    brokers: list[BrokerServer]
    issuer: Issuer

    def addresses(self, listener: str) -> list[Address]:
        return [named(each.listeners, listener).address for each in self.brokers]

    def client(self, **settings: str) -> ClientConfig:
        """Load a client.properties with these settings, as Kafka's tools do."""
        path = self.folder / "client.properties"
        path.write_text(
            f"ssl.truststore.location={self.files.truststore}\n"
            + "".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items())
        )
        return load_client_config(path)

    def sasl(
        self, mechanism: str, password: str = PASSWORD, user: str = "alice", options: str = ""
    ) -> ClientConfig:
        """A client with this password."""
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        return self.client(
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_jaas_config=(
                f'{MODULES}.{module}LoginModule required username="{user}" password="{password}" '
                f"{options};"
            ),
        )

    def oauth(self, token: str) -> ClientConfig:
        """A client with this token in a file."""
        path = self.folder / "token"
        path.write_text(token)
        return self.client(
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=path.as_uri(),
            sasl_jaas_config=f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        )


def broker_config(
    folder: Path, node: Node, files: Files, broker_id: int, issuer: Issuer
) -> BrokerConfig:
    """A broker's configuration, on free ports."""
    jwks = folder / "jwks.json"
    jwks.write_text(issuer.jwks)
    log_dir = folder / f"broker-{broker_id}"
    log_dir.mkdir()
    settings = {
        "process.roles": "broker",
        "node.id": broker_id,
        "log.dir": log_dir,
        "quorum.voters": f"1@{node.address}",
        "listeners": f"INTERNAL://{HOST}:1,CLIENTS://{HOST}:2,MUTUAL://{HOST}:3",
        "listener.security.protocol.map": "CONTROLLER:SSL,INTERNAL:SSL,CLIENTS:SASL_SSL,MUTUAL:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        ),
        "broker.heartbeat.interval.ms": "50ms",
        "delegation.token.master.key": TOKEN_KEY,
        **files.settings,
    }
    config = load(None, {}, [f"{name}={value}" for name, value in settings.items()])
    assert isinstance(config, BrokerConfig)
    free = tuple(
        replace(each, address=Address(HOST, 0), advertised=None) for each in config.listeners
    )
    return replace(config, listeners=free)


@asynccontextmanager
async def cluster(folder: Path, *, is_of_log: bool = False) -> AsyncIterator[Cluster]:
    """Two brokers that know alice, or with `is_of_log` only the users of the log."""
    authority = Authority()
    files = authority.files(folder, "node")
    issuer = Issuer()
    secured = Secured(
        ssl_listener(server_tls(files, client_auth=ClientAuth.REQUIRED)),
        ssl_client(client_tls(files)),
    )
    async with (
        asyncio.timeout(4 * PATIENCE_SECONDS),
        controllers(folder, 1, security=lambda _: secured) as nodes,
        AsyncExitStack() as parts,
        asyncio.TaskGroup() as group,
    ):
        node = await active(nodes.values())
        node.service.tokens = DelegationTokens(DelegationTokenConfig(secret_key=TOKEN_KEY))
        stop, brokers = asyncio.Event(), []
        for broker_id in (101, 102):
            config = broker_config(folder, node, files, broker_id, issuer)
            broker = await BrokerServer.open(config, parts, rng=random.Random(broker_id))
            if not is_of_log:
                config.credentials.source = scram_credentials()
            brokers.append(broker)
            group.create_task(broker.run(stop))
        for broker in brokers:
            await broker.lifecycle.unfenced.wait()
        try:
            yield Cluster(folder, authority, files, node, brokers, issuer)
        finally:
            stop.set()


async def written_and_read(cluster: Cluster, listener: str, config: ClientConfig) -> list[bytes]:
    """Write a record through this listener with librdkafka, and read all there are."""
    bootstrap = cluster.addresses(listener)
    async with Producer(bootstrap, config=config) as producer:
        sent = await producer.send("topic", 0, [ClientRecord(0, None, listener.encode())])
        await sent
    async with Consumer(bootstrap, "topic", config=config) as consumer:
        spans = await consumer.spans()
        found = []
        reading = consumer.read({0: spans[0].earliest}, {0: spans[0].latest})
        async for records in reading:
            found += [each.value or b"" for each in records]
        return found


async def test_librdkafka_writes_and_reads_by_password_token_and_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with cluster(tmp_path) as brokers:
        scram = brokers.sasl("SCRAM-SHA-512")
        async with AdminClient(
            brokers.addresses("CLIENTS"), is_controller=False, security=scram.security
        ) as admin:
            await admin.create_topic("topic", partitions=1, replication_factor=2)
            known = await admin.brokers()
            # A client is told the addresses of the listener that it asked at.
            assert [each.address for each in known] == brokers.addresses("CLIENTS")
        # The forwarded request was alice's, at a controller that knows the broker by certificate.
        lines = [json.loads(each.message) for each in caplog.records if each.name == "audit"]
        assert ("User:alice", "CreateTopics") in {
            (each["principal"], each["request"]) for each in lines
        }
        own = brokers.authority.files(tmp_path, "Client-Bob")
        bob = brokers.client(security_protocol="SSL", ssl_keystore_location=str(own.keystore))
        expected = []
        for listener, config in (
            ("CLIENTS", scram),
            ("CLIENTS", brokers.sasl("SCRAM-SHA-256")),
            ("CLIENTS", brokers.sasl("PLAIN")),
            ("CLIENTS", brokers.oauth(brokers.issuer.token())),
            ("MUTUAL", bob),
        ):
            expected.append(listener.encode())
            assert await written_and_read(brokers, listener, config) == expected
        image = brokers.node.controller.image
        for broker in image.brokers.values():
            found = {each.name: each.security_protocol for each in broker.endpoints}
            assert found == {"INTERNAL": 1, "CLIENTS": 3, "MUTUAL": 1}
    assert PASSWORD not in caplog.text


async def test_a_wrong_password_or_certificate_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as brokers:
        wrong = brokers.sasl("SCRAM-SHA-512", "guess")
        nobody = brokers.client(security_protocol="SSL")
        for listener, config, said in (
            ("CLIENTS", wrong, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
            ("MUTUAL", nobody, "it wants a certificate"),
        ):
            async with AdminClient(
                brokers.addresses(listener),
                is_controller=False,
                security=config.security,
                timeout_ms=1_000,
            ) as admin:
                with pytest.raises(AdminError, match=said):
                    await admin.brokers()
        # A broker's certificate is good for its listener, and no client's password is.
        async with AdminClient(
            [brokers.node.address], is_controller=True, security=wrong.security, timeout_ms=500
        ) as admin:
            with pytest.raises(AdminError):
                await admin.describe_quorum()
    assert "guess" not in caplog.text


async def add_carol(brokers: Cluster) -> None:
    """Add a user with a SCRAM credential, and wait until the first broker knows her."""
    asking = AdminClient(
        brokers.addresses("CLIENTS"), is_controller=False, security=brokers.sasl("PLAIN").security
    )
    async with asking as admin:
        await admin.carry_out(set_user("carol", ScramMechanism.SHA_512, PASSWORD, 4_096))
    first = brokers.brokers[0]
    while not first.image.scram_credentials:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)


async def asked(address: Address, config: ClientConfig, form: Form, **values: Any) -> Any:
    """The answer to one request on a connection of its own; raises `RequestFailed`."""
    async with secure_channel(address.port, config.security) as channel:
        body = form.body(form.request(**values))
        reply = await channel.call(form.api_key, body, timeout_ms=10_000, version=form.version)
        return reply.decode()


BROKERS = Form(ApiKey.DESCRIBE_CLUSTER, 1)
CREATE_TOKEN = Form(ApiKey.CREATE_DELEGATION_TOKEN, 2)


async def test_a_delegation_token_logs_in_and_gets_no_other_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with cluster(tmp_path, is_of_log=True) as brokers:
        await add_carol(brokers)
        at = brokers.addresses("CLIENTS")[0]
        wanted = {"renewers": (), "max_lifetime": timedelta(days=-1)}
        carol = brokers.sasl("SCRAM-SHA-512", user="carol")
        token = await asked(at, carol, CREATE_TOKEN, **wanted)
        assert (token.error_code.value, token.principal_name) == (0, "carol")
        while not brokers.brokers[0].image.delegation_tokens:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)
        password = base64.b64encode(token.hmac).decode()
        by_token = {"user": token.token_id, "options": 'tokenauth="true"'}
        config = brokers.sasl("SCRAM-SHA-256", password, **by_token)
        answer = await asked(
            at, config, BROKERS, include_cluster_authorized_operations=False, endpoint_type=1
        )
        assert {each.broker_id for each in answer.brokers} == {101, 102}
        # The controller is told by which means its principal has logged in at the broker.
        further = await asked(at, config, CREATE_TOKEN, **wanted)
        assert further.error_code.value == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.code
        wrong = brokers.sasl("SCRAM-SHA-256", PASSWORD, **by_token)
        with pytest.raises(RequestFailed, match="invalid credentials"):
            await asked(at, wrong, CREATE_TOKEN, **wanted)
    assert TOKEN_KEY not in caplog.text
    assert password not in caplog.text


async def test_a_starting_broker_lets_nobody_in_before_it_has_read_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, known = asyncio.Event(), LateCredentials.known

    async def noted(credentials: LateCredentials) -> None:
        waiting.set()
        await known(credentials)

    async with cluster(tmp_path, is_of_log=True) as brokers, AsyncExitStack() as parts:
        await add_carol(brokers)
        config = broker_config(tmp_path, brokers.node, brokers.files, 103, brokers.issuer)
        broker = await BrokerServer.open(config, parts, rng=random.Random(103))
        monkeypatch.setattr(LateCredentials, "known", noted)
        at = named(broker.listeners, "CLIENTS").address
        carol = brokers.sasl("SCRAM-SHA-512", user="carol")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(
                asked(
                    at, carol, BROKERS, include_cluster_authorized_operations=False, endpoint_type=1
                )
            )
            await waiting.wait()
            assert not asking.done()
            group.create_task(broker.run(stop))
            answer = await asking
            assert {each.broker_id for each in answer.brokers} >= {101, 102}
            stop.set()


async def test_a_token_that_does_not_count_is_refused_to_librdkafka(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        bootstrap = brokers.addresses("CLIENTS")
        for token in (Issuer().token(), brokers.issuer.token(exp=1), "not signed"):
            async with Producer(bootstrap, config=brokers.oauth(token)) as producer:
                with pytest.raises(Unauthenticated, match="invalid credentials"):
                    await producer.check("topic", 0)
        config = brokers.oauth("")
        (tmp_path / "token").unlink()
        for client in (
            lambda: Producer(bootstrap, config=config),
            lambda: Consumer(bootstrap, "topic", config=config),
        ):
            with pytest.raises(Unauthenticated, match="No such file"):
                client()
        by_token = brokers.sasl("SCRAM-SHA-512", options='tokenauth="true"')
        with pytest.raises(Unauthenticated, match="delegation token"):
            Producer(bootstrap, config=by_token)
