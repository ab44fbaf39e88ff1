"""Backups of the folders of stopped controllers, made in the process of a test."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from admin.backup.folder_source import folder_source
from admin.backup.folder_storage import FolderStorage
from admin.backup.run import Outcome, Pace, Retention, back_up
from admin.backup.storage import Storage
from admin.cli.main import load
from admin.client.metadata_source import Elsewhere, Part, Records, Source
from quorum.core.vocabulary import OffsetAndEpoch

TAKEN_MS = 1_795_300_000_000
HOUR_MS = 3_600_000
EVERYTHING = Retention()


def backed_up(
    source: Path,
    to: Path | Storage,
    *,
    now_ms: int = TAKEN_MS,
    retention: Retention = EVERYTHING,
    through: Callable[[Source], Source] = lambda source: source,
) -> Outcome:
    """Back up the folder of a stopped controller; `through` may stand between."""
    storage = FolderStorage(to) if isinstance(to, Path) else to

    async def run() -> Outcome:
        with folder_source(source) as found:
            return await back_up(
                through(found),
                storage,
                now_ms=now_ms,
                retention=retention,
                pace=Pace(0),
                patience_ms=1_000,
            )

    return asyncio.run(run())


class Through:
    """A source that passes everything on, for a test to change some of it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.cluster_id = source.cluster_id
        self.remarks = source.remarks

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        return await self._source.fetch(end)

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        return await self._source.fetch_snapshot(id_, position)


def command(*arguments: object) -> Result:
    """Run `metaquorum backup` with these arguments."""
    return CliRunner().invoke(load("backup"), [*map(str, arguments)], catch_exceptions=False)
