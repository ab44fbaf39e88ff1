"""`metaquorum doctor` on the folder and the settings of a node."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from admin.capabilities.health import DescribeHealth
from admin.cli.doctor import command
from admin.cli.options import Exit
from admin.client.admin_client import AdminClient
from admin.faults import NoLeader
from admin.monitoring.health_rules import Rule
from admin.tools.doctor import folder_facts
from statemachine.commands import FenceBrokers
from tests.controller.controller_commands import asked, join, topic
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import kafka_client

LOG = "__cluster_metadata-0/00000000000000000000.log"
SETTINGS = "process.roles=controller\nnode.id=1\nlog.dir={folder}\n"
OF_NODE = "quorum.voters={voters}\nlisteners=CONTROLLER://{host}:19001\n"


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """The folder of a controller that has run and has stopped."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await joined(client, 101, CLUSTER_ID)
        await created(client, "t", (101,))
        found = tmp_path / "node-1"
        assert "is locked" in (folder_facts(found).problem or "")
    found.chmod(0o700)
    return found


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_nothing_is_wrong_with_the_folder_of_a_node_that_has_stopped(folder: Path) -> None:
    before = contents(folder)
    result = CliRunner().invoke(command, ["--dir", str(folder)])
    assert (result.exit_code, result.stdout) == (Exit.DONE, "")
    assert "Nothing is wrong." in result.stderr
    assert contents(folder) == before


def test_an_end_that_is_not_whole_is_told_and_stays(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (folder / LOG).open("ab") as log:
        log.write(b"\x00" * 7)
    before = contents(folder)
    result = CliRunner().invoke(command, ["--dir", str(folder)])
    assert result.exit_code == Exit.DONE
    assert f"WARNING {Rule.LOG_CUT_SHORT}: at the next start: cut 7 bytes from" in result.stdout
    assert str(folder / LOG) in result.stdout
    assert "metaquorum-doctor-" not in caplog.text
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("files", "starts"),
    [
        ({}, "metaquorum start --config FILE"),
        ({"local.json": "{}"}, "metaquorum local --dir {0}"),
        (
            {"local.json": "{}", "cluster.json": '{"control":"/s"}'},
            "metaquorum local restart controller-1 --dir {0}",
        ),
        # A demo takes no commands.
        ({"local.json": "{}", "cluster.json": "{}"}, "metaquorum start --config FILE"),
        ({"local.json": "{}", "cluster.json": "[1"}, "metaquorum start --config FILE"),
    ],
)
def test_the_folder_of_a_node_of_a_local_cluster_is_started_by_its_command(
    tmp_path: Path, files: dict[str, str], starts: str
) -> None:
    data = tmp_path / "controller-1" / "data"
    data.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert folder_facts(data).start == starts.format(tmp_path)


async def test_controllers_of_a_local_cluster_name_its_command(tmp_path: Path) -> None:
    for name in ("local.json", "cluster.json"):
        (tmp_path / name).write_text('{"control":"/s"}')
    (tmp_path / "controller-1").mkdir()
    async with a_controller(tmp_path / "controller-1") as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("t", 101, 102))
        await asked(node.controller, FenceBrokers(broker_ids=(101,)))
        where = ("--bootstrap-controller", str(node.address))
        result = await asyncio.to_thread(CliRunner().invoke, command, where)
    assert f"mend it:     metaquorum local restart 101 --dir {tmp_path}; or empty" in result.stdout


def test_without_a_leader_a_broker_knows_that_much(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(self: AdminClient, request: DescribeHealth, *, stale: bool = False) -> NoReturn:
        raise NoLeader("no controller leads", may_be_done=False)

    monkeypatch.setattr(AdminClient, "ask", ask)
    result = CliRunner().invoke(command, ["--bootstrap-server", "127.0.0.1:1"])
    assert result.exit_code == Exit.NOT_FINISHED
    assert result.stdout.startswith("ERROR no-leader: no leader is known: a majority of ")


def test_damage_in_the_middle_is_an_error_with_the_way_back(folder: Path) -> None:
    path = folder / LOG
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    result = CliRunner().invoke(command, ["--dir", str(folder), "-o", "json"])
    assert result.exit_code == Exit.NOT_FINISHED
    (reason,) = json.loads(result.stdout)["reasons"]
    assert (reason["rule"], reason["severity"]) == (Rule.FOLDER_UNUSABLE, "error")
    assert f"{path} is damaged at byte 0" in reason["sentence"]
    assert "move this node's whole folder away" in reason["sentence"]


def test_a_folder_that_others_may_read_is_told(folder: Path) -> None:
    folder.chmod(0o755)
    result = CliRunner().invoke(command, ["--dir", str(folder)])
    assert f"chmod 700 {folder}" in result.stdout


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_without_a_node_is_told(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "elsewhere"
    if is_there:
        folder.mkdir(0o700)
    result = CliRunner().invoke(command, ["--dir", str(folder)])
    assert result.exit_code == Exit.NOT_FINISHED
    what = "has no meta.properties" if is_there else "does not exist; name the log.dir of a node"
    assert f"{folder} {what}" in result.stdout


def test_the_folder_above_a_data_folder_names_it(folder: Path) -> None:
    data = folder.parent / "cluster" / "controller-1" / "data"
    data.parent.mkdir(parents=True)
    folder.rename(data)
    for above in (data.parent, data.parent.parent):
        result = CliRunner().invoke(command, ["--dir", str(above)])
        assert result.exit_code == Exit.NOT_FINISHED
        assert f"To mend it:     metaquorum doctor --dir {data}\n" in result.stdout
        assert "chmod" not in result.stdout


def test_settings_that_cannot_be_read_are_a_usage_error(tmp_path: Path) -> None:
    for file in (tmp_path / "none.toml", tmp_path):
        result = CliRunner().invoke(command, ["--config", str(file)])
        assert (result.exit_code, result.stdout) == (Exit.USAGE, "")
        assert f"{file} cannot be read: " in result.stderr


@pytest.mark.parametrize(
    ("host", "voters", "more", "rules"),
    [
        ("127.0.0.1", 3, "", []),
        ("127.0.0.1", 4, "", [Rule.EVEN_VOTERS]),
        ("127.0.0.1", 1, "", [Rule.NO_FAILURE_TOLERANCE]),
        ("0.0.0.0", 3, "", [Rule.LISTENER_OPEN]),
        ("127.0.0.1", 3, "num.partition=2\n", [Rule.SETTINGS_INVALID]),
    ],
)
def test_settings(tmp_path: Path, host: str, voters: int, more: str, rules: list[Rule]) -> None:
    file = tmp_path / "node.properties"
    named = ",".join(f"{each}@127.0.0.1:{19000 + each}" for each in range(1, voters + 1))
    text = (SETTINGS + OF_NODE).format(folder=tmp_path / "d", host=host, voters=named) + more
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(command, ["--config", str(file), "-o", "json"])
    assert [each["rule"] for each in json.loads(result.stdout)["reasons"]] == rules


def test_a_question_ends_its_sentence(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("num.partition=2\n", encoding="utf-8")
    result = CliRunner().invoke(command, ["--config", str(file)])
    assert "did you mean num.partitions?\n  Why it matters: " in result.stdout


def test_an_override_needs_a_file() -> None:
    result = CliRunner().invoke(command, ["--override", "node.id=2"])
    assert result.exit_code == Exit.USAGE
    assert "--override goes with --config" in result.stderr
