"""`reassign-partitions --generate` and `--dry-run` against a real controller."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from msgspec.structs import replace

from admin.cli.main import group
from admin.cli.options import command_line
from statemachine import commands
from statemachine.records.kafka_records import Endpoint
from tests.controller.controller_commands import asked, heartbeat, move, registration, topic
from tests.support.controllers import Node, active, controllers

LISTENER = Endpoint(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0)


@asynccontextmanager
async def brokers(folder: Path, racks: Mapping[int, str | None]) -> AsyncIterator[Node]:
    """A controller with these brokers, all of them alive."""
    async with controllers(folder, 1) as nodes:
        node = await active(nodes.values())
        for broker, rack in racks.items():
            record = replace(registration(broker), rack=rack, endpoints=(LISTENER,))
            found = await asked(node.controller, record)
            assert isinstance(found, commands.BrokerRegistered)
            await asked(node.controller, heartbeat(node.controller, broker))
        yield node


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["reassign-partitions", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    return await asyncio.to_thread(invoke, *arguments, "--bootstrap-controller", str(node.address))


def written(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def topics(folder: Path, *names: str) -> tuple[str, str]:
    found = {"version": 1, "topics": [{"topic": name} for name in names]}
    return "--topics-to-move-json-file", written(folder / "topics.json", found)


async def test_a_plan_is_proposed_in_the_words_of_kafkas_script_and_can_be_executed(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, {101: None, 102: None, 103: None}) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=3))
        wanted = (*topics(tmp_path, "a"), "--broker-list", "101,102,103")
        proposed = await run(node, "--generate", *wanted)
        assert proposed.exit_code == 0, proposed.output
        title, current, empty, heading, plan = proposed.stdout.splitlines()
        assert title == "Current partition replica assignment"
        assert (empty, heading) == ("", "Proposed partition reassignment configuration")
        assert {tuple(p["replicas"]) for p in json.loads(current)["partitions"]} == {(101, 102)}
        assert proposed.stderr == (
            "This plan would change 2 partition(s): 2 replica(s) copied (size unknown), 2 removed,"
            " 2 preferred leader(s) moved.\n"
            "Replicas of these topics on each broker, now and afterwards:\n"
            "Broker  Replicas  Preferred\n"
            "101     3 -> 2    3 -> 1\n"
            "102     3 -> 2    0 -> 1\n"
            "103     0 -> 2    0 -> 1\n"
        )
        file = ("--reassignment-json-file", written(tmp_path / "plan.json", json.loads(plan)))
        dry = await run(node, "--execute", "--dry-run", *file)
        steps = "Every partition takes one step.\n"
        assert (dry.exit_code, dry.stdout) == (0, proposed.stderr + steps)
        assert (await run(node, "--list")).stdout == "No partition reassignments found.\n"
        assert (await run(node, "--execute", *file)).exit_code == 0


async def test_the_whole_cluster_is_rebalanced_by_a_file_that_execute_takes(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103, 104))) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=3))
        await asked(node.controller, topic("b", 101, 104, partitions=3))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(104,)))
        file = tmp_path / "plan.json"
        proposed = await run(node, "--generate", "--plan-file", str(file))
        assert (proposed.exit_code, proposed.stdout) == (0, ""), proposed.output
        assert proposed.stderr.splitlines() == [
            "Not alive: 104; the plan takes their replicas away.",
            f"The plan is in {file}. To carry it out: {command_line()} reassign-partitions"
            f" --execute --reassignment-json-file {file}",
            "This plan would change 5 partition(s): 5 replica(s) copied (size unknown), 5 removed,"
            " 4 preferred leader(s) moved.",
            "Replicas of these topics on each broker, now and afterwards:",
            "Broker  Replicas  Preferred",
            "101     6 -> 4    6 -> 2",
            "102     3 -> 4    0 -> 2",
            "103     0 -> 4    0 -> 2",
            "104     3 -> 0    0 -> 0",
        ]
        printed = await run(node, "--generate", "--plan-file", "-")
        assert printed.stdout == file.read_text(encoding="utf-8")
        done = await run(node, "--execute", "--reassignment-json-file", str(file))
        assert done.exit_code == 0, done.output
        assert len(node.controller.image.moves) == 1


async def test_racks_are_heeded_unless_that_is_disabled(tmp_path: Path) -> None:
    async with brokers(tmp_path, {101: "a", 102: "a", 103: "b", 104: None}) as node:
        await asked(node.controller, topic("t", 101, 102))
        wanted = ("--generate", *topics(tmp_path, "t"), "--broker-list")
        aware = await run(node, *wanted, "101,102,103")
        assert aware.exit_code == 0
        assert "Partitions with avoidable rack sharing: 1 now, 0 afterwards." in aware.stderr
        for options in (("101,102,103", "--disable-rack-aware"), ("101,102",)):
            refused = await run(node, *wanted, *options)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert refused.stderr.startswith("Error: no plan would be better")
        partly = await run(node, *wanted, "101,104")
        assert partly.exit_code == 1
        assert "Not all brokers have rack information. Add --disable-rack-aware" in partly.stderr


async def test_a_cordoned_broker_is_not_planned_for(tmp_path: Path) -> None:
    async with brokers(tmp_path, {101: None, 102: None, 103: None}) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=3))
        await asked(node.controller, commands.CordonBrokers(broker_ids=(103,), cordoned=True))
        wanted = (*topics(tmp_path, "a"), "--broker-list", "101,102,103")
        proposed = await run(node, "--generate", *wanted)
        assert proposed.exit_code == 0, proposed.output
        assert "0 replica(s) copied" in proposed.stderr
        assert "103     0 -> 0    0 -> 0" in proposed.stderr


async def test_a_topic_or_broker_that_prevents_a_plan_is_named(tmp_path: Path) -> None:
    async with brokers(tmp_path, {101: None, 102: None}) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("moving", 101))
        await asked(node.controller, move("moving", 102))
        for name, onto, words in (
            ("a", "101", "a-0 needs 2 brokers for its replicas, and can have 1"),
            ("a", "101,109", "Unknown broker id 109; the brokers are 101, 102"),
            ("none", "101", "Topic none not found."),
            ("moving", "101,102", "moving-0 is being reassigned; wait until that is done, or"),
        ):
            found = await run(node, "--generate", *topics(tmp_path, name), "--broker-list", onto)
            assert (found.exit_code, found.stdout) == (1, "")
            assert words in found.stderr
        plan = {"partitions": [{"topic": "a", "partition": 7, "replicas": [101]}]}
        dry = await run(
            node,
            "--execute",
            "--dry-run",
            "--reassignment-json-file",
            written(tmp_path / "plan.json", plan),
        )
        assert (dry.exit_code, dry.stdout) == (1, "")
        assert "Unable to find partition: a-7" in dry.stderr
