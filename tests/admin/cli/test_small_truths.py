"""Answers that misled a newcomer: an interrupted wait, a question without a terminal, a broker."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from admin.cli import move_progress
from admin.cli.main import group
from admin.cli.options import command_line
from admin.client.admin_client import AdminClient
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.cli.test_moves_command import run as run_moves
from tests.admin.cli.test_reassign_execute import FOUR
from tests.admin.cli.test_reassign_partitions import brokers
from tests.controller.controller_commands import asked, move, topic
from tests.support.controllers import a_controller

NOBODY = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "50ms")


def test_a_question_that_nobody_can_answer_names_the_option() -> None:
    done = CliRunner().invoke(group, ["topics", "delete", "a", *NOBODY])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: nobody answers here: give --yes\n"
    done = CliRunner().invoke(group, ["topics", "delete", "a", *NOBODY], input="n\n")
    assert (done.exit_code, done.stderr[-27:]) == (1, "Error: nothing was changed\n")


async def test_an_unknown_topic_leaves_stdout_empty(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        arguments = ("topics", "describe", "nope", "--bootstrap-controller", str(node.address))
        done = await asyncio.to_thread(CliRunner().invoke, group, arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no topic nope\n"


async def test_an_empty_list_is_said_on_stderr(tmp_path: Path) -> None:
    sentences = {
        ("topics", "list"): "There are no topics.",
        ("topics", "describe"): "There are no topics.",
        ("topics", "list", "--unavailable"): "No topics have such partitions.",
        ("topics", "describe", "--under-min-isr"): "No topics have such partitions.",
        ("users", "list"): "There are no users.",
        ("acls", "list"): "There are no ACLs.",
        ("acls", "list", "--topic", "t"): "No ACLs match.",
        ("quotas", "describe"): "There are no quotas.",
        ("quotas", "describe", "--user", "ann"): "No quotas match.",
        ("brokers", "list"): "No brokers are registered.",
        ("brokers", "log-dirs"): "No brokers are alive.",
        ("moves", "list"): "No moves are listed.",
        ("configs", "describe", "--broker-default"): "No configurations are set.",
    }
    everyone = AuthorizerConfig(allow_if_no_acl=True)
    async with a_controller(tmp_path, authorizer=everyone, metadata_version=22) as node:
        for arguments, sentence in sentences.items():
            where = ("--bootstrap-controller", str(node.address))
            done = await asyncio.to_thread(CliRunner().invoke, group, [*arguments, *where])
            said = (done.exit_code, done.stdout, done.stderr)
            assert said == (0, "", f"{sentence}\n"), arguments


async def test_an_interrupted_wait_says_that_the_move_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(move_progress, "say", said.put_nowait)
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, move("a", 101, 103))
        client = AdminClient([node.address], is_controller=True)
        async with client, asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(move_progress.wait_for(client, 1))
            first = await said.get()
            waiting.cancel()
        assert first.startswith("Move 1: of 1 partition(s) 0 done, 1 in progress. ")
        assert first.endswith("Bytes left to copy: unknown.")
        last = said.get_nowait()
        assert last.startswith("Move 1 goes on: `metaquorum moves show 1` shows it, ")
        assert "`metaquorum moves cancel 1` cancels it." in last
        shown = await run_moves(node, "show", "1")
        assert shown.exit_code == 0


async def test_a_wait_with_a_time_out_gives_up_and_says_what_it_waits_for(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, move("a", 101, 103))
        done = await run_moves(node, "wait", "1", "--timeout", "1500ms")
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr.splitlines()[-1].startswith(
            "Move 1 has not ended within 1.5 s. It goes on: `metaquorum moves show 1` shows it, "
        )
        assert done.stderr.count("Bytes left to copy: unknown.") == 1
        drained = ("decommission", "--brokers", "101", "--wait", "--timeout", "1500ms")
        where = ("--bootstrap-controller", str(node.address))
        arguments = ["brokers", *drained, *where]
        done = await asyncio.to_thread(CliRunner().invoke, group, arguments)
        assert done.exit_code == 3
        assert done.stderr.splitlines()[-1] == "Not finished within 1.5 s; the moves go on."


def test_a_line_without_news_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(move_progress, "say", said.append)
    monkeypatch.setattr(move_progress, "stuck", lambda _: "Move 1 is stuck.")
    monkeypatch.setattr(move_progress, "left_to_copy", lambda _: "Bytes left to copy: unknown.")
    clock = [0.0]
    display = move_progress._Progress(is_terminal=False, now=lambda: clock[0])
    counts = {"completed": 0, "stepping": 1, "waiting": 0, "cancelled": 0, "superseded": 0}
    shown: Any = SimpleNamespace(move_id=1, partitions_total=1, gone=0, **counts)
    for second in range(0, 60, 5):
        clock[0] = float(second)
        display.show(shown)
    assert len(said) == 2


def test_without_a_terminal_a_line_comes_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(move_progress, "say", said.append)
    monkeypatch.setattr(move_progress, "stuck", lambda _: "")
    monkeypatch.setattr(move_progress, "left_to_copy", lambda move: f"{move.left} left.")
    clock = [0.0]
    display = move_progress._Progress(is_terminal=False, now=lambda: clock[0])
    counts = {"completed": 0, "stepping": 1, "waiting": 0, "cancelled": 0, "superseded": 0}
    for second in range(12):
        clock[0] = float(second)
        shown: Any = SimpleNamespace(move_id=1, partitions_total=1, gone=0, left=second, **counts)
        display.show(shown)
    assert [line.rpartition(". ")[2] for line in said] == ["0 left.", "5 left.", "10 left."]


@pytest.mark.parametrize("called", ["metaquorum", "reassign-partitions"])
def test_a_command_to_copy_is_as_short_as_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    program = tmp_path / "bin" / "metaquorum"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(program.with_name(called))])
    assert command_line() == str(program)
    monkeypatch.chdir(tmp_path)
    assert command_line() == "bin/metaquorum"
    monkeypatch.setenv("PATH", str(program.parent))
    assert command_line() == "metaquorum"
