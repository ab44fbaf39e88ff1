"""`metaquorum snapshots`, and commands with --watch."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.cli.options import Exit, Target, watchable
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, Node, a_controller
from tests.support.kafka_client import kafka_client


async def ran(node: Node, *words: str) -> Result:
    arguments = [*words, "--bootstrap-controller", str(node.address)]
    return await asyncio.to_thread(CliRunner().invoke, group, arguments)


async def test_a_snapshot_is_taken_and_listed(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await joined(client, 101, CLUSTER_ID)
        await created(client, "t", (101,))
        before = await ran(node, "snapshots", "list", "-o", "json")
        assert json.loads(before.stdout)["snapshots"] == []
        taken = await ran(node, "snapshots", "take")
        assert taken.exit_code == Exit.DONE
        assert taken.stdout.startswith("Node 1 has a snapshot of everything below offset ")
        listed = await ran(node, "snapshots", "list")
        end = taken.stdout.split()[9].rstrip(",")
        assert listed.stdout.splitlines()[0].split() == ["EndOffset", "Epoch", "Bytes"]
        assert listed.stdout.splitlines()[1].split()[0] == end
        assert "Node 1 has the log from offset " in listed.stderr


async def test_a_watched_command_runs_until_it_is_ended() -> None:
    asked: list[Any] = []

    async def work(target: Target, **options: Any) -> None:
        asked.append(options)
        if len(asked) == 3:
            raise click.ClickException("enough")

    command: Any = watchable(work)
    target = Target(None, None, 1_000)
    with pytest.raises(click.ClickException, match="enough"):
        await command(target, watch_ms=100, stale=True)
    assert asked == [{"stale": True}] * 3
    with pytest.raises(click.UsageError, match="at least 100ms"):
        await command(target, watch_ms=99)
    assert await command(target, watch_ms=None) is None
    assert asked[3:] == [{}]
