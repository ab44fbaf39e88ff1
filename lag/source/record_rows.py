"""The tables made from records: `records`, `epochs` and `assignments`.

A batch in the form that controllers write is split at once; any other (compressed, with keys,
control) record by record.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from lag.source.batches import record_batch, rows_batch, same
from lag.source.byte_ranges import ValidBatches
from lag.source.decompression import plain_batch
from lag.source.problems import RECORD, Problem
from lag.source.record_columns import RecordColumns
from lag.source.record_packs import BESIDE, RecordRun, packs, said_of
from lag.source.scan import Headers
from lag.source.schemas import RECORDS, Table
from lag.source.tasks import Slice
from quorum.core.vocabulary import uuid_to_text
from quorum.log.checkpoint import checkpoint_id
from quorum.records.batch import CONTROL_BIT, CorruptBatch, header_at
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    LeaderChange,
    control_type,
    decode_voters,
)
from quorum.records.decode import Record, UnsupportedCodec, decode, plain_values

RECORDS_AT_ONCE: Final = 65_536
"""Rows of `records` per Arrow batch; the last log batch may exceed it."""
PACKED: Final = RECORDS.in_ms.only(
    tuple(name for name in RECORDS.in_ms.column_names if name not in BESIDE)
)
"""The columns of `records` in a pack."""


class RecordRows:
    """The records of some batches, collected and returned as rows."""

    def __init__(self, part: Slice, json: str) -> None:
        self._part = part
        self.columns = RecordColumns(json)
        self.problems: list[Problem] = []
        self._offsets: list[int] = []
        self._times_ms: list[int] = []
        self._control: list[bool] = []
        self._positions: list[int] = []
        self._epochs: list[int] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, sound: ValidBatches, position: int) -> None:
        """Add the batch at this position of the file."""
        at = position - sound.origin
        header = header_at(sound.data, at)
        before = len(self._offsets)
        values = None
        if not header.attributes & CONTROL_BIT:
            values = plain_values(sound.data, header, at)
        if values is not None:
            self.columns.add(values)
            count = len(values)
            self._offsets += range(header.base_offset, header.base_offset + count)
            self._times_ms += [header.base_timestamp_ms] * count
            self._control += [False] * count
        else:
            self._add_others(sound, position)
        self._positions.append(position)
        self._epochs.append(header.epoch)
        self._counts.append(len(self._offsets) - before)

    def _add_others(self, sound: ValidBatches, position: int) -> None:
        found, problem = records_of(sound, position, self._part.path)
        if problem is not None:
            self.problems.append(problem)
        for record in found:
            self._offsets.append(record.offset)
            self._times_ms.append(record.timestamp_ms)
            self._control.append(record.control)
            self.columns.add_other(record.key, record.value, control=record.control)

    def undecoded(self) -> Iterator[Problem]:
        """The records that could not be decoded."""
        yield from self.problems
        positions = np.repeat(self._positions, self._counts)
        for at, reason in self.columns.problems():
            offset = self._offsets[at]
            what = f"the record at offset {offset} is not understood: {reason}"
            yield Problem(self._part.path, int(positions[at]), offset, RECORD, what)

    def take(self, table: Table, first: int | None, behind: int | None) -> Any:
        """The rows with offsets [`first`, `behind`), as a `pyarrow.RecordBatch`."""
        rows, wanted = self._rows(table), self._wanted(first, behind)
        return rows if wanted is None else rows.filter(pa.array(wanted))

    def packs(self, table: Table, shares: int, first: int | None, behind: int | None) -> Any:
        """The same as rows of the table `packs`."""
        part, rows, wanted = self._part, self._rows(PACKED), self._wanted(first, behind)
        codes, said = self.columns.said()
        if wanted is not None:
            rows, codes = rows.filter(pa.array(wanted)), codes[wanted]
        gathered = RecordRun(part.replica, part.path, part.source, rows, codes, said_of(said))
        return packs(gathered, table, shares)

    def _rows(self, table: Table) -> Any:
        count, part = len(self), self._part
        offsets = np.array(self._offsets, np.int64)
        times = np.array(self._times_ms, np.int64)

        def repeated(values: list[int], type_: Any) -> Any:
            return pa.array(np.repeat(np.array(values, np.int64), self._counts).astype(type_))

        columns = {
            **self.columns.columns(table),
            "replica": lambda: same(part.replica, count),
            "path": lambda: same(part.path, count),
            "position": lambda: repeated(self._positions, np.int64),
            "offset": lambda: pa.array(offsets),
            "epoch": lambda: repeated(self._epochs, np.int32),
            "append_ms": lambda: pa.array(times, pa.int64(), mask=times < 0),
            "source": lambda: same(part.source, count),
            "generation": lambda: pa.repeat(pa.scalar(part.generation, pa.int32()), count),
            "control": lambda: pa.array(self._control, pa.bool_()),
        }
        return record_batch(table, columns, count)

    def _wanted(self, first: int | None, behind: int | None) -> Any:
        """A mask of the offsets [`first`, `behind`); None for all."""
        if self._part.source != "log" or (first is None and behind is None):
            return None
        offsets = np.array(self._offsets, np.int64)
        wanted = np.ones(len(self), np.bool_)
        if first is not None:
            wanted &= offsets >= first
        if behind is not None:
            wanted &= offsets < behind
        return None if wanted.all() else wanted


def records_of(
    sound: ValidBatches, position: int, path: str
) -> tuple[list[Record], Problem | None]:
    """The records of any batch up to a problem, and the problem."""
    at = position - sound.origin
    header = header_at(sound.data, at)
    found: list[Record] = []
    try:
        batch, _ = plain_batch(sound.data[at : at + header.size_bytes], header)
        for record in decode(batch):
            found.append(record)
    except (CorruptBatch, UnsupportedCodec) as error:
        reason = error.reason if isinstance(error, CorruptBatch) else str(error)
        what = f"the batch has a right checksum, but {reason}"
        return found, Problem(path, position, header.base_offset, RECORD, what)
    return found, None


def control_rows(
    table: Table, part: Slice, sound: ValidBatches, headers: Headers
) -> tuple[Any | None, list[Problem]]:
    """The rows of `epochs` or `assignments` in these control batches; None for none."""
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    wanted = ControlType.LEADER_CHANGE if table.name == "epochs" else ControlType.KRAFT_VOTERS
    make = _epoch if table.name == "epochs" else _assignment
    for position, epoch in zip(headers.position.tolist(), headers.epoch.tolist(), strict=True):
        found, problem = records_of(sound, position, part.path)
        problems += [] if problem is None else [problem]
        for record in found:
            try:
                if control_type(record.key) == wanted:
                    common = {
                        "replica": part.replica,
                        "path": part.path,
                        "epoch": epoch,
                        "generation": part.generation,
                    }
                    rows.append({**common, **make(record, part)})
            except BadControlRecord as error:
                problems.append(Problem(part.path, position, record.offset, RECORD, str(error)))
    return (rows_batch(table, rows) if rows else None), problems


def _epoch(record: Record, _part: Slice) -> dict[str, Any]:
    change = LeaderChange.decode(record.value)
    return {
        "start_offset": record.offset,
        "leader": change.leader,
        "append_ms": record.timestamp_ms,
        "voters": list(change.voters),
        "granting": list(change.granting),
    }


def _assignment(record: Record, part: Slice) -> dict[str, Any]:
    assignment = decode_voters(record.value)
    target = assignment.target
    offset, kind = record.offset, "voters" if target is None else "target"
    id_ = checkpoint_id(part.path.rpartition("/")[2])
    if part.source == "snapshot" and id_ is not None:
        offset = id_.offset
        kind = kind if id_.offset > 0 else "formatted"
    return {
        "offset": offset,
        "append_ms": record.timestamp_ms if record.timestamp_ms > 0 else None,
        "current": [
            _voter(voter.key.id, voter.key.directory_id) for voter in assignment.current.voters
        ],
        "target": None if target is None else [_voter(key.id, key.directory_id) for key in target],
        "kind": kind,
        "source": part.source,
    }


def _voter(id_: int, directory_id: UUID) -> str:
    return f"{id_}@{uuid_to_text(directory_id)}" if directory_id.int else str(id_)
