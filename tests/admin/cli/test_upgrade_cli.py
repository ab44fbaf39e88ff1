"""`metaquorum upgrade check`, `support-bundle` and the log levels, at running controllers."""

import asyncio
import json
import logging
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.cli.options import Exit
from quorum.version import VERSION
from tests.support.controllers import Node, active, controllers

TRIES_MAX = 20


async def ran(node: Node, *words: str) -> Result:
    arguments = [*words, "--bootstrap-controller", str(node.address)]
    return await asyncio.to_thread(CliRunner().invoke, group, arguments)


async def test_a_cluster_of_this_release_is_done_and_another_release_is_a_step(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        # On a busy machine a follower may be behind for a moment, which is not safe.
        for _ in range(TRIES_MAX):
            found = await ran(leader, "upgrade", "check", "-o", "json")
            report = json.loads(found.stdout)
            if report["safe"]:
                break
        assert (found.exit_code, report["done"], report["safe"]) == (Exit.DONE, True, True), report
        assert [each["version"] for each in report["nodes"]] == [VERSION] * 3
        assert [each["leader"] for each in report["nodes"]].count(True) == 1
        step = await ran(leader, "upgrade", "check", "--to", "0.2.0")
        follower = min({*nodes} - {leader.node_id})
        assert step.exit_code == Exit.DONE
        assert f"Next: controller {follower} runs {VERSION}" in step.stdout
        assert "upgrade check --to 0.2.0" in step.stdout
        wrong = await ran(leader, "upgrade", "check", "--to", "newest")
        assert wrong.exit_code == Exit.USAGE
        assert "'newest' is not a version" in wrong.stderr


async def test_a_cluster_gives_a_bundle_of_every_controller(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        path = tmp_path / "bundle.tar.gz"
        found = await ran(leader, "support-bundle", "--file", str(path))
        assert found.exit_code == Exit.DONE, found.stderr
        with tarfile.open(path) as archive:
            names = {each.removeprefix("bundle/") for each in archive.getnames()}
        assert names >= {
            "bundle.json",
            *(f"cluster/{each}.json" for each in ("health", "quorum", "versions", "nodes")),
            *(f"nodes/controller-{each}/recent.log" for each in (1, 2, 3)),
            *(f"nodes/controller-{each}/settings.properties" for each in (1, 2, 3)),
        }
        again = await ran(leader, "support-bundle", "--file", str(path))
        assert again.exit_code == Exit.FAILED
        assert "exists: name a new file" in again.stderr


async def test_a_cluster_that_does_not_answer_is_a_sentence_beside_a_folder(
    tmp_path: Path,
) -> None:
    """Without the folder there would be nothing to write."""
    path, data = tmp_path / "bundle.tar.gz", tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=1\n")
    words = ["support-bundle", "--file", str(path), "--bootstrap-controller", "127.0.0.1:1"]
    words += ["--timeout", "300ms"]
    alone = await asyncio.to_thread(CliRunner().invoke, group, words)
    assert alone.exit_code == Exit.FAILED
    assert "there is nothing to write: health: " in alone.stderr
    assert not path.exists()
    found = await asyncio.to_thread(CliRunner().invoke, group, [*words, "--dir", str(data)])
    assert found.exit_code == Exit.NOT_FINISHED
    assert "Missing: health: " in found.stderr
    assert path.exists()


async def test_the_levels_of_another_node_are_changed_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The command finds the node of an id; here all of them are one process, with one log."""
    name = "quorum.of_this_command"
    logger = logging.getLogger(name)
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        other = min({*nodes} - {leader.node_id})
        words = ("configs", "alter", "--broker-logger", str(other))
        changed = await ran(leader, *words, "--set", f"{name}=DEBUG")
        assert changed.exit_code == Exit.DONE, changed.stderr
        assert logger.level == logging.DEBUG
        listed = await ran(leader, "configs", "describe", "--broker-logger", str(other))
        assert [line.split()[1] for line in listed.stdout.splitlines() if name in line] == ["DEBUG"]
        back = await ran(leader, *words, "--delete", name)
        assert back.exit_code == Exit.DONE
        assert logger.level == logging.NOTSET
        nobody = await ran(leader, "configs", "describe", "--broker-logger", "9")
        assert nobody.exit_code == Exit.FAILED
        assert "node 9 is not among those known there: 1, 2, 3" in nobody.stderr
