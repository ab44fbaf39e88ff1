"""The lines in which `dump-log` shows an index of append times."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from admin.dump.entries import Undumpable, compact
from quorum.log.append_times import AppendTime, append_times, index_base
from quorum.log.errors import StorageError

TITLES: Final = f"{'OFFSET':>8}  {'END':>8}  {'EPOCH':>5}  APPENDED"


def is_index(path: Path) -> bool:
    """Whether the file is one of these, by its name."""
    return index_base(path.name) is not None


def times(path: Path) -> Iterator[AppendTime]:
    """The entries of the file, in order; raises `Undumpable` where it cannot be read."""
    try:
        yield from append_times(path)
    except StorageError as error:
        raise Undumpable(str(error)) from error


def as_text(entry: AppendTime) -> str:
    """One line for people, its columns those of `TITLES`; times in UTC."""
    epoch = "-" if entry.epoch is None else entry.epoch
    when = "nobody knows when" if entry.time_ms is None else _utc(entry.time_ms)
    return f"{entry.base:>8}  {entry.end:>8}  {epoch:>5}  {when}"


def as_json(entry: AppendTime, file: Path) -> str:
    """One line of JSON; epoch and time are null where nobody knows."""
    return compact(
        {
            "file": str(file),
            "offset": entry.base,
            "endOffset": entry.end,
            "epoch": entry.epoch,
            "appendTimeMs": entry.time_ms,
        }
    )


def _utc(time_ms: int) -> str:
    seconds, rest_ms = divmod(time_ms, 1_000)
    try:
        shown = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
    return f"{shown:%Y-%m-%d %H:%M:%S}.{rest_ms:03}"
