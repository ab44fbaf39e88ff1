"""`metaquorum brokers` against a real controller."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner, Result

from admin.care import HurtPartition, SafetyReport
from admin.cli.brokers_text import judged, listed
from admin.cli.main import group
from admin.model import PartitionId
from tests.admin.controller.asking import asked, join, topic
from tests.support.controllers import Node, a_controller


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["brokers", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """What the command prints, beside the loop that the controller runs in."""
    return await asyncio.to_thread(invoke, *arguments, "--bootstrap-controller", str(node.address))


async def test_brokers_are_listed_and_cordoned(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        done = await run(node, "cordon", "--brokers", "102")
        assert (done.exit_code, done.stdout) == (0, "Broker 102 gets no new replicas.\n")
        shown = await run(node, "list")
        assert shown.stdout == (
            "Broker  State  Cordoned  Rack  Replicas  InSync  Leaders\n"
            "101     alive  no        -     1         1       1\n"
            "102     alive  yes       -     1         1       0\n"
        )
        data = json.loads((await run(node, "list", "-o", "json")).stdout)
        assert [each["cordoned"] for each in data["brokers"]] == [False, True]
        partly = await run(node, "uncordon", "--brokers", "101,102,7")
        assert (partly.exit_code, partly.stdout, partly.stderr) == (
            1,
            "Brokers 101, 102 get new replicas again.\n",
            "Error: Broker ID 7 is not currently registered\n",
        )


async def test_whether_brokers_may_stop_is_said_with_who_says_no(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101))
        safe = await run(node, "safe-to-stop", "--brokers", "102")
        assert (safe.exit_code, safe.stdout) == (
            0,
            "Broker 102 may stop: 1 partition(s) would not be hurt.\n",
        )
        unsafe = await run(node, "safe-to-stop", "--brokers", "101,102")
        assert (unsafe.exit_code, unsafe.stdout) == (
            1,
            "Brokers 101, 102 must not stop: 2 of 2 partition(s) would be hurt.\n"
            "Partition  Harm       InSync  MinISR\n"
            "a-0        no-leader  -       1\n"
            "b-0        no-leader  -       1\n",
        )
        data = json.loads(
            (await run(node, "safe-to-stop", "--brokers", "101", "-o", "json")).stdout
        )
        assert (data["safe"], data["partitions_hurt"], data["hurt"][0]["topic"]) == (False, 1, "b")
        unknown = await run(node, "safe-to-stop", "--brokers", "7")
        assert (unknown.exit_code, unknown.stdout) == (1, "")
        assert "whether 7 may stop cannot be said: Broker ID 7 is not" in unknown.stderr


def test_partitions_that_are_not_named_are_counted() -> None:
    hurt = HurtPartition(id=PartitionId("a", 0), harm="under-min-isr", left=(2, 3), min_isr=3)
    told = judged((1,), SafetyReport(hurt=[hurt], hurt_count=4, looked_at=9, as_of=None))
    assert told.splitlines()[2:] == ["a-0        under-min-isr  2,3     3", "and 3 more"]


def test_a_cluster_without_brokers_says_so() -> None:
    assert listed(()) == "No brokers are registered."


def test_brokers_are_named_by_their_ids() -> None:
    for words, wrong in (("'x' is no id of a broker", "x"), ("duplicate entries: 1", "1,1")):
        done = invoke("cordon", "--brokers", wrong, "--bootstrap-controller", "h:1")
        assert done.exit_code == 2
        assert words in done.stderr
    assert "Missing option '--brokers'" in invoke("safe-to-stop").stderr
