"""`metaquorum backup --every` as a process: it says whether backups succeed, and so does doctor."""

import asyncio
import json
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from admin.cli.doctor import command as doctor
from admin.cli.options import Exit
from quorum.transport.address import Address
from tests.support.controllers import a_controller
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

PATIENCE_SECONDS = 60


@asynccontextmanager
async def scheduled(folder: Path, controller: Address) -> AsyncIterator[Process]:
    """Backups of this controller into `folder/backups`, one a second; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "admin.cli.main", "backup", "--to", str(folder / "backups")),
        *("--bootstrap-controller", str(controller), "--every", "1s", "--timeout", "3s"),
        *("--log-format", "json", "--metrics-file", str(folder / "backup.prom")),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def until_logged(process: Process, event: str) -> dict[str, Any]:
    """The next line of this event."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in process.stderr:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
    raise AssertionError(f"it ended without {event}")


def metrics(folder: Path) -> dict[str, float]:
    text = (folder / "backup.prom").read_text(encoding="utf-8")
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


async def examined(folder: Path, age: str) -> tuple[int, str]:
    """The exit code of `doctor` and what it prints."""
    words = ["--backups", str(folder / "backups"), "--backup-age", age]
    result = await asyncio.to_thread(CliRunner().invoke, doctor, words)
    return result.exit_code, result.stdout


async def test_a_backup_that_succeeds_and_one_that_fails_are_told(tmp_path: Path) -> None:
    assert (await examined(tmp_path, "1h"))[0] == Exit.NOT_FINISHED
    async with a_controller(tmp_path) as node, scheduled(tmp_path, node.address) as process:
        made = await until_logged(process, "backup-made")
        # It has written the metrics of the first one before it begins the second.
        await until_logged(process, "backup-made")
        assert made["level"] == "INFO"
        assert re.match(r"Backup \S+ of cluster ", made["message"])
        first = metrics(tmp_path)
        assert await examined(tmp_path, "1h") == (Exit.DONE, "")

        await node.listener.close()
        failed = await until_logged(process, "backup-failed")
        again = await until_logged(process, "backup-failed")
        for each in (failed, again):
            assert each["level"] == "ERROR"
            assert str(node.address) in each["message"]
            assert "The newest one was taken at 2" in each["message"]
        after = metrics(tmp_path)
        assert after["backup_failures_total"] > first["backup_failures_total"]
        last = "backup_last_success_timestamp_seconds"
        assert after[last] >= first[last] > 0
    code, said = await examined(tmp_path, "1ms")
    assert code == Exit.NOT_FINISHED
    assert f"ERROR backup-old: the newest backup in {tmp_path / 'backups'} was taken at" in said
