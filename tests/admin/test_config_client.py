"""Configurations through our own client, and the usage errors of its command line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from admin.cli.main import group
from admin.client.admin_client import AdminClient, Refused
from admin.model import ConfigInfo
from quorum.transport.address import Address
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import kafka_client

SERVER = ("--bootstrap-server", "127.0.0.1:9092")


async def test_configurations_are_described_and_invalid_ones_explained(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as raw:
        await joined(raw, 101, CLUSTER_ID)
        await created(raw, "t", (101,))
        async with AdminClient([Address(*node.address)], is_controller=True) as client:
            await client.alter_configs(TOPIC_RESOURCE, "t", {"retention.ms": "5", "flush.ms": "6"})
            await client.alter_configs(TOPIC_RESOURCE, "t", {"flush.ms": "7"}, ["retention.ms"])
            found = {each.name: each for each in await client.describe_configs(TOPIC_RESOURCE, "t")}
            assert found["flush.ms"] == ConfigInfo(name="flush.ms", value="7", source="topic")
            assert found["retention.ms"].source == "default"
            secret = {"listener.name.x.ssl.key.password": "swordfish"}
            await client.alter_configs(BROKER_RESOURCE, "101", secret)
            (own,) = [
                each
                for each in await client.describe_configs(BROKER_RESOURCE, "101")
                if each.source == "broker"
            ]
            assert own.value is None
            with pytest.raises(
                Refused, match=r"all brokers cannot be changed: .*num.io.threads: it"
            ):
                await client.alter_configs(
                    BROKER_RESOURCE, CLUSTER_DEFAULT, {"num.io.threads": "x"}
                )
            with pytest.raises(Refused, match="topic u cannot be described: there is no topic u"):
                await client.describe_configs(TOPIC_RESOURCE, "u")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", *SERVER), "give one of --topic, --broker and --broker-default"),
        (("describe", "--topic", "t", "--broker", "1", *SERVER), "give one of --topic"),
        (("describe", "--topic", "t"), "give --bootstrap-server or --bootstrap-controller"),
        (("alter", "--broker-default", *SERVER), "nothing to change: give --set name=value or"),
        (("alter", "--topic", "t", "--set", "x", *SERVER), "'x' is not name=value"),
        (
            ("alter", "--topic", "t", "--set", "x=1", "--delete", "x", *SERVER),
            "x is given twice",
        ),
    ],
)
def test_altering_and_describing_wrongly(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(group, ["configs", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]
