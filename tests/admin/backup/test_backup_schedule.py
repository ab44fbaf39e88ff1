"""Backups again and again, with a maker that the test gives: what ends them and what does not."""

import shutil
from pathlib import Path

import pytest

from admin.backup.folder_storage import FolderStorage
from admin.backup.schedule import Schedule
from admin.faults import AdminError


class Enough(Exception):
    """The test has seen enough."""


async def test_metrics_that_can_no_longer_be_written_end_no_backups(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "node_exporter"
    folder.mkdir()
    rounds = 0

    async def make() -> str:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            shutil.rmtree(folder)
        elif rounds == 3:
            folder.mkdir()
        elif rounds == 4:
            raise Enough
        return "made"

    schedule = Schedule(every_ms=0, metrics_file=folder / "backup.prom")
    with caplog.at_level("INFO"), pytest.raises(Enough):
        await schedule.run(make, FolderStorage(tmp_path / "to"))
    made = "backup-made"
    events = [getattr(each, "event", None) for each in caplog.records]
    assert events == [made, made, "metrics-not-written", made]
    assert "backup_failures_total 0" in (folder / "backup.prom").read_text(encoding="utf-8")


async def test_metrics_that_cannot_be_written_at_the_start_are_refused(tmp_path: Path) -> None:
    rounds = 0

    async def make() -> str:
        nonlocal rounds
        rounds += 1
        assert rounds == 1
        return "made"

    schedule = Schedule(every_ms=0, metrics_file=tmp_path / "nowhere" / "backup.prom")
    with pytest.raises(AdminError, match="the metrics cannot be written to"):
        await schedule.run(make, FolderStorage(tmp_path / "to"))
