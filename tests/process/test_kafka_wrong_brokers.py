"""Kafka brokers that must not join, and the errors that they and the operator see."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from quorum.transport.security.tls import ClientAuth
from statemachine.security.authorization import AuthorizerConfig
from tests.process.one_kafka_broker import BROKER_ID, KafkaBroker, is_unfenced, kafka_broker
from tests.quorum.transport.security.secured import (
    PASSWORD,
    alice,
    client_tls,
    sasl_client,
    sasl_listener,
    server_tls,
    ssl_client,
    ssl_listener,
)
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import CLUSTER_ID, Node, Secured, a_controller, active, controllers
from tests.support.kafka_tools import runtime
from tests.support.pem_authority import Authority, Files

pytestmark = pytest.mark.process

OTHER_CLUSTER = "5n0Q2mJ7RyS1xWw1eEo3Kw"


async def until_said(
    node: Node, broker: KafkaBroker, log: pytest.LogCaptureFixture, *words: str
) -> str:
    """The line of the controller's log that has all these words."""
    async with asyncio.timeout(6 * PATIENCE_SECONDS):
        while True:
            for line in log.messages:
                if all(word in line for word in words):
                    return line
            await node.opened.quorum.leader_changed(within_seconds=0.05)
            if broker.process.returncode is not None and not log.messages:
                raise AssertionError(broker.said[-2_000:])


async def until_said_by(broker: KafkaBroker, node: Node, words: str) -> None:
    """Wait until the broker has logged this."""
    async with asyncio.timeout(6 * PATIENCE_SECONDS):
        while words not in broker.said:
            await node.opened.quorum.leader_changed(within_seconds=0.05)


async def test_a_broker_of_another_cluster_stays_outside_and_the_operator_reads_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("4.3.1")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        kafka_broker(
            tmp_path, java, node.address, metadata_version=29, cluster_id=OTHER_CLUSTER
        ) as broker,
    ):
        line = await until_said(node, broker, caplog, OTHER_CLUSTER)
        assert f"the sender is of cluster {OTHER_CLUSTER}, this node of {CLUSTER_ID}" in line
        await until_said_by(broker, node, "INCONSISTENT_CLUSTER_ID")
        # It asks again and again, and is told so each time; the operator is told once.
        assert len([each for each in caplog.messages if OTHER_CLUSTER in each]) <= 2
        assert node.controller.image.brokers == {}


async def test_a_second_broker_of_an_id_waits_and_the_first_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("4.3.1")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=29) as first,
    ):
        await first.until(node, is_unfenced)
        epoch = node.controller.image.brokers[101].broker_epoch
        (tmp_path / "second").mkdir()
        async with kafka_broker(
            tmp_path / "second", java, node.address, metadata_version=29
        ) as second:
            await until_said(node, second, caplog, "101", "alive")
            assert second.process.returncode is None
            await until_said_by(second, node, "DUPLICATE_BROKER_REGISTRATION")
        assert node.controller.image.brokers[101].broker_epoch == epoch
        assert first.process.returncode is None


async def test_a_broker_that_cannot_read_the_level_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("3.9.1")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, metadata_version=29, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=29) as broker,
    ):
        line = await until_said(node, broker, caplog, "101", "metadata.version 29")
        assert "1 to 21" in line
        assert node.controller.image.brokers == {}


def by_certificate(files: Files, protocol: str = "SSL") -> dict[str, object]:
    """The settings of a broker that proves itself to controllers by its certificate."""
    return {
        "listener.security.protocol.map": f"CONTROLLER:{protocol},PLAINTEXT:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        **files.settings,
    }


def securely(files: Files, password: str = PASSWORD) -> dict[str, object]:
    """The settings of a broker that proves itself by a password as well."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        **by_certificate(files, "SASL_SSL"),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{module} required username="alice" password="{password}";'
        ),
    }


async def test_brokers_that_do_not_prove_themselves_are_refused_and_the_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java, ours, theirs = runtime("4.3.1"), Authority("ours"), Authority("theirs")
    files, foreign = ours.files(tmp_path, "node"), theirs.files(tmp_path, "foreign")
    expired = ours.files(tmp_path, "expired", is_expired=True)
    wrong = [
        (securely(expired), "its certificate is refused: certificate has expired"),
        (
            securely(Files(foreign.keystore, files.truststore)),
            "its certificate is refused: unable to get local issuer certificate",
        ),
        (securely(Files(files.keystore, foreign.truststore)), "it refused our certificate"),
        (securely(files, "guess"), "PLAIN failed: the password of user 'alice' is wrong"),
    ]
    their_words = (
        "certificate_expired",
        "unknown_ca",
        "unable to find valid certification path",
        "invalid credentials with SASL mechanism PLAIN",
    )
    tls = server_tls(files, client_auth=ClientAuth.REQUIRED)
    secured = Secured(
        replace(sasl_listener(tls=tls), name="CONTROLLER"),
        sasl_client(alice("PLAIN"), client_tls(files)),
    )
    caplog.set_level(logging.WARNING)
    async with (
        controllers(tmp_path, 1, kraft_version=1, security=lambda _: secured) as nodes,
        AsyncExitStack() as brokers,
    ):
        node = await active(nodes.values())
        epoch = node.controller.active_epoch

        async def start(broker_id: int, more: dict[str, object]) -> KafkaBroker:
            return await brokers.enter_async_context(
                kafka_broker(
                    tmp_path,
                    java,
                    node.address,
                    metadata_version=29,
                    broker_id=broker_id,
                    more=more,
                )
            )

        refused = [await start(201 + number, more) for number, (more, _) in enumerate(wrong)]
        for broker, (_, reason), words in zip(refused, wrong, their_words, strict=True):
            await until_said(node, broker, caplog, "closed the connection from 127.0.0.1:", reason)
            await until_said_by(broker, node, words)
        # While they try again and again, another one joins.
        right = await start(BROKER_ID, securely(files))
        await right.until(node, is_unfenced)
        assert list(node.controller.image.brokers) == [BROKER_ID]
        assert node.controller.active_epoch == epoch
        # However long that took: each reason once, and then only with the number of repetitions.
        lines = [each for each in caplog.messages if "repeated" not in each]
        for _, reason in wrong:
            assert len([each for each in lines if reason in each]) == 1
        assert len(lines) == len(wrong)


@pytest.mark.long
async def test_a_broker_joins_by_a_certificate_that_may_and_by_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java, authority = runtime("4.3.1"), Authority()
    files = authority.files(tmp_path, "node")
    tls = server_tls(files, client_auth=ClientAuth.REQUIRED)
    secured = Secured(replace(ssl_listener(tls), name="CONTROLLER"), ssl_client(client_tls(files)))
    caplog.set_level(logging.INFO)
    async with (
        controllers(
            tmp_path,
            1,
            kraft_version=1,
            security=lambda _: secured,
            authorizer=AuthorizerConfig(super_users=frozenset({"User:CN=node,O=Test"})),
        ) as nodes,
        AsyncExitStack() as brokers,
    ):
        node = await active(nodes.values())
        stranger, right = [
            await brokers.enter_async_context(
                kafka_broker(
                    tmp_path,
                    java,
                    node.address,
                    metadata_version=29,
                    broker_id=broker_id,
                    more=by_certificate(found),
                )
            )
            for broker_id, found in (
                (201, authority.files(tmp_path, "stranger")),
                (BROKER_ID, files),
            )
        ]
        await right.until(node, is_unfenced)
        # It ends, as it does with Kafka's controllers.
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stranger.process.wait()
        assert "Received cluster authorization error in response" in stranger.said
        refusals = [each for each in caplog.messages if "User:CN=stranger,O=Test" in each]
        assert '"operation":"CLUSTER_ACTION","resource":"Cluster:kafka-cluster"' in refusals[0]
        assert '"outcome":"CLUSTER_AUTHORIZATION_FAILED"' in refusals[0]
        assert len(refusals) <= 3
        assert list(node.controller.image.brokers) == [BROKER_ID]
