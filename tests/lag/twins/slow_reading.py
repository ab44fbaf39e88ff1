"""Log folders as the twins of the reports read them: whole files, batch by batch, and no Spark.

Nothing of the data source is used, only what writes and reads logs everywhere else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import NO_DIRECTORY, uuid_to_text
from quorum.log.meta_properties import FILE_NAME as META
from quorum.records.batch import headers
from quorum.records.control import ControlType, LeaderChange, control_type, decode_voters
from quorum.records.decode import Record, decode
from statemachine.records import codec
from statemachine.records.kafka_records import Record as Said
from tests.support.append_times import all_append_times

METADATA: Final = "__cluster_metadata-0"


@dataclass(frozen=True)
class SlowHeld:
    """A batch in the log of one replica."""

    offset: int
    end: int
    epoch: int
    at_ms: int
    here_ms: int | None
    """The append time at this replica, by its own clock; None if unknown."""
    records: Sequence[Record]


@dataclass(frozen=True)
class SlowReplica:
    """The log of one replica."""

    name: str
    node_id: int | None
    directory: str | None
    batches: Sequence[SlowHeld]
    lost: Sequence[SlowHeld] = ()
    """What it held before its files were damaged."""
    indexed: Sequence[SlowHeld] = ()
    """Of that what its indexes of append times tell, if all its segments are gone,"""
    tail: Sequence[SlowHeld] = ()
    """and what headers of damaged batches at its end tell."""


@dataclass(frozen=True)
class SlowHole:
    """Offsets of the quorum's log that no copy has."""

    first: int
    end: int
    before_ms: int | None
    after_ms: int | None
    may_hide_election: bool


@dataclass(frozen=True)
class SlowRecord:
    """A data record of the quorum's log."""

    offset: int
    epoch: int
    at_ms: int
    said: Said


@dataclass(frozen=True)
class SlowAssignment:
    """The voters from here on, as id or id@directory."""

    offset: int
    epoch: int
    at_ms: int
    current: list[str]
    target: list[str] | None


def replicas(root: Path) -> list[SlowReplica]:
    """The logs in the folders of nodes below `root`."""
    found = []
    for node in sorted(path for path in root.iterdir() if (path / METADATA).is_dir()):
        known: dict[str, str] = {}
        if (node / META).exists():
            lines = (node / META).read_text().splitlines()
            known = dict(line.split("=", 1) for line in lines if "=" in line)
        number = known.get("node.id")
        found.append(
            SlowReplica(
                node.name if number is None else number,
                None if number is None else int(number),
                known.get("directory.id"),
                list(_batches(node / METADATA)),
            )
        )
    return found


def _batches(folder: Path) -> Iterator[SlowHeld]:
    times = list(all_append_times(folder))
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for at, header in headers(data):
            last = header.end_offset - 1
            here = [each.time_ms for each in times if each.base <= last < each.end]
            yield SlowHeld(
                header.base_offset,
                header.end_offset,
                header.epoch,
                header.max_timestamp_ms,
                here[0] if here else None,
                list(decode(data[at : at + header.size_bytes])),
            )


def quorum_log(logs: Sequence[SlowReplica]) -> list[SlowHeld]:
    """The copy whose end is the most up to date; all begin at 0 here."""
    best = max(logs, key=lambda log: (log.batches[-1].epoch, log.batches[-1].end))
    return list(best.batches)


def said(log: Sequence[SlowHeld]) -> list[SlowRecord]:
    """The data records of the log."""
    return [
        SlowRecord(record.offset, batch.epoch, record.timestamp_ms, codec.decode(record.value))
        for batch in log
        for record in batch.records
        if not record.control and record.value is not None
    ]


def leaders(log: Sequence[SlowHeld]) -> dict[int, LeaderChange]:
    """The leader of each epoch, as the leader wrote it."""
    return {
        batch.epoch: LeaderChange.decode(record.value)
        for batch, record in _control(log, ControlType.LEADER_CHANGE)
    }


def assignments(log: Sequence[SlowHeld]) -> list[SlowAssignment]:
    """The voters over time."""
    found = []
    for batch, record in _control(log, ControlType.KRAFT_VOTERS):
        assignment = decode_voters(record.value)
        current = [voter.key for voter in assignment.current.voters]
        found.append(
            SlowAssignment(
                record.offset,
                batch.epoch,
                record.timestamp_ms,
                [_named(key.id, key.directory_id) for key in current],
                None
                if assignment.target is None
                else [_named(key.id, key.directory_id) for key in assignment.target],
            )
        )
    return found


def _named(node_id: int, directory: UUID) -> str:
    return str(node_id) if directory == NO_DIRECTORY else f"{node_id}@{uuid_to_text(directory)}"


def _control(log: Sequence[SlowHeld], wanted: ControlType) -> Iterator[tuple[SlowHeld, Record]]:
    for batch in log:
        for record in batch.records:
            if record.control and control_type(record.key) == wanted:
                yield batch, record
