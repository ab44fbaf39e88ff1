"""`metadata-quorum alter`, `add-controller`, `remove-controller` against real controllers."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from quorum.core.vocabulary import uuid_to_text
from tests.support.controllers import Node, active, controllers

NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "50ms")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["metadata-quorum", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command for this node, run in a thread beside the loop of the node."""
    whom = ("--bootstrap-controller", str(node.address))
    return await asyncio.to_thread(invoke, *arguments, *whom)


async def test_one_command_changes_the_voters_and_waits_for_the_end(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4, 5), kraft_version=1) as nodes:
        await active(nodes.values())
        result = await run(nodes[4], "alter", "--voters", "3,4,5")
        assert result.exit_code == 0, result.output
        assert result.stdout == "CurrentVoters: [3, 4, 5]\n"
        seeds = await run(nodes[4], "--alter", "--voters", "3,4")
        assert (seeds.exit_code, seeds.stdout) == (0, "CurrentVoters: [3, 4]\n")


async def test_a_target_that_is_not_reached_in_time_goes_on_and_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        result = await run(nodes[1], "alter", "--voters", "1,7", "--timeout", "1s")
        assert result.exit_code == 3
        assert result.stdout == "CurrentVoters: [1]\nTargetVoters: [1, 7]\n"
        waits = "voters [1], target [1, 7]; waiting for 7: they do not fetch from the leader"
        assert waits in result.stderr
        plain = await run(nodes[1], "alter", "--voters", "1,7", "--timeout", "1s", "-o", "json")
        assert (plain.exit_code, json.loads(plain.stdout)["target_voters"]) == (3, [1, 7])
        status = await run(nodes[1], "describe", "--status")
        assert status.stdout.splitlines()[-2:] == [
            "TargetVoters:           [1, 7]",
            "WaitsFor:               7: they do not fetch from the leader",
        ]
        cancelled = await run(nodes[1], "alter", "--cancel")
        assert (cancelled.exit_code, cancelled.stdout) == (0, "CurrentVoters: [1]\n")


async def test_controllers_are_added_and_removed_in_the_words_of_kafkas_tool(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4,), kraft_version=1) as nodes:
        await active(nodes.values())
        four = uuid_to_text(nodes[4].opened.directory_id)
        one = uuid_to_text(nodes[1].opened.directory_id)
        listener = str(nodes[4].address)
        added = await run(
            nodes[2],
            "add-controller",
            "--controller-id",
            "4",
            "--controller-directory-id",
            four,
            "--listener",
            listener,
        )
        assert added.output == (
            f"Added controller 4 with directory id {four} and endpoints: CONTROLLER://{listener}\n"
        )
        removed = await run(nodes[2], "remove-controller", "--controller-id", "1")
        assert removed.output == f"Removed  KRaft controller 1 with directory id {one}\n"
        stranger = await run(nodes[2], "remove-controller", "--controller-id", "9")
        assert stranger.exit_code == 1
        assert "controller 9: it is not a voter" in stranger.output
        again = ("add-controller", "--controller-id", "2", "--listener", listener)
        assert "it is not an observer but a voter" in (await run(nodes[2], *again)).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("alter",), "give --voters 4,5,6, or --cancel"),
        (("alter", "--voters", "1", "--cancel"), "give --voters 4,5,6, or --cancel"),
        (("alter", "--voters", "1,x"), "'x' is not an id"),
        (("alter", "--voters", "1,1"), "1 is given twice"),
        (("alter", "--voters", "1:zz"), "'zz' has 2 characters"),
        (("--voters", "1"), "--voters goes with --alter"),
        (("--alter", "--describe", "--voters", "1"), "not both"),
        (("add-controller", "--controller-id", "4"), "--listener"),
    ],
)
def test_invalid_options_for_voters_are_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(*arguments, *NOBODY)
    assert result.exit_code == 2
    assert said in result.output
