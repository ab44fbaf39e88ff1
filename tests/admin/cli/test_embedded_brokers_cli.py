"""Commands that ask an embedded broker for records, offsets and logs."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.client.admin_client import AdminClient
from quorum.transport.address import Address
from tests.admin.embedded_brokers import embedded
from tests.controller.controller_commands import asked, topic
from tests.support.controllers import HOST

PARTITIONS = 3
PATIENCE = ("--timeout", "20s")


async def run(port: int, *arguments: str, stdin: str = "") -> Result:
    """The output of a command, run in a thread beside the loop of the broker."""
    whom = ("--bootstrap-server", f"{HOST}:{port}", *PATIENCE)
    return await asyncio.to_thread(CliRunner().invoke, group, [*arguments, *whom], input=stdin)


@pytest.mark.thorough
async def test_records_go_in_and_come_out_as_the_options_say(tmp_path: Path) -> None:
    async with embedded(tmp_path, 101) as cluster:
        await asked(cluster.node.controller, topic("lines", 101, partitions=PARTITIONS))
        port = cluster.brokers[101].port
        async with AdminClient([Address(HOST, port)], is_controller=False) as client:
            # Until the broker has replayed its creation.
            while "lines" not in await client.describe_topics():
                pass
        options = ("--compression", "gzip", "--header", "trace=7", "--header", "empty=")
        first = await run(port, "produce", "lines", *options, stdin="a\nb\nc\nd\n")
        assert first.stderr == (
            "4 records are written to lines: 2 to partition 0, 1 to partition 1, 1 to partition 2\n"
        )

        shown = await run(port, "consume", "lines", "--offset", "earliest", "--print-headers")
        assert sorted(shown.stdout.splitlines()) == [f"trace:7,empty:\t{each}" for each in "abcd"]

        async def read(*arguments: str) -> list[str]:
            done = await run(port, "consume", "lines", *arguments)
            assert done.exit_code == 0, done.output
            return sorted(done.stdout.splitlines())

        assert await read("--offset", "-1") == ["b", "c", "d"]
        assert await read("--offset", "1", "--partition", "0") == ["d"]
        assert await read("--offset", "s@2020-01-01T00:00:00Z") == ["a", "b", "c", "d"]
        assert await read("--offset", "s@2100-01-01T00:00:00Z") == []
        beyond = await run(port, "consume", "lines", "--offset", "9", "--partition", "1")
        assert beyond.stderr == (
            "lines-1 holds offsets from 0 up to 1: reading begins at 1\n"
            "0 records were read from lines\n"
        )

        async def offsets(*arguments: str) -> list[str]:
            done = await run(port, "topics", "get-offsets", *arguments)
            assert done.exit_code == 0, done.output
            return done.stdout.split()

        assert await offsets() == ["lines:0:2", "lines:1:1", "lines:2:1"]
        assert await offsets("l*s", "--time", "earliest", "--partition", "2") == ["lines:2:0"]
        assert await offsets("lines", "--time", "max-timestamp", "--partition", "1") == [
            "lines:1:0"
        ]
        assert await offsets("lines", "--time", "2100-01-01T00:00:00Z", "--partition", "0") == [
            "lines:0:"
        ]
        absent = await run(port, "topics", "get-offsets", "lines", "--partition", "3")
        assert absent.stderr == "Error: no topic has partition 3\n"

        logs = await run(port, "brokers", "log-dirs", "--topic", "lines", "-o", "json")
        ((broker,),) = json.loads(logs.stdout).values()
        (directory,) = broker["log_dirs"]
        assert (broker["broker_id"], directory["log_dir"]) == (101, str(tmp_path / "broker-101"))
        assert [
            (each["partition"], each["size_bytes"] > 0) for each in directory["partitions"]
        ] == [(number, True) for number in range(PARTITIONS)]
        table = (await run(port, "brokers", "log-dirs")).stdout.splitlines()
        assert table[0].split() == [
            "Broker",
            "LogDir",
            "Partitions",
            "Size",
            "Free",
            "Cordoned",
            "Error",
        ]
        assert table[1].split()[:3] == ["101", str(tmp_path / "broker-101"), str(PARTITIONS)]
        nobody = await run(port, "brokers", "log-dirs", "--brokers", "102")
        assert (nobody.exit_code, nobody.stderr) == (
            1,
            "Error: Broker 102: not among those alive: 101\n",
        )

        file = {"partitions": [{"topic": "lines", "partition": 0, "offset": 1}]}
        deletion = ("topics", "delete-records", "--offset-json-file", "-")
        refusals: dict[tuple[str, ...], str] = {
            ("consume", "lines", "--group", "g"): "there are no consumer groups: the embedded",
            ("groups", "list"): "there are no consumer groups: the embedded",
            (*deletion, "--yes"): "records cannot be deleted: the embedded brokers keep whole",
        }
        for refused, reason in refusals.items():
            done = await run(port, *refused, stdin=json.dumps(file))
            assert (done.exit_code, done.stdout) == (1, "")
            assert reason in done.stderr


async def test_a_plan_is_read_from_stdin(tmp_path: Path) -> None:
    plan = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}
    option = ("--reassignment-json-file", "-")
    for text, said in (
        (json.dumps(plan), "Error: stdin: Partition replica lists may not contain duplicate"),
        ("{", "Error: stdin: not valid JSON at line 1"),
    ):
        done = await run(1, "reassign-partitions", "--verify", *option, stdin=text)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(said)


async def test_the_log_directory_of_an_embedded_broker_is_cordoned_as_of_kafkas(
    tmp_path: Path,
) -> None:
    """KIP-1066: the setting goes to the broker, which reports it; both cordons are shown."""
    async with embedded(tmp_path, 101, 102) as cluster:
        image, port = cluster.node.controller.image, cluster.brokers[102].port

        async def cordon(value: str) -> str:
            """Change it at the broker; its output once the controllers know."""
            wanted = image.brokers[102].log_dirs if value else ()
            change = ("configs", "alter", "--broker", "102", "--set", f"cordoned.log.dirs={value}")
            done = await run(port, *change)
            while not done.exit_code and image.brokers[102].cordoned_log_dirs != wanted:
                await cluster.node.opened.quorum.leader_changed(within_seconds=0.01)
            return done.output

        assert "Changed" in await cordon("*")
        at_controller = cluster.node.address.port
        listed = await run(at_controller, "brokers", "list")
        assert "1 of 1 log dirs" in listed.stdout
        found = json.loads((await run(at_controller, "brokers", "list", "-o", "json")).stdout)
        told = [(each["cordoned"], each["gets_new_replicas"]) for each in found["brokers"]]
        assert told == [(False, True), (False, False)]
        assert [each["cordoned"] for each in found["brokers"][1]["log_dirs"]] == [True]
        shown = await run(port, "brokers", "log-dirs", "--brokers", "102", "-o", "json")
        (directory,) = json.loads(shown.stdout)["brokers"][0]["log_dirs"]
        assert directory["cordoned"]
        refused = await run(at_controller, "topics", "create", "t", "--replication-factor", "2")
        assert "Broker(s) 102 get no new replicas" in refused.output

        wrong = await cordon("/elsewhere")
        assert "cordoned.log.dirs can be *, which cordons it, or empty" in wrong
        await cordon("")
        created = await run(at_controller, "topics", "create", "t", "--replication-factor", "2")
        assert created.exit_code == 0, created.output
