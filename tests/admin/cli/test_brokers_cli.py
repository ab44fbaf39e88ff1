"""`metaquorum brokers` against a real controller."""

import asyncio
import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from admin.capabilities.brokers import Safety
from admin.cli.brokers import judged
from admin.cli.main import group
from quorum.clocks import monotonic_ms
from statemachine import commands
from statemachine.brokers.safety import Harm, UnsafePartition
from statemachine.limits import BROKER_SESSION_TIMEOUT_MS
from statemachine.vocabulary import MoveKind
from tests.admin.cli.test_moves_command import run as run_moves
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.embedded_brokers import embedded
from tests.broker.embedded_cluster import until
from tests.controller.controller_commands import asked, isr, join, topic, topic_id
from tests.support.controllers import Node, a_controller


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["brokers", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    return await asyncio.to_thread(invoke, *arguments, "--bootstrap-controller", str(node.address))


async def test_brokers_are_listed_and_cordoned(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        done = await run(node, "cordon", "--brokers", "102")
        assert (done.exit_code, done.stdout) == (0, "Cordoned: 102.\n")
        shown = await run(node, "list")
        names, *values = (each.split() for each in shown.stdout.splitlines())
        assert " ".join(names) == (
            "Broker Address State Cordoned Rack Implementation Replicas InSync Leaders Then"
        )
        assert values == [
            ["101", "-", "alive", "no", "-", "kafka", "1", "1", "1", "-"],
            ["102", "-", "alive", "yes", "-", "kafka", "1", "1", "0", "-"],
        ]
        data = json.loads((await run(node, "list", "-o", "json")).stdout)
        assert [each["cordoned"] for each in data["brokers"]] == [False, True]
        partly = await run(node, "uncordon", "--brokers", "101,102,7")
        assert (partly.exit_code, partly.stdout, partly.stderr) == (
            1,
            "Uncordoned: 101,102.\n",
            "Error: Broker ID 7 is not currently registered\n",
        )


async def test_every_change_of_a_broker_prints_its_answer_as_json(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        for words in ("cordon", "uncordon", "unregister"):
            done = await run(node, words, "--brokers", "101,7", "-o", "json")
            assert done.exit_code == 1
            found = json.loads(done.stdout)["brokers"]
            assert [each["broker_id"] for each in found] == [101, 7]
        await run(node, "cordon", "--brokers", "101")
        back = await run(node, "recommission", "--brokers", "101", "-o", "json")
        data = json.loads(back.stdout)
        assert (data["uncordoned"], data["move_ids"], data["errors"]) == ([101], [], [])


async def test_a_list_of_brokers_has_their_addresses(tmp_path: Path) -> None:
    async with embedded(tmp_path, 101) as it:
        address = f"127.0.0.1:{it.brokers[101].port}"
        shown = (await run(it.node, "list")).stdout
        values = shown.splitlines()[1].split()
        assert values[:6] == ["101", address, "alive", "no", "-", "embedded"]
        data = json.loads((await run(it.node, "list", "-o", "json")).stdout)
        (endpoint,) = data["brokers"][0]["endpoints"]
        assert endpoint == {
            "name": "PLAINTEXT",
            "host": "127.0.0.1",
            "port": it.brokers[101].port,
        }


async def test_brokers_are_forgotten_that_are_not_in_use(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, 102, partitions=5))
        alive = await run(node, "unregister", "--brokers", "103")
        assert (alive.exit_code, alive.stdout, alive.stderr) == (
            1,
            "",
            "Error: broker 103 is alive, and would not know of it; unregister it once it has"
            " stopped\n",
        )
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102, 103)))
        partly = await run(node, "unregister", "--brokers", "102,103,7")
        assert (partly.exit_code, partly.stdout, partly.stderr) == (
            1,
            "Unregistered: 103.\n",
            "Error: broker 102 still has replicas of 5 partition(s): a-0, a-1, a-2 and 2 more;"
            " decommission it first\n"
            "Error: Broker ID 7 is not currently registered\n",
        )
        assert sorted(node.controller.image.brokers) == [101, 102]
        await asked(node.controller, commands.DeleteTopics(topics=("a",)))
        done = await run(node, "unregister", "--brokers", "102")
        assert (done.exit_code, done.stderr) == (0, "")


async def test_safe_to_stop_names_the_partitions_that_object(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101))
        safe = await run(node, "safe-to-stop", "--brokers", "102")
        assert safe.exit_code == 0
        assert re.fullmatch(
            r"Broker 102 may stop: of 1 partition\(s\) none would lose its leader or fall below"
            r" min ISR\. The brokers that stay were heard from within [0-9.]+ m?s\.\n",
            safe.stdout,
        )
        stale = await run(node, "safe-to-stop", "--brokers", "102", "--stale")
        assert stale.exit_code == 0
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
        assert "broker 7 cannot be checked: Broker ID 7" in unknown.stderr


async def test_a_broker_that_has_missed_heartbeats_does_not_make_it_safe_to_stop_another(
    tmp_path: Path,
) -> None:
    """Until its session ends nobody knows whether it is alive."""
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        heartbeats = node.controller.heartbeats
        assert heartbeats is not None
        heartbeats.touch(101, monotonic_ms() - BROKER_SESSION_TIMEOUT_MS // 2)
        unsafe = await run(node, "safe-to-stop", "--brokers", "102")
        assert (unsafe.exit_code, unsafe.stdout) == (
            1,
            "Broker 102 must not stop: 1 of 1 partition(s) would be hurt.\n"
            "Partition  Harm       InSync  MinISR\n"
            "a-0        no-leader  -       1\n"
            "Broker 101 has missed heartbeats and may be dead: it is not counted.\n",
        )
        itself = await run(node, "safe-to-stop", "--brokers", "101", "-o", "json")
        data = json.loads(itself.stdout)
        assert (data["safe"], data["silent"]) == (True, [])
        assert data["oldest_heartbeat_ms"] is not None


def test_partitions_that_are_not_named_are_counted() -> None:
    hurt = UnsafePartition(
        topic="a", partition=0, harm=Harm.UNDER_MIN_ISR, in_sync=(2, 3), min_isr=3
    )
    found = Safety(
        safe=False, as_of_offset=0, partitions_looked_at=9, partitions_hurt=4, hurt=(hurt,)
    )
    told = judged((1,), found)
    assert told.splitlines()[2:] == ["a-0        under-min-isr  2,3     3", "and 3 more"]


def test_brokers_are_named_by_their_ids() -> None:
    for words, wrong in (("'x' is not a broker id", "x"), ("duplicate entries: 1", "1,1")):
        done = invoke("cordon", "--brokers", wrong, "--bootstrap-controller", "h:1")
        assert done.exit_code == 2
        assert words in done.stderr
    assert "Missing option '--brokers'" in invoke("safe-to-stop").stderr


async def test_decommission_calls_report_the_remaining_replicas(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101))
        dry = await run(node, "decommission", "--brokers", "102", "--dry-run")
        assert (dry.exit_code, dry.stdout) == (
            0,
            "Broker 102: 1 partition(s) left, 0 already moving, 1 planned now.\n"
            "This plan would change 1 partition(s): 1 replica(s) copied (size unknown), 1 removed,"
            " 0 preferred leader(s) moved.\n"
            "Replicas of all partitions on each broker, now and afterwards:\n"
            "Broker  Replicas  Leaders\n"
            "101     2 -> 2    2 -> 2\n"
            "102     1 -> 0    0 -> 0\n"
            "103     0 -> 1    0 -> 0\n",
        )
        assert not node.controller.image.brokers[102].cordoned
        data = json.loads(
            (
                await run(node, *["decommission", "--brokers", "102", "--dry-run", "-o", "json"])
            ).stdout
        )
        assert (data["state"], data["partitions_planned"]) == ("none", 1)
        assert data["outcome"]["bytes_moved"] is None
        begun = await run(node, "decommission", "--brokers", "102")
        assert begun.exit_code == 3, begun.output
        assert "Cordoned: 102." in begun.stdout
        goes_on = (
            "Move 1 continues in the cluster: 1 more partition(s). Progress: `metaquorum moves"
        )
        assert f"{goes_on} show 1`." in begun.stdout
        kept = node.controller.image.moves[1].begun
        assert (kept.kind, kept.broker, kept.name) == (
            MoveKind.DRAIN,
            102,
            "decommission of broker 102",
        )
        told = await run(node, *["decommission", "--brokers", "102", "-o", "json"])
        assert told.exit_code == 3, told.output
        data = json.loads(told.stdout)
        assert (data["state"], data["partitions_leaving"], data["move_ids"]) == ("moving", 1, [1])
        again = await run(node, "decommission", "--brokers", "102", "--unregister")
        assert (again.exit_code, again.stdout) == (
            3,
            "Broker 102: 1 partition(s) left, 1 already moving, 0 planned now.\n"
            "Broker 102: will be unregistered once empty and stopped.\n",
        )
        listed = await run(node, "list")
        assert listed.stdout.splitlines()[2].endswith("  unregistered once empty and stopped")
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        alive = await run(node, "decommission", "--brokers", "102", "--unregister")
        assert (alive.exit_code, alive.stdout, alive.stderr) == (
            3,
            "Broker 102: no replicas left.\n",
            "Broker 102 not unregistered: stop them first, and it is done then\n",
        )
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        done = await run(node, "decommission", "--brokers", "102", "--unregister")
        assert (done.exit_code, done.stdout) == (
            0,
            "Broker 102: no replicas left.\nBroker 102: not registered.\n",
        )
        assert 102 not in node.controller.image.brokers
        # Whoever asks again, or has asked until it was done, is told the same.
        again = await run(node, "decommission", "--brokers", "102", "--unregister")
        assert (again.exit_code, again.stdout) == (0, done.stdout)


async def test_a_broker_of_which_nobody_knows_is_not_emptied_and_none_that_is_named_with_it(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        for options in ((), ("--dry-run",), ("--unregister",), ("--wait",)):
            one = await run(node, "decommission", "--brokers", "7", *options)
            assert (one.exit_code, one.stdout, one.stderr) == (
                1,
                "",
                "Error: broker 7 cannot be decommissioned: Broker ID 7 is not currently registered"
                " (BROKER_ID_NOT_REGISTERED)\n",
            )
        some = await run(node, "decommission", "--brokers", "8,102,7")
        assert (some.exit_code, some.stdout) == (1, "")
        assert "Broker IDs 7, 8 are not currently registered" in some.stderr
        assert not node.controller.image.brokers[102].cordoned
        assert not node.controller.image.moves


async def test_brokers_that_were_drained_together_and_unregistered_are_known_by_their_plan(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103, 104))) as node:
        await asked(node.controller, topic("a", 101, 102))
        both = ("decommission", "--brokers", "102,103", "--unregister")
        assert (await run(node, *both)).exit_code == 3
        await asked(node.controller, isr(node.controller, "a", (101, 102, 104)))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102, 103)))
        assert (await run(node, *both)).exit_code == 0
        # It had nothing, so that no plan has its name.
        again = await run(node, *both)
        assert again.exit_code == 1
        assert "Broker ID 103 is not currently registered" in again.stderr


async def test_a_recommission_is_tried_and_says_which_brokers_it_was_about(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        assert (await run(node, "decommission", "--brokers", "102")).exit_code == 3
        back = ("recommission", "--brokers", "102")
        tried = await run(node, *back, "--dry-run")
        assert (tried.exit_code, tried.stdout, tried.stderr) == (
            0,
            "Broker 102 would be uncordoned.\n"
            "1 partition(s) would be cancelled, with these replicas:\na-0: 101,102\n",
            "",
        )
        assert node.controller.image.brokers[102].cordoned
        cancelled = "Successfully cancelled partition reassignment for: a-0\n"
        had_been = "This key was used before: nothing was done a second time.\n"
        back_again = "To restore replicas that had already moved: `metaquorum moves rollback 1`.\n"
        for said, then in (("", back_again), (had_been, "")):
            done = await run(node, *back, "--key", "monday")
            assert (done.exit_code, done.stdout) == (
                0,
                f"Uncordoned: 102.\n{cancelled}",
            )
            assert done.stderr == f"{said}Replicas now:\na-0: 101,102\n{then}"
        nothing = await run(node, *back, "--dry-run")
        assert nothing.stdout.endswith("would be uncordoned.\nNothing would be cancelled.\n")


async def test_replicas_moved_before_a_recommission_return_by_the_command_that_it_names(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 102, 101))
        assert (await run(node, "decommission", "--brokers", "102")).exit_code == 3
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        back = await run(node, "recommission", "--brokers", "102")
        assert back.exit_code == 0, back.output
        told = back.stderr.splitlines()
        assert told[:2] == ["Replicas now:", "b-0: 102,101"]
        command = told[2].partition("`metaquorum moves ")[2].rstrip("`.").split()
        assert (await run_moves(node, *command)).exit_code == 0
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        assert [replicas(node, name) for name in ("a", "b")] == [(101, 102), (102, 101)]


def replicas(node: Node, name: str) -> tuple[int, ...]:
    partition = node.controller.image.topics[topic_id(name)].partition(0)
    assert partition is not None
    return partition.replicas


async def test_a_dead_broker_is_emptied_too_and_a_decommission_can_be_undone(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 102, 101))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        await asked(node.controller, commands.UnregisterBroker(broker_id=102))
        begun = await run(node, "decommission", "--brokers", "102")
        assert begun.exit_code == 3, begun.output
        assert "Move 1 continues in the cluster: 1 more partition(s)." in begun.stdout
        undone = await run(node, "recommission", "--brokers", "102")
        assert undone.exit_code == 1
        assert undone.stdout == "Successfully cancelled partition reassignment for: a-0\n"
        assert undone.stderr == (
            "Replicas now:\na-0: 102,101\n"
            "To restore replicas that had already moved: `metaquorum moves rollback 1`.\n"
            "Error: Broker ID 102 is not currently registered\n"
        )
        assert replicas(node, "a") == (102, 101)


async def test_a_broker_that_nobody_can_take_the_place_of_is_not_emptied(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102))) as node:
        await asked(node.controller, topic("a", 101, 102))
        refused = await run(node, "decommission", "--brokers", "102")
        assert refused.exit_code == 1
        assert "Error: a-0 has replicas 101, 102: 1 must go from 102, and 0" in refused.stderr
        assert refused.stdout == ""
        assert not node.controller.image.brokers[102].cordoned
        wished = await run(node, "decommission", "--brokers", "102", "--unregister")
        assert wished.exit_code == 1
        assert not node.controller.image.brokers[102].leaving


async def test_a_refused_decommission_names_the_cordoned_brokers(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        await run(node, "cordon", "--brokers", "103")
        refused = await run(node, "decommission", "--brokers", "102")
        assert (refused.exit_code, refused.stderr) == (
            1,
            "Error: a-0 has replicas 101, 102: 1 must go from 102, and 0 other brokers could take"
            " one; add or uncordon brokers, or give it fewer replicas first. Broker(s) 103 get no"
            " new replicas: they are cordoned, or all their log directories are\n",
        )


def test_a_decommission_that_cannot_be_meant_is_refused() -> None:
    whom = ("--bootstrap-controller", "h:1")
    done = invoke("decommission", "--brokers", "1", "--dry-run", "--unregister", *whom)
    assert done.exit_code == 2
    assert "--dry-run changes nothing; omit --unregister" in done.stderr
    done = invoke("decommission", "--brokers", "1", "--dry-run", "--wait", *whom)
    assert done.exit_code == 2
    assert "--dry-run changes nothing; omit --wait" in done.stderr


async def test_a_decommission_can_be_waited_for(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101, 102))
        async with asyncio.TaskGroup() as group:
            command = run(node, "decommission", "--brokers", "102", "--wait")
            waiting = group.create_task(command)
            await until(lambda: bool(node.controller.image.moves))
            await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        done = waiting.result()
        assert done.exit_code == 0, done.output
        assert done.stdout.endswith("Broker 102: no replicas left.\n")


async def test_a_replication_factor_is_tried_and_changed_by_a_move(tmp_path: Path) -> None:
    def alter(*arguments: str) -> Result:
        whom = ("--bootstrap-controller", str(node.address))
        return CliRunner().invoke(group, ["topics", "alter", "a", *arguments, *whom])

    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101))
        tried = await asyncio.to_thread(alter, "--replication-factor", "3", "--dry-run")
        assert (tried.exit_code, tried.stdout) == (
            0,
            "This plan would change 1 partition(s): 2 replica(s) copied (size unknown), 0 removed,"
            " 0 preferred leader(s) moved.\n"
            "Replicas of these topics on each broker, now and afterwards:\n"
            "Broker  Replicas  Preferred\n"
            "101     1 -> 1    1 -> 1\n"
            "102     0 -> 1    0 -> 0\n"
            "103     0 -> 1    0 -> 0\n",
        )
        assert not node.controller.image.moves
        only = await asyncio.to_thread(alter, "--replication-factor", "2", "--brokers", "103")
        assert only.exit_code == 0, only.output
        assert only.stdout.startswith("Move 1 continues in the cluster: 1 more partition(s).")
        partition = node.controller.image.topics[topic_id("a")].partition(0)
        assert partition is not None
        assert partition.target == (101, 103)
        again = await asyncio.to_thread(alter, "--replication-factor", "3")
        assert (again.exit_code, again.stderr) == (
            1,
            "Error: a-0 is being reassigned; wait until that is done, or cancel it\n",
        )
        far = await asyncio.to_thread(alter, "--replication-factor", "2", "--brokers", "7")
        assert far.exit_code == 1
        assert "broker 7 is not registered; the brokers are 101, 102, 103" in far.stderr
