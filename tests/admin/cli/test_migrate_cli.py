"""`metaquorum migrate` where there is nothing left to do, and its mistakes of usage.

`tests/process/test_live_migration.py` has a whole migration with controllers of Kafka.
"""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.cli.options import Exit
from admin.tools.migrate.observation import Cluster
from admin.tools.migrate.state import Kind, Probe
from quorum.transport.address import Address
from tests.support.controllers import Node, active, controllers

GONE = ("--from", "127.0.0.1:1")
"""Kafka's controllers, retired long ago."""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["migrate", *arguments])


async def run(nodes: dict[int, Node], *arguments: str) -> Result:
    """The result of the command, run in a thread beside the loop of the nodes."""
    ours = ",".join(f"{id}@{node.address}" for id, node in nodes.items())
    return await asyncio.to_thread(invoke, *arguments, *GONE, "--controllers", ours)


async def test_where_ours_vote_alone_every_command_says_that_nothing_is_left(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        planned = await run(nodes, "plan")
        assert planned.exit_code == 0, planned.output
        assert f"Controllers 1, 2, 3 vote, and {leader.node_id} leads." in planned.output
        written = await run(nodes, "plan", "--dir", str(tmp_path / "settings"))
        assert "Controller 1 runs already; settings for it: " in written.stderr
        assert "Start controller" not in written.stderr
        started = await run(nodes, "start")
        assert (started.exit_code, started.stdout) == (
            0,
            f"Controllers 1, 2, 3 vote, and {leader.node_id} leads. No controller of Kafka is "
            "registered: nothing is left to do.\n",
        )
        described = await run(nodes, "status", "-o", "json")
        roles = [each["role"] for each in json.loads(described.stdout)["controllers"]]
        assert sorted(roles) == ["leader", "voter", "voter"]
        finished = await run(nodes, "finish", "--session", "100ms")
        assert finished.exit_code == 0, finished.output
        assert "The controllers of Kafka are retired" in finished.stdout


async def test_the_way_back_names_the_controllers_of_kafka_as_they_are_registered(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        result = await run(nodes, "back")
        assert result.exit_code == 1
        assert "no controller of Kafka's is registered at 127.0.0.1:1; known are none" in (
            result.output
        )


@pytest.fixture
def as_kafkas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the nodes answer as controllers of Kafka do."""

    asked = Cluster.probe

    async def probe(cluster: Cluster, address: Address) -> Probe:
        found = await asked(cluster, address)
        return found if found.kind is None else replace(found, kind=Kind.KAFKA, node_id=None)

    monkeypatch.setattr(Cluster, "probe", probe)


def beside(nodes: dict[int, Node], *arguments: str) -> Awaitable[Result]:
    """The result of the command, with controllers of ours that were never started."""
    kafkas = ",".join(str(node.address) for node in nodes.values())
    sides = ("--from", kafkas, "--controllers", "11@127.0.0.1:1")
    return asyncio.to_thread(invoke, *arguments, *sides)


@pytest.mark.usefixtures("as_kafkas")
async def test_finish_says_that_nothing_has_been_started(tmp_path: Path) -> None:
    """It said that the controllers of metaquorum, which never ran, are retired."""
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        result = await beside(nodes, "finish", "--session", "100ms")
    assert result.exit_code == Exit.FAILED, result.output
    assert "nothing has been started: controller 1 of Kafka votes" in result.output
    assert "retired" not in result.output


@pytest.mark.usefixtures("as_kafkas")
async def test_back_says_that_nothing_has_been_started(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        result = await beside(nodes, "back")
    assert result.exit_code == 0, result.output
    assert "Controller 1 votes, and 1 leads." in result.stdout
    assert "nothing has been started" in result.stdout


@pytest.mark.usefixtures("as_kafkas")
async def test_no_settings_are_written_for_an_id_that_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        kafkas = ("--from", str(nodes[1].address))
        arguments = ("plan", *kafkas, "--controllers", "1@127.0.0.1:1", "--dir", str(folder))
        result = await asyncio.to_thread(invoke, *arguments)
    assert result.exit_code == Exit.NOT_FINISHED, result.output
    assert "id 1 of --controllers belongs to a node of Kafka's already" in result.stdout
    assert result.stderr == f"Nothing is written into {folder}: correct --controllers first\n"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("plan", ""),
        ("start", ": give the command again, and it goes on where it stopped"),
        ("back", ": give the command again, and it goes on where it stopped"),
        ("finish", ": give the command again, and it goes on where it stopped"),
    ],
)
def test_an_interrupted_command_says_that_it_goes_on(
    command: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def quorum(_: Cluster) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "quorum", quorum)
    result = invoke(command, *GONE, "--controllers", "11@127.0.0.1:2")
    assert (result.exit_code, result.stderr) == (Exit.INTERRUPTED, f"interrupted{more}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan",), "Missing option '--from'"),
        (("plan", *GONE), "Missing option '--controllers'"),
        (("plan", *GONE, "--controllers", "11"), "'11' is not id@host:port"),
        (("plan", *GONE, "--controllers", "11@127.0.0.1:1"), "a controller is of one kind"),
        (("start", *GONE, "--controllers", "11@a:1", "--rolled", "x"), "'x' is not a broker id"),
        (("plan", *GONE, "--controllers", "1@a:1", "--kafka-settings", "/no"), "/no"),
        (
            ("plan", "--back", "--dir", "d", *GONE, "--controllers", "1@a:1"),
            "omit them with --back",
        ),
    ],
)
def test_invalid_options_are_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output
