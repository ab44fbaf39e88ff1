"""The contents of one file of a metadata log, line by line: records, or times of appends.

Segments and checkpoints are read alike. Reading stops with `Undumpable` at the first batch that is
damaged, after everything before it; a record that is not understood is shown as bytes, and reading
continues.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from msgspec import Struct, to_builtins

from admin.units import show_time
from quorum.log.append_times import SUFFIX, AppendTime, append_times
from quorum.log.errors import StorageError
from quorum.log.segment import segment_base
from quorum.log.segment_reader import batches_of
from quorum.records.batch import CorruptBatch
from quorum.records.control import (
    BadControlRecord,
    compact_json,
    control_fields,
    control_record_name,
    control_type,
)
from quorum.records.decode import Record, UnsupportedCodec, decode
from statemachine.records import codec
from statemachine.records.codec import frame_of
from statemachine.records.field_names import TYPE_NAMES, as_kafka, ours
from statemachine.records.kafka_records import Unknown
from statemachine.records.primitives import MalformedRecord


class Undumpable(Exception):
    """The file, or its rest, cannot be read; the message names it and says why."""


class Entry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record of a metadata log, with its fields as JSON has them."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    type: str
    """Kafka's name of the type, or a description of an unknown one."""
    version: int | None
    data: dict[str, Any]
    """The fields by Kafka's names; `bytes`, in hex, of a record that is not understood."""
    extra: dict[str, Any] = {}
    """The tagged fields that metaquorum adds, which Kafka skips."""
    problem: str | None = None
    """Why the record is not understood."""

    def as_json(self, file: Path) -> str:
        """One line of JSON; `extra` and `problem` are omitted if empty."""
        return compact_json({"file": str(file), **to_builtins(self, builtin_types=(UUID,))})

    def as_text(self) -> str:
        """One line for people, its columns those of `TITLES`."""
        version = "-" if self.version is None else str(self.version)
        extra = f" {compact_json({'extra': self.extra})}" if self.extra else ""
        return f"{self.offset:>8}  {self.epoch:>5}  {self.type:<35}  {version:>1}  " + (
            f"{compact_json(self.data)}{extra}"
        )


TITLES = f"{'OFFSET':>8}  {'EPOCH':>5}  {'TYPE':<35}  V  DATA"


def entries(path: Path) -> Iterator[Entry]:
    """The records of the file, in order; raises `Undumpable` at the first damage."""
    is_first = True
    try:
        for batch in batches_of(path):
            for record in decode(batch.data):
                yield _entry(record, batch.header.epoch)
            is_first = False
    except OSError as error:
        raise Undumpable(f"{path} cannot be read: {error.strerror or error}") from error
    except CorruptBatch as error:
        raise Undumpable(_damage(path, error, is_first=is_first)) from error
    except UnsupportedCodec as error:
        raise Undumpable(f"{path}: {error}; a metadata log is not compressed") from error


def _damage(path: Path, error: CorruptBatch, *, is_first: bool) -> str:
    if is_first and error.position == 0:
        return (
            f"{path} is neither a metadata log segment nor a checkpoint, or its very first batch "
            f"is damaged, at byte 0: {error.reason}"
        )
    return f"{path} is damaged at byte {error.position}: {error.reason}"


def _entry(record: Record, epoch: int) -> Entry:
    understood = _control(record) if record.control else _data(record)
    return Entry(
        offset=record.offset,
        epoch=epoch,
        timestamp_ms=record.timestamp_ms,
        control=record.control,
        **{"version": None, "data": _hex(record.value), **understood},
    )


def _control(record: Record) -> dict[str, Any]:
    """The type of a control record, and its version and data if it is understood."""
    try:
        number = int(control_type(record.key))
    except BadControlRecord as error:
        return {"type": "control record", "problem": str(error)}
    name = control_record_name(number)
    if name is None:
        why = f"control records of type {number} have no place in a metadata log"
        return {"type": f"control type {number}", "problem": why}
    try:
        fields = control_fields(number, record.value or b"")
    except BadControlRecord as error:
        return {"type": name, "problem": str(error)}
    return {"type": name, "version": fields["version"], "data": fields}


def _data(record: Record) -> dict[str, Any]:
    """The type of a metadata record, and its version, data and extra as far as understood."""
    if record.value is None:
        return {"type": "no record", "data": {}, "problem": "it has no value"}
    try:
        frame = frame_of(record.value)
    except MalformedRecord as error:
        return {"type": "no metadata record", "problem": str(error)}
    name = TYPE_NAMES.get(frame.type_id, f"type {frame.type_id}")
    known = {"type": name, "version": frame.version}
    try:
        decoded = codec.decode(record.value)
        extra = ours(decoded)
    except MalformedRecord as error:
        return {**known, "problem": str(error)}
    if isinstance(decoded, Unknown):
        return {**known, "data": _hex(decoded.body)}
    return {**known, "data": as_kafka(decoded, frame.version), "extra": extra}


def _hex(value: bytes | None) -> dict[str, Any]:
    return {"bytes": None if value is None else value.hex()}


_TIME_TITLES: Final = f"{'OFFSET':>8}  {'END':>8}  {'EPOCH':>5}  APPENDED"


def titles(path: Path) -> str:
    """The titles of the columns of this file."""
    return TITLES if segment_base(path.name, SUFFIX) is None else _TIME_TITLES


def lines(path: Path, *, as_json: bool) -> Iterator[tuple[str, str | None]]:
    """The lines of the file, each with the reason if its record is not understood.

    Raises `Undumpable` where the file cannot be read.
    """
    if segment_base(path.name, SUFFIX) is not None:
        try:
            for time in append_times(path):
                yield _time_as_json(time, path) if as_json else _time_as_text(time), None
        except StorageError as error:
            raise Undumpable(str(error)) from error
        return
    for entry in entries(path):
        problem = None
        if entry.problem is not None:
            problem = f"the record at offset {entry.offset} is shown as bytes: {entry.problem}"
        yield entry.as_json(path) if as_json else entry.as_text(), problem


def _time_as_text(entry: AppendTime) -> str:
    """One line for people, its columns those of `_TIME_TITLES`; times in UTC."""
    epoch = "-" if entry.epoch is None else entry.epoch
    when = "-" if entry.time_ms is None else show_time(entry.time_ms, "milliseconds")
    return f"{entry.base:>8}  {entry.end:>8}  {epoch:>5}  {when}"


def _time_as_json(entry: AppendTime, file: Path) -> str:
    """One line of JSON; an unknown epoch or time is null."""
    return compact_json(
        {
            "file": str(file),
            "offset": entry.base,
            "endOffset": entry.end,
            "epoch": entry.epoch,
            "appendTimeMs": entry.time_ms,
        }
    )
