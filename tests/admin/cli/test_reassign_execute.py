"""`reassign-partitions --execute` and its options, against a real controller."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from admin.cli import move_progress
from admin.client.admin_client import AdminClient, Incompatible
from quorum.protocol.apis import ApiKey
from statemachine import commands
from statemachine.reassignment.settings import PARALLEL_REPLICAS
from tests.admin.cli.test_moves_command import run as run_moves
from tests.admin.cli.test_reassign_partitions import brokers, invoke, run, written
from tests.admin.scripted_node import Asked, Script, ScriptedNode, in_turn, listening
from tests.admin.test_admin_client import altered, cluster, metadata
from tests.controller.controller_commands import asked, isr, move, topic, topic_id
from tests.statemachine.support.config_requests import ALL_BROKERS, SET, change
from tests.support.controllers import Node

FOUR: dict[int, str | None] = dict.fromkeys((101, 102, 103, 104))


def plan(folder: Path, *moves: tuple[str, int, list[int]]) -> tuple[str, str]:
    """The option that names a file with this plan."""
    found = [{"topic": name, "partition": n, "replicas": replicas} for name, n, replicas in moves]
    path = folder / f"plan-{len(list(folder.glob('plan-*')))}.json"
    return "--reassignment-json-file", written(path, {"version": 1, "partitions": found})


async def moved(node: Node) -> None:
    """All of what is being added to a-0 is in sync."""
    partition = node.controller.image.topics[next(iter(node.controller.image.topics))].partition(0)
    assert partition is not None
    await asked(node.controller, isr(node.controller, "a", partition.replicas))


async def test_execute_begins_a_move_with_an_id_and_a_name(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        file = plan(tmp_path, ("a", 0, [101, 103]))
        done = await run(node, "--execute", *file, "--name", "rack 7", "--priority", "-2")
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-2:] == [
            "Successfully started partition reassignment for a-0",
            "Move id: 1",
        ]
        begun = node.controller.image.moves[1].begun
        assert (begun.name, begun.priority) == ("rack 7", -2)


async def test_a_plan_without_changes_begins_no_move_and_says_so(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        done = await run(node, "--execute", *plan(tmp_path, ("a", 0, [101, 102])))
        assert (done.exit_code, done.stderr.splitlines()) == (
            0,
            [
                "No move was begun: the partitions have the replicas of the plan, or are moving"
                " there."
            ],
        )
        assert "Successfully started" not in done.stdout
        assert node.controller.image.moves == {}


async def test_with_the_same_key_it_is_executed_once(tmp_path: Path) -> None:
    """As after a time-out: what is under way then is what was asked for."""
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        file = plan(tmp_path, ("a", 0, [101, 103]))
        first = await run(node, "--execute", *file, "--key", "monday")
        assert (first.exit_code, first.stderr) == (0, "")
        again = await run(node, "--execute", *file, "--key", "monday")
        assert (again.exit_code, again.stderr) == (
            0,
            "This key was used before: nothing was done a second time.\n"
            "The assignment printed above is the present one; for the one before the move: "
            "metaquorum moves rollback-plan 1\n",
        )
        assert again.stdout.splitlines()[-2:] == first.stdout.splitlines()[-2:]
        other = plan(tmp_path, ("a", 1, [101, 104]), ("a", 0, [101, 103]))
        clash = await run(node, "--execute", *other, "--key", "monday", "--additional")
        assert clash.exit_code == 1
        assert "the key monday belongs to another request" in clash.stderr
        assert clash.stderr.count("DUPLICATE_RESOURCE") == 1
        for options in ((), ("--key", "tuesday")):
            refused = await run(node, "--execute", *plan(tmp_path, ("a", 1, [101])), *options)
            assert refused.exit_code == 1
            assert refused.stderr.startswith("Cannot execute because there is an existing")
        assert sorted(node.controller.image.moves) == [1]


async def test_every_error_of_a_plan_is_named_and_nothing_is_done(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=3))
        moves = [("a", 0, [101, 109]), ("a", 1, [101, 103]), ("a", 7, [101]), ("b", 0, [101])]
        for options in ((), ("--dry-run",)):
            refused = await run(node, "--execute", *plan(tmp_path, *moves), *options)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert refused.stderr.splitlines() == [
                "Error: Unknown broker id 109; the brokers are 101, 102, 103, 104;"
                " it is wanted for a-0",
                "Unable to find partition: a-7",
                "Topic b not found. The plan names b-0",
            ]
        assert node.controller.image.moves == {}


async def test_a_broker_that_is_dead_may_be_named_and_is_waited_for(tmp_path: Path) -> None:
    awaited = "Not alive: 104; new replicas wait for them to come back.\n"
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102, 104)))
        file = plan(tmp_path, ("a", 0, [101, 104]), ("a", 1, [102, 101]))
        for options in (("--dry-run",), ()):
            done = await run(node, "--execute", *file, *options)
            # Of 102 nothing is awaited: it has what it is to have.
            assert (done.exit_code, done.stderr) == (0, awaited), done.output
        found = node.controller.image.topics[topic_id("a")].partition(0)
        assert found is not None
        assert found.adding == (104,)
        topics = written(tmp_path / "topics.json", {"topics": [{"topic": "a"}]})
        onto = ("--topics-to-move-json-file", topics, "--broker-list", "101,104")
        spread = await run(node, "--generate", *onto)
        assert (spread.exit_code, spread.stdout) == (1, "")
        assert spread.stderr == "Error: broker 104 is not alive and cannot copy; leave it out\n"


async def test_partitions_that_the_controller_refuses_are_listed_beside_the_others(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        await asked(node.controller, commands.CordonBrokers(broker_ids=(104,), cordoned=True))
        moves = plan(tmp_path, ("a", 0, [101, 103]), ("a", 1, [101, 104]))
        for options, said in (
            (("--dry-run",), "Every partition takes one step."),
            ((), "Move id: 1"),
        ):
            partly = await run(node, "--execute", *moves, *options)
            assert (partly.exit_code, partly.stdout.splitlines()[-1]) == (1, said)
            title, reason = partly.stderr.splitlines()
            assert title == "Error reassigning partition(s):"
            assert reason.startswith("a-1: ")
            assert "104" in reason


async def test_the_steps_are_listed_before_they_are_taken(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        limit = change(ALL_BROKERS, (PARALLEL_REPLICAS, SET, "1"))
        await asked(node.controller, commands.IncrementalAlterConfigs(changes=(limit,)))
        file = plan(tmp_path, ("a", 0, [103, 104]), ("a", 1, [102, 101]))
        tried = await run(node, "--execute", "--dry-run", *file)
        assert tried.exit_code == 0, tried.output
        assert tried.stdout.splitlines()[-3:] == [
            "Steps, with the replicas after each step:",
            "a-0: 103,101,102 -> 103,102 -> 103,104",
            "and 1 more, in one step each",
        ]
        assert node.controller.image.moves == {}


async def begun(node: Node, *arguments: str) -> "asyncio.Task[Result]":
    """The command, once it has begun move 1."""
    running = asyncio.get_running_loop().create_task(run(node, *arguments))
    while 1 not in node.controller.image.moves:
        await node.opened.quorum.leader_changed(within_seconds=0.01)
    return running


async def test_a_command_that_waits_tells_how_its_move_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_progress, "POLL_SECONDS", 0.01)
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        file = plan(tmp_path, ("a", 0, [101, 103]))
        running = await begun(node, "--execute", *file, "--wait")
        await moved(node)
        done = await running
        assert (done.exit_code, done.stdout.splitlines()[-2:]) == (
            0,
            ["Move id: 1", "Move 1 is completed: of 1 partition(s) 1 done."],
        )
        again = await run_moves(node, "wait", "1")
        assert (again.exit_code, again.stdout.splitlines()) == (0, done.stdout.splitlines()[-1:])
        nothing = await run(node, "--execute", *file, "--wait")
        assert (nothing.exit_code, nothing.stderr[:22]) == (0, "No move was begun: the")


async def test_a_wait_names_the_reason_of_a_stalled_move_and_fails_if_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_progress, "POLL_SECONDS", 0.01)
    looks = asyncio.Event()
    loop = asyncio.get_running_loop()
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        if "is stuck" in words:
            loop.call_soon_threadsafe(looks.set)

    monkeypatch.setattr(move_progress, "say", say)
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, move("a", 101, 103))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(103,)))
        running = loop.create_task(run_moves(node, "wait", "1"))
        await looks.wait()
        await asked(node.controller, commands.CancelMoves(everything=True))
        ended = await running
        assert (ended.exit_code, ended.stdout) == (
            1,
            "Move 1 is cancelled: of 1 partition(s) 0 done, 1 cancelled.\n",
        )
        assert said[0] == "Move 1 is stuck: a-0: not alive: 103."
        assert said[1] == (
            "Move 1: of 1 partition(s) 0 done, 1 in progress. Bytes left to copy: unknown."
        )


async def test_a_wait_on_a_controller_without_moves_says_so_after_the_begin(tmp_path: Path) -> None:
    """As of a controller of Kafka's; what it has begun is not called finished."""
    node = ScriptedNode(
        {
            ApiKey.LIST_PARTITION_REASSIGNMENTS: in_turn(listed(), listed("orders")),
            ApiKey.DESCRIBE_CLUSTER: cluster(1),
            ApiKey.METADATA: metadata,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: altered(0),
        }
    )
    file = plan(tmp_path, ("orders", 0, [102]))
    async with listening(node) as (address,):
        whom = ("--bootstrap-controller", str(address))
        done = await asyncio.to_thread(invoke, "--execute", *file, "--wait", *whom)
    assert done.exit_code == 3, done.output
    assert done.stdout.splitlines()[-1].startswith("Successfully started partition reassignment")
    assert done.stderr == (
        "the active controller has begun no move: ask a controller or an embedded broker about"
        " moves, or use --verify\n"
    )


async def test_a_throttle_through_a_broker_of_kafkas_is_no_reason_to_complain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a broker passes the request on with all its tags, and knows no command about moves."""
    unknown = "1.2.3.4:9092 does not know this command: ask a controller of metaquorum"

    async def ask(*_: object) -> None:
        raise Incompatible(unknown)

    monkeypatch.setattr(AdminClient, "ask", ask)
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102, partitions=2))
        throttled = ("--execute", "--throttle", "1KiB")
        done = await run(node, *throttled, *plan(tmp_path, ("a", 0, [101, 103])))
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        assert done.stdout.splitlines()[-1] == "Move id: 1"
        assert node.controller.image.moves[1].begun.throttle_bytes_per_s == 1024
        other = plan(tmp_path, ("a", 1, [101, 103]))
        waits = await run(node, *throttled, "--additional", "--wait", *other)
    assert waits.exit_code == 3, waits.output
    assert waits.stderr == f"{unknown}, or use --verify\n"


def listed(*names: str) -> Script:
    """Partition 0 of these topics is under way."""

    def script(asked: Asked) -> Any:
        topics = tuple(
            asked.part(
                "OngoingTopicReassignment",
                name=name,
                partitions=(asked.part("OngoingPartitionReassignment", partition_index=0),),
            )
            for name in names
        )
        return asked.respond(0, error_message=None, topics=topics)

    return script


async def test_cancel_all_cancels_every_reassignment_in_progress(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, move("a", 101, 103))
        cancelled = await run(node, "--cancel-all")
        assert (cancelled.exit_code, cancelled.stdout, cancelled.stderr) == (
            0,
            "Successfully cancelled partition reassignment for: a-0\n",
            "Replicas now:\na-0: 101,102\n",
        )
        nothing = await run(node, "--cancel-all")
        assert nothing.stdout == "None of the specified partition reassignments are active.\n"


async def test_a_cancelled_plan_names_topics_that_do_not_exist(tmp_path: Path) -> None:
    """The rest is cancelled all the same: a topic may have been deleted since."""
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        file = plan(tmp_path, ("a", 0, [101, 103]), ("a", 7, [101]), ("gone", 0, [101]))
        for said in ("Successfully cancelled partition reassignment for: a-0\n", "None of the"):
            if said.startswith("Success"):
                await asked(node.controller, move("a", 101, 103))
            done = await run(node, "--cancel", *file)
            assert (done.exit_code, done.stdout.startswith(said)) == (1, True), done.output
            assert done.stderr.endswith("Error: Unable to find partition: a-7, gone-0\n")


async def test_one_partition_is_cancelled_by_its_name(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a-b", 101, 102, partitions=2))
        for number in (0, 1):
            await asked(node.controller, move("a-b", 101, 103, partition=number))
        partly = await run_moves(node, "cancel", "--partition", "a-b-1", "--partition", "x-7")
        assert (partly.exit_code, partly.stderr) == (1, "Error: x-7: there is no topic x\n")
        assert partly.stdout.splitlines()[-1].split() == ["a-b-1", "101,102"]
        listed = json.loads((await run(node, "--list", "-o", "json")).stdout)["partitions"]
        assert [(each["partition"], each["move_id"]) for each in listed] == [(0, 1)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cancel-all", "--key", "k"), 'Option "--key" can\'t be used with action'),
        (("--list", "--wait"), 'Option "--wait" can\'t be used with action "--list"'),
        (("--list", "--priority", "3"), 'Option "--priority" can\'t be used with action "--list"'),
        (("--list", "--cancel-all"), "must include exactly one action"),
        (("--cancel-all", "-o", "json"), "--cancel-all has the output of Kafka's script"),
        (
            ("--execute", "PLAN", "--priority", "x"),
            "'x' is not a whole number from -2147483648 to ",
        ),
        (("--execute", "PLAN", "--dry-run", "--wait"), "--dry-run changes nothing; omit --wait"),
        (("--execute", "PLAN", "--key", "x" * 256), "a key has 1 to 255 characters, not 256"),
        (("--execute", "PLAN", "--key", ""), "Invalid value for '--key': it is empty"),
        (("--execute", "PLAN", "--name", "x" * 256), "the name of a move has at most 255"),
    ],
)
def test_invalid_options_of_execute_are_usage_errors(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    file = plan(tmp_path, ("a", 0, [101]))
    options: list[Any] = []
    for each in arguments:
        options += file if each == "PLAN" else (each,)
    done = invoke(*options, "--bootstrap-controller", "127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[-1]
