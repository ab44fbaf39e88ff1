"""`metaquorum moves` against a real controller."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import asdict, replace

from admin.capabilities.moves import (
    DescribedMove,
    Move,
    Moves,
    MovesChanged,
    PartitionResult,
    Pause,
)
from admin.cli.main import group
from admin.cli.moves import cancelled, listed, move_details, refused, rolled_back
from admin.plan_file import parse_plan
from controller.apis.reassignments import PARTITIONS_SHOWN_MAX
from statemachine import commands
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["moves", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    return await asyncio.to_thread(invoke, *arguments, "--bootstrap-controller", str(node.address))


async def moving(node: Node) -> None:
    """Move 1 takes a-0 from 102 to 103, where nothing is in sync yet."""
    await join(node.controller, 101, 102, 103)
    await asked(node.controller, topic("a", 101, 102))
    await asked(node.controller, topic("b", 101, 102))
    await asked(node.controller, move("a", 101, 103))


async def test_moves_are_listed_and_one_is_shown_with_its_partitions(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        none = await run(node, "list")
        assert (none.stdout, none.stderr) == ("", "No moves are listed.\n")
        await moving(node)
        titles, row = (await run(node, "list")).stdout.splitlines()
        assert titles.split()[:5] == ["Move", "Name", "Kind", "State", "Partitions"]
        assert row.split()[:6] == ["1", "-", "reassign", "running", "1", "0"]
        assert row.split()[6:10] == ["1", "0", "unknown", "0"]
        (data,) = json.loads((await run(node, "list", "-o", "json")).stdout)["moves"]
        assert (data["move_id"], data["state"], data["stepping"]) == (1, "running", 1)
        assert (data["bytes_left"], data["partitions_bytes_unknown"]) == (None, 1)
        head, state, counts, copies, _, row = (await run(node, "show", "1")).stdout.splitlines()
        assert head.startswith("Move 1: reassign, requested by ")
        assert head.endswith(", priority 0.")
        assert state.startswith("It is running since 20")
        assert counts == "Of 1 partition(s) 0 done, 1 in progress."
        assert copies == "Bytes left to copy: unknown."
        words = row.split()
        assert words[:5] == ["a-0", "1", "of", "1", "growing"]
        assert words[6:8] == ["101,102,103", "101,103"]
        assert words[8:] == [*["unknown"] * 3, "not", "in", "sync", "yet:", "103"]
        (partition,) = json.loads((await run(node, "show", "1", "-o", "json")).stdout)["partitions"]
        assert (partition["reason"], partition["reason_brokers"]) == ("catching-up", [103])
        assert 'reason: "catching-up"' in (await run(node, "show", "1", "-o", "yaml")).stdout


async def test_moves_are_held_up_and_go_on(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        partly = await run(node, "pause", "1", "7")
        assert (partly.exit_code, partly.stdout, partly.stderr) == (
            1,
            "Move 1 paused.\n",
            "Error: there is no move 7\n",
        )
        assert "It is paused by User:ANONYMOUS since" in (await run(node, "show", "1")).stdout
        assert (await run(node, "resume", "1")).stdout == "Move 1 resumed.\n"
        resumed = node.controller.image.moves[1]
        again = await run(node, "resume", "1")
        assert (again.exit_code, again.stdout) == (0, "Move 1 was not paused.\n")
        assert node.controller.image.moves[1] == resumed
        assert (await run(node, "priority", "1", "-5")).stdout == "Move 1 has priority -5.\n"
        assert (await run(node, "priority", "1", "5")).stdout == "Move 1 has priority 5.\n"
        assert (await run(node, "pause", "--all")).stdout == "All moves are paused.\n"
        first, _, row = (await run(node, "list")).stdout.splitlines()
        assert first.startswith("All moves are paused by User:ANONYMOUS since 20")
        assert (row.split()[3], row.split()[9]) == ("paused", "5")
        one = (await run(node, "show", "1")).stdout.splitlines()
        assert (one[0], one[1][:8]) == (first, "Move 1: ")
        still = "Move 1 was not paused by its id; the pause of all moves goes on.\n"
        assert (await run(node, "resume", "1")).stdout == still
        assert (await run(node, "resume", "--all")).stdout == "All moves are resumed.\n"
        later = await run(node, "pause", "1", "--after-step")
        assert later.stdout == "Move 1 paused after the steps in progress.\n"
        assert "steps in progress complete" in (await run(node, "show", "1")).stdout
        await run(node, "pause", "--all", "--after-step")
        (first, *_) = (await run(node, "list")).stdout.splitlines()
        assert first.endswith("; steps in progress complete.")


async def test_every_change_of_a_move_prints_its_answer_as_json(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)

        async def changed(*arguments: str) -> Any:
            done = await run(node, *arguments, "-o", "json")
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout)

        for words in (
            ("pause", "1"),
            ("resume", "1"),
            ("priority", "1", "5"),
            ("throttle", "1", "9"),
        ):
            (one,) = (await changed(*words))["moves"]
            assert (one["move_id"], one["kafka_error"]) == (1, "NONE")
        cancelled = await changed("cancel", "1", "--dry-run")
        assert cancelled["partitions_accepted"] == 1
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        assert (await changed("wait", "1"))["state"] == "completed"
        assert (await changed("rollback", "1"))["begun_move_id"] == 2


async def test_a_cancel_is_tried_and_done(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        tried = await run(node, "cancel", "--all", "--dry-run")
        assert (tried.exit_code, tried.stdout) == (
            0,
            "1 partition(s) would be cancelled, with these replicas:\n"
            "Partition  Replicas\n"
            "a-0        101,102\n",
        )
        partly = await run(node, "cancel", "1", "--topic", "b")
        assert (partly.exit_code, partly.stderr) == (
            1,
            "Error: no partition of topic b is being reassigned\n",
        )
        assert partly.stdout.splitlines()[0] == "1 partition(s) cancelled; replicas now:"
        none = await run(node, "list", "--running")
        assert (none.stdout, none.stderr) == ("", "No moves are running.\n")
        again = await run(node, "cancel", "1")
        assert (again.exit_code, again.stdout, again.stderr) == (
            1,
            "Nothing was cancelled.\n",
            "Error: move 1 has ended: cancelled\n",
        )


async def test_a_move_is_rolled_back_and_asked_again_it_is_said_by_which(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        done = await run(node, "rollback", "1")
        assert (done.exit_code, done.stdout) == (
            0,
            "Move 2 rolls back move 1: 1 partition(s).\n",
        )
        again = await run(node, "rollback", "1")
        assert again.stdout == "Move 2 is already rolling back move 1.\n"
        assert "Move 2: rollback of move 1, requested by" in (await run(node, "show", "2")).stdout
        missing = await run(node, "rollback", "7")
        assert (missing.exit_code, missing.stderr) == (
            1,
            "Error: move 7 cannot be rolled back: there is no move 7 (INVALID_REQUEST)\n",
        )


async def test_a_rollback_is_tried_by_one_command(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        tried = await run(node, "rollback", "1", "--dry-run")
        first, titles, row, *rest = tried.stdout.splitlines()
        assert (tried.exit_code, tried.stderr) == (0, "")
        assert first == "1 partition(s) would be rolled back, to these replicas:"
        assert (titles.split(), row.split()) == (["Partition", "Replicas"], ["a-0", "101,102"])
        assert rest[0].startswith("This plan would change 1 partition(s): 1 replica(s) copied (")
        assert rest[0].endswith(", 1 removed, 0 preferred leader(s) moved.")
        assert rest[1:] == [
            "Replicas of these topics on each broker, now and afterwards:",
            "Broker  Replicas  Preferred",
            "101     1 -> 1    1 -> 1",
            "102     0 -> 1    0 -> 0",
            "103     1 -> 0    0 -> 0",
        ]
        assert len(node.controller.image.moves) == 1
        missing = await run(node, "rollback", "7", "--dry-run")
        assert (missing.exit_code, missing.stderr) == (
            1,
            "Error: move 7 cannot be rolled back: there is no move 7 (INVALID_REQUEST)\n",
        )
        await run(node, "rollback", "1")
        again = await run(node, "rollback", "1", "--dry-run")
        assert again.stdout == "Move 2 is already rolling back move 1.\n"


async def test_a_dry_run_of_a_rollback_names_partitions_that_cannot_go_back(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        await asked(node.controller, commands.DeleteTopics(topics=("a",)))
        tried = await run(node, "rollback", "1", "--dry-run")
        assert (tried.exit_code, tried.stdout) == (1, "")
        assert tried.stderr.endswith(" any more\n"), tried.stderr


async def test_the_plan_that_leads_back_is_printed(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await moving(node)
        printed = await run(node, "rollback-plan", "1")
        assert printed.exit_code == 0
        (back,) = parse_plan(printed.stdout)
        assert (str(back.id), back.replicas) == ("a-0", (101, 102))
        await asked(node.controller, commands.DeleteTopics(topics=("a",)))
        gone = await run(node, "rollback-plan", "1")
        assert gone.stderr == "Omitted: 1 partition(s) of deleted topics.\n"
        missing = await run(node, "rollback-plan", "7")
        assert (missing.exit_code, missing.stderr.startswith("Error: the plan of move 7")) == (
            1,
            True,
        )


async def test_all_partitions_of_a_move_are_shown_where_that_is_wanted(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102, 103)
        count = PARTITIONS_SHOWN_MAX + 3
        await asked(node.controller, topic("a", 101, 102, partitions=count))
        wanted = commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="a", partition=number, replicas=(101, 103))
                for number in range(count)
            )
        )
        await asked(node.controller, wanted)
        assert (await run(node, "show", "1")).stdout.splitlines()[-1] == "and 3 more"
        whole = await run(node, "show", "1", "--all", "-o", "json")
        found = json.loads(whole.stdout)
        assert [each["partition"] for each in found["partitions"]] == list(range(count))
        assert found["partitions_not_shown"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pause",), "name moves by ID, or give --all"),
        (("pause", "1", "--all"), "--all includes every move; omit the names"),
        (("resume",), "name moves by ID, or give --all"),
        (
            ("cancel",),
            "name moves by ID, --topic NAME or --partition NAME-NUMBER, or give --all",
        ),
        (("cancel", "--topic", "a", "--all"), "--all includes every move; omit the names"),
        (("show", "x"), "Invalid value for 'ID': 'x' is not a whole number from 1 to 92"),
        (("rollback", "0"), "Invalid value for 'ID': '0' is not a whole number from 1 to 92"),
        (("priority", "1", "high"), "Invalid value for 'PRIORITY': 'high' is not a whole number"),
        (("priority", "1", "5", "--soon"), "Got unexpected extra argument (--soon)"),
        (("throttle", "1", "-5"), "Invalid value for 'BYTES_PER_S': '-5' is not a size"),
        (("list",), "give --bootstrap-server or --bootstrap-controller"),
    ],
)
def test_invalid_options_for_moves_are_usage_errors(arguments: tuple[str, ...], words: str) -> None:
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[-1]


LISTED = Move(
    move_id=3,
    kind="drain",
    name="rack 7",
    asked_by="",
    asked_at_ms=0,
    rollback_of=None,
    priority=0,
    throttle_bytes_per_s=None,
    throttle_lost=(),
    state="paused-by-itself",
    since_ms=1_000,
    changed_by=None,
    detail="a-0 has 1 replica in sync",
    ended=False,
    partitions_total=9,
    refused=1,
    waiting=2,
    stepping=1,
    completed=3,
    cancelled=1,
    superseded=1,
    gone=1,
)
MOVE = DescribedMove(
    as_of_offset=0, all_paused=None, partitions=(), partitions_not_shown=3, **asdict(LISTED)
)


def test_all_that_is_known_of_a_move_is_said() -> None:
    assert move_details(MOVE).splitlines() == [
        "Move 3 (rack 7): drain, requested by an unknown user at -, priority 0.",
        "It is paused-by-itself since 1970-01-01T00:00:01Z: a-0 has 1 replica in sync.",
        "Of 9 partition(s) 3 done, 1 in progress, 2 waiting, 1 cancelled,"
        " 1 superseded by another move, 1 deleted.",
        "1 more partition(s) were requested and refused.",
        "Bytes left to copy: unknown.",
        "and 3 more",
    ]
    found = Moves(
        moves=(LISTED,),
        all_paused=Pause(by="", since_ms=1_000, stops_copying=True),
        as_of_offset=0,
        total=1,
        next_page_token=None,
    )
    assert listed(found).splitlines()[0] == (
        "All moves are paused by an unknown user since 1970-01-01T00:00:01Z."
    )


def test_partitions_beyond_the_limit_of_an_answer_are_counted() -> None:
    done = PartitionResult(
        topic="a", partition=0, replicas=(1,), kafka_error="NONE", kafka_error_code=0, message=None
    )
    bad = PartitionResult(
        topic="b", partition=1, replicas=(), kafka_error="E", kafka_error_code=39, message="no"
    )
    found = MovesChanged(partitions=(bad, done), partitions_accepted=3, partitions_refused=2)
    assert cancelled(found, dry_run=False).splitlines()[-1] == "and 2 more"
    assert list(refused(found)) == ["Error: b-1: no", "and 1 more"]
    assert cancelled(MovesChanged(), dry_run=True) == "Nothing would be cancelled."
    assert rolled_back(1, MovesChanged(partitions_refused=1)) == ""
    assert rolled_back(1, MovesChanged()) == (
        "Move 1: nothing to roll back; the partitions have their previous replicas."
    )


def test_bytes_left_are_shown_as_far_as_they_are_known() -> None:
    known = replace(MOVE, bytes_left=3 << 30, bytes_per_s=10 << 20, time_left_ms=307_200)
    assert "Left to copy: 3.0 GiB, at 10.0 MiB/s; time left: 5 min 7 s." in move_details(known)
    partly = replace(
        known, bytes_left_is_partial=True, partitions_bytes_unknown=4, time_left_ms=None
    )
    words = "Left to copy: at least 3.0 GiB plus 4 partition(s) of unknown size, at 10.0 MiB/s; "
    words += "time left"
    assert f"{words}: unknown." in move_details(partly)
    for each, left in ((known, "3.0 GiB"), (partly, "at least 3.0 GiB")):
        table = listed(
            Moves(moves=(each,), all_paused=None, as_of_offset=0, total=1, next_page_token=None)
        )
        assert f"  {left}  " in table.splitlines()[1]
    behind = replace(known, partitions_falling_behind=2, time_left_ms=None)
    words = "time left: unknown. 2 partition(s) fall behind: writes exceed the copy rate."
    assert f"{words}\n" in f"{move_details(behind)}\n"
    help = "Raise the limit with `metaquorum moves throttle 3 BYTES_PER_S`; 0 removes it."
    assert f"{words} {help}" in move_details(replace(behind, throttle_bytes_per_s=5))
    assert "copied" not in move_details(replace(known, ended=True))
