"""Make backups again and again, and let the operator see whether they succeed.

Each outcome is a line of the log with an event of its own, `backup-made` or `backup-failed`, and a
metric in a file for the node exporter of Prometheus (its textfile collector). `metaquorum doctor
--backups` judges the newest backup itself, whoever made it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from admin.backup.storage import Storage, newest_manifest
from admin.faults import AdminError
from admin.monitoring.exposition import write_text_file
from admin.monitoring.metric_table import Sample
from admin.units import show_time
from quorum.clocks import monotonic_ms
from quorum.log_events import LogEvent

logger = logging.getLogger("backup")


@dataclass(slots=True, kw_only=True)
class Schedule:
    """The backups of one process."""

    every_ms: int
    metrics_file: Path | None = None
    failures: int = 0

    async def run(self, make: Callable[[], Awaitable[str]], storage: Storage) -> None:
        """Make one backup after the other until cancelled; `make` returns a sentence about it.

        Raises `AdminError` if the first metrics cannot be written; later ones may fail, as a
        backup may.
        """
        is_first = True
        while True:
            begun_ms = monotonic_ms()
            try:
                said = await make()
            except AdminError as error:
                self.failures += 1
                logger.error(
                    "No backup was made: %s. %s",
                    error,
                    _newest(storage),
                    extra=LogEvent.BACKUP_FAILED.extra,
                )
            else:
                logger.info("%s", said, extra=LogEvent.BACKUP_MADE.extra)
            try:
                self._write_metrics(storage)
            except AdminError as error:
                if is_first:
                    raise
                logger.warning(
                    "Backups go on without metrics: %s",
                    error,
                    extra=LogEvent.METRICS_NOT_WRITTEN.extra,
                )
            is_first = False
            await asyncio.sleep(max(0, begun_ms + self.every_ms - monotonic_ms()) / 1_000)

    def _write_metrics(self, storage: Storage) -> None:
        if self.metrics_file is None:
            return
        samples = [Sample("backup_failures_total", self.failures)]
        taken_ms = _taken_ms(storage)
        if taken_ms is not None:
            samples.append(Sample("backup_last_success_timestamp_seconds", taken_ms / 1_000))
        try:
            write_text_file(self.metrics_file, samples)
        except OSError as error:
            raise AdminError(
                f"the metrics cannot be written to {self.metrics_file} ({error.strerror or error})"
            ) from error


def _newest(storage: Storage) -> str:
    taken_ms = _taken_ms(storage)
    if taken_ms is None:
        return "There is none before it"
    return f"The newest one was taken at {show_time(taken_ms)}"


def _taken_ms(storage: Storage) -> int | None:
    """The time of the newest backup; None without any, or if it cannot be read."""
    try:
        newest = newest_manifest(storage)
    except AdminError:
        return None
    return None if newest is None else newest.taken_ms
