"""`metaquorum topics elect-leaders` against a real controller."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from statemachine import commands
from tests.controller.controller_commands import asked, heartbeat, isr, join, topic
from tests.support.controllers import Node, a_controller

COMMAND = ("topics", "elect-leaders", "--election-type")
NOBODY = ("--bootstrap-controller", "127.0.0.1:1")


async def run(node: Node, *arguments: str, stdin: str = "") -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    words = [*COMMAND, *arguments, "--bootstrap-controller", str(node.address)]
    return await asyncio.to_thread(CliRunner().invoke, group, words, input=stdin)


def leader(node: Node, name: str) -> int:
    (found,) = (each for each in node.controller.image.topics.values() if each.name == name)
    partition = found.partition(0)
    assert partition is not None
    return partition.leader


async def test_leaders_are_elected_in_the_words_of_kafkas_script(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 102, 101))
        none = await run(node, "preferred", "--all-topic-partitions")
        assert (none.exit_code, none.stdout) == (0, "No partition needs an election.\n")

        await asked(node.controller, commands.FenceBrokers(broker_ids=(101,)))
        await asked(node.controller, heartbeat(node.controller, 101))
        await asked(node.controller, isr(node.controller, "a", (101, 102)))
        assert leader(node, "a") == 102
        file = {"partitions": [{"topic": name, "partition": 0} for name in ("nope", "b", "a")]}
        done = await run(
            node, "PREFERRED", "--path-to-json-file", "-", "-o", "json", stdin=json.dumps(file)
        )
        assert done.exit_code == 1
        found = json.loads(done.stdout)
        assert found["election_type"] == "preferred"
        assert [(each["topic"], each["kafka_error"]) for each in found["partitions"]] == [
            ("a", "NONE"),
            ("b", "ELECTION_NOT_NEEDED"),
            ("nope", "UNKNOWN_TOPIC_OR_PARTITION"),
        ]
        assert done.stderr == (
            "Error completing leader election (PREFERRED) for partition: nope-0: "
            "No such topic as nope\n"
        )
        assert leader(node, "a") == 101
        again = await run(node, "preferred", "--topic", "a", "--partition", "0")
        assert (again.exit_code, again.stdout) == (
            0,
            "Valid replica already elected for partitions a-0\n",
        )


async def test_an_unclean_election_is_asked_about(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, isr(node.controller, "a", (101,)))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(101,)))
        assert leader(node, "a") == -1
        asks = await run(node, "unclean", "--all-topic-partitions", stdin="n\n")
        assert (asks.exit_code, leader(node, "a")) == (1, -1)
        done = await run(node, "unclean", "--all-topic-partitions", "--yes")
        assert (done.exit_code, done.stdout) == (
            0,
            "Successfully completed leader election (UNCLEAN) for partitions a-0\n",
        )
        assert leader(node, "a") == 102


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give one of --topic with --partition, --all-topic-partitions and --path-to-json-f"),
        (("--all-topic-partitions", "--topic", "a"), "give one of --topic with --partition"),
        (("--topic", "a"), "--topic and --partition name one partition together"),
        (("--all-topic-partitions", "--partition", "0"), "--topic and --partition name one"),
        (("--path-to-json-file", "no-such-file"), "no-such-file cannot be read: No such file"),
    ],
)
def test_electing_wrongly(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(group, [*COMMAND, "preferred", *arguments, *NOBODY])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_all_missing_options_are_named_at_once() -> None:
    done = CliRunner().invoke(group, [*COMMAND[:-1], *NOBODY])
    assert done.exit_code == 2
    assert "give --election-type preferred or unclean, and one of --topic with " in done.stderr
    done = CliRunner().invoke(group, [*COMMAND[:-1], "--all-topic-partitions", *NOBODY])
    assert done.stderr.endswith("Error: give --election-type preferred or unclean\n")
