"""Configurations through our own client, and the usage errors of its command line."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from admin.cli.main import group
from admin.client.admin_client import AdminClient, Refused
from admin.model import ConfigInfo
from quorum.transport.address import Address
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from tests.admin.embedded_brokers import embedded
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
        (
            ("describe", *SERVER),
            "give one of --topic, --broker, --broker-default and --broker-logger",
        ),
        (("describe", "--topic", "t", "--broker", "1", *SERVER), "give one of --topic"),
        (("describe", "--topic", "t"), "give --bootstrap-server or --bootstrap-controller"),
        (("alter", "--broker-default", *SERVER), "nothing to change: give --set name=value or"),
        (("alter", "--topic", "t", "--set", "x", *SERVER), "'x' is not name=value"),
        (
            ("alter", "--broker", "1", "--set", "leader.replication.throttle.rate=1", *SERVER),
            "is not a configuration of brokers; did you mean leader.replication.throttled.rate?",
        ),
        (
            ("alter", "--broker-default", "--set", "bogus.key=1", *SERVER),
            "bogus.key is not a configuration of brokers; --allow-unknown is for plug-ins",
        ),
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


def configs(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(group, ["configs", "alter", *arguments])
    assert done.stdout == ""
    return done.exit_code, done.stderr


async def test_the_command_names_what_is_unset_and_what_was_meant(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as raw:
        await joined(raw, 101, CLUSTER_ID)
        await created(raw, "t", (101,))
        server = ("--bootstrap-controller", str(Address(*node.address)))
        topic, broker = ("--topic", "t", *server), ("--broker", "101", *server)

        async def run(*arguments: str) -> tuple[int, str]:
            return await asyncio.to_thread(configs, *arguments)

        code, said = await run("--set", "retention=5", *topic)
        assert (code, said.endswith("; did you mean retention.ms?\n")) == (1, True), said
        code, said = await run("--delete", "flush.ms", "--set", "retention.ms=5", *topic)
        assert code == 1
        assert said.startswith("Error: flush.ms: not set there, so there is nothing to delete; ")
        assert await run("--set", "flush.ms=5", *topic) == (0, "Changed flush.ms.\n")
        assert await run("--delete", "flush.ms", *topic) == (0, "Changed flush.ms.\n")
        code, said = await run("--set", "node.id=5", *broker)
        assert code == 1
        assert "set it in the broker's own file, and restart it" in said
        code, said = await run("--set", "num.io.threads=5", *broker)
        assert code == 0
        assert said == (
            "Changed num.io.threads.\n"
            "A controller does not know what broker 101 can change while it runs.\n"
        )
        own = ("--broker-default", *server)
        assert (await run("--allow-unknown", "--set", "my.reporter.url=x", *own))[0] == 0
        assert (await run("--delete", "my.reporter.url", *own))[0] == 0


async def test_an_embedded_broker_says_what_needs_a_restart(tmp_path: Path) -> None:
    """It and the controllers say the same."""
    async with embedded(tmp_path, 101, 102) as it:
        servers = (
            ("--bootstrap-server", f"127.0.0.1:{it.brokers[101].port}"),
            ("--bootstrap-controller", str(it.node.address)),
        )

        async def run(*arguments: str) -> tuple[int, str]:
            found = [
                await asyncio.to_thread(configs, "--broker", "102", *arguments, *server)
                for server in servers
            ]
            assert found[0] == found[1]
            return found[0]

        code, said = await run("--set", "listeners=PLAINTEXT://h:1")
        assert code == 1
        assert "set it in the file of broker 102 and restart it" in said
        code, said = await run("--allow-unknown", "--set", "num.io.thread=1")
        assert code == 1
        assert said.endswith("; did you mean num.io.threads? (INVALID_REQUEST)\n")
        rate = "leader.replication.throttled.rate"
        assert await run("--set", f"{rate}=5") == (0, f"Changed {rate}.\n")
