"""Small handmade logs, and the rows that the source reads from them."""

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lag.source.options import Options, options_of
from lag.source.planner import plan, slices_in
from lag.source.reader import read
from lag.source.tasks import Share, Task
from quorum.log.append_times import encode_entry, encode_header
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode

BEGIN_MS = 1_795_236_537_000


def batch(base: int, values: Sequence[bytes], *, epoch: int = 1, at_ms: int | None = None) -> bytes:
    """One batch of data records; by default a record a millisecond from `BEGIN_MS` on."""
    made = encode(list(values), timestamp_ms=BEGIN_MS + base if at_ms is None else at_ms)
    return stamped(bytes(made), base, epoch)


def leader_change(base: int, *, epoch: int, leader: int, at_ms: int) -> bytes:
    """The batch with which an epoch begins."""
    change = LeaderChange(leader=leader, voters=(1, 2, 3), granting=(leader,))  # type: ignore[arg-type]
    return stamped(bytes(encode_leader_change(change, timestamp_ms=at_ms)), base, epoch)


def stamped(made: bytes, base: int, epoch: int) -> bytes:
    """The batch at its place: neither offset nor epoch is part of the checksum."""
    return struct.pack(">q", base) + made[8:12] + struct.pack(">i", epoch) + made[16:]


def batches(sizes: Iterable[int], *, base: int = 0, epoch: int = 1) -> list[bytes]:
    """Batches of so many records each, one behind the other."""
    made = []
    for size in sizes:
        values = [b"%d" % (base + at) * (1 + (base + at) % 5) for at in range(size)]
        made.append(batch(base, values, epoch=epoch))
        base += size
    return made


def write_segment(folder: Path, base: int, made: Sequence[bytes]) -> Path:
    """A segment of these batches."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log"
    path.write_bytes(b"".join(made))
    return path


def write_index(segment: Path, entries: Iterable[tuple[int, int, int]]) -> Path:
    """The index beside a segment: of each entry its time, end offset and epoch."""
    path = segment.with_suffix(".appendtime")
    path.write_bytes(encode_header() + b"".join(encode_entry(*entry) for entry in entries))
    return path


def asked(path: Path | str, **options: Any) -> Options:
    """The options of a reading; nothing is waited for unless that is asked for."""
    given = {"settle_ms": 0, **options}
    if isinstance(given.get("paths"), list):
        given["paths"] = json.dumps(given["paths"])
    return options_of({"path": str(path), **{name: str(value) for name, value in given.items()}})


def rows(path: Path | str, table: str, **options: Any) -> list[dict[str, Any]]:
    """The rows that the source reads, without Spark."""
    return rows_of(asked(path, table=table, **options))


def opened(options: Options) -> list[Task]:
    """The tasks of a reading, with the slices that workers make of shares."""
    found: list[Task] = []
    for task in plan(options):
        found += slices_in(task, options) if isinstance(task, Share) else [task]
    return found


def rows_of(options: Options, tasks: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """The rows of these tasks, or of all."""
    found = [
        made for task in (plan(options) if tasks is None else tasks) for made in read(task, options)
    ]
    table: list[dict[str, Any]] = pa.Table.from_batches(found, options.shown.arrow()).to_pylist()
    return table
