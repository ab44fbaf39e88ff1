"""The state at the end of a metadata log: the image, the voters, unsupported contents.

The log is read from its checkpoint on, or from 0. Nothing is left out in silence: a record that is
not understood, and a fact that nobody here would act upon, are named.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from admin.tools.adopt.source import AdoptError
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.vocabulary import Offset
from quorum.core.voter_set import VoterAssignment
from quorum.log.checkpoint import Checkpoint
from quorum.log.segmented_log import SegmentedLog
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    control_name,
    control_type,
    decode_kraft_version,
    decode_voters,
)
from quorum.records.decode import Record, decode
from statemachine.features.features import FEATURES, KRAFT_VERSION
from statemachine.image.image import Image
from statemachine.image.snapshot import load
from statemachine.records import codec, kafka_records
from statemachine.records.field_names import TYPE_NAMES, frame_of
from statemachine.records.primitives import MalformedRecord
from statemachine.replay import replay

_EXAMPLES_MAX: Final = 3
_ZK_MIGRATION_UNDER_WAY: Final = frozenset({1, 2})


@dataclass(slots=True)
class History:
    """The contents of one log."""

    image: Image = field(default_factory=Image)
    kraft_version: int = 0
    voters: VoterAssignment | None = None
    """Who votes at the end; None where the log does not say."""
    unknown: dict[int, list[int]] = field(default_factory=dict)
    """Offsets of records of each type that is not known."""


def read_history(folder: Path, checkpoint: Checkpoint | None) -> History:
    """Read the log in `folder`, which is a copy of ours; raises `AdoptError`."""
    history = History()
    if checkpoint is not None:
        _begin(history, checkpoint)
    log = SegmentedLog(folder)
    try:
        for record in _records(log, Offset(history.image.end_offset)):
            _take(history, record)
    finally:
        log.close()
    return history


def _begin(history: History, checkpoint: Checkpoint) -> None:
    try:
        for value in checkpoint.records():
            _note_unknown(history, value, checkpoint.id.offset - 1)
        load(history.image, checkpoint.records(), checkpoint.id.offset)
    except MalformedRecord as error:
        raise AdoptError(f"{checkpoint.path.name}: a record cannot be read: {error}") from error
    history.kraft_version = checkpoint.kraft_version
    history.voters = checkpoint.voters


def _records(log: SegmentedLog, start: Offset) -> Iterator[Record]:
    at = start
    while at < log.end.offset:
        for record in decode(log.read(at, log.end.offset, FETCH_BYTES_MAX)):
            if record.offset >= at:
                yield record
                at = Offset(record.offset + 1)


def _take(history: History, record: Record) -> None:
    if record.control:
        _take_control(history, record)
        history.image.advance(record.offset + 1)
        return
    if record.value is None:
        raise AdoptError(f"the record at offset {record.offset} has no value: no metadata has none")
    try:
        _note_unknown(history, record.value, record.offset)
        replay(history.image, codec.decode(record.value), record.offset)
    except MalformedRecord as error:
        raise AdoptError(
            f"the record at offset {record.offset} cannot be read: {error}; a newer version of "
            "this program may know it"
        ) from error


def _take_control(history: History, record: Record) -> None:
    try:
        match control_type(record.key):
            case ControlType.LEADER_CHANGE:
                pass  # Who led is of no interest any more.
            case ControlType.KRAFT_VERSION:
                history.kraft_version = decode_kraft_version(record.value)
            case ControlType.KRAFT_VOTERS:
                history.voters = decode_voters(record.value)
            case _:
                name = control_name(record.key)
                raise AdoptError(
                    f"the {name} record at offset {record.offset} has no place in a metadata log"
                )
    except BadControlRecord as error:
        raise AdoptError(f"the control record at offset {record.offset}: {error}") from error


def _note_unknown(history: History, value: bytes, offset: int) -> None:
    type_id = frame_of(value).type_id
    if type_id not in TYPE_NAMES:
        history.unknown.setdefault(type_id, []).append(offset)


def refusals(history: History) -> list[str]:
    """The unsupported contents of the log, one sentence each."""
    return [
        *_unknown_types(history),
        *_features(history.image.features),
        *_kraft_version(history.kraft_version),
        *_facts(history.image),
    ]


def _unknown_types(history: History) -> Iterator[str]:
    for type_id, offsets in sorted(history.unknown.items()):
        yield (
            f"{len(offsets)} records of type {type_id}, which is not known (the first at offset "
            f"{offsets[0]}): what they say would be lost"
        )


def _features(levels: dict[str, int]) -> Iterator[str]:
    for name, level in sorted(levels.items()):
        feature = FEATURES.get(name)
        if feature is None:
            yield f"feature {name} is at level {level}, and is not known"
        elif not feature.lowest <= level <= feature.highest:
            yield (
                f"feature {name} is at level {level}; supported are {feature.lowest} to "
                f"{feature.highest}"
            )


def _kraft_version(level: int) -> Iterator[str]:
    highest = FEATURES[KRAFT_VERSION].highest
    if level > highest:
        yield f"feature {KRAFT_VERSION} is at level {level}; supported are 0 to {highest}"


def _facts(image: Image) -> Iterator[str]:
    kept: dict[type, list[str]] = {}
    for fact in image.facts.values():
        kept.setdefault(type(fact), []).append(_named(fact))
    for shape, what, why in (
        (
            kafka_records.AccessControlEntry,
            "access control entries",
            "nobody here would check them",
        ),
        (kafka_records.UserScramCredential, "SCRAM credentials", "nobody could log in with them"),
        (kafka_records.DelegationToken, "delegation tokens", "nobody could log in with them"),
        (kafka_records.ZkMigrationState, "migration from ZooKeeper", "finish it with Kafka first"),
    ):
        found = [each for each in kept.get(shape, []) if each]
        if found:
            shown = "; ".join(found[:_EXAMPLES_MAX])
            more = "" if len(found) <= _EXAMPLES_MAX else f"; and {len(found) - _EXAMPLES_MAX} more"
            yield f"{what} ({len(found)}): {shown}{more}: {why}"


def _named(fact: kafka_records.Record) -> str:
    """The name of an unsupported fact; empty for a supported one."""
    match fact:
        case kafka_records.AccessControlEntry():
            return f"{fact.principal} from {fact.host} on {fact.resource_name!r}"
        case kafka_records.UserScramCredential():
            return f"user {fact.name}"
        case kafka_records.DelegationToken():
            return f"token {fact.token_id} of {fact.owner}"
        case kafka_records.ZkMigrationState(state=state):
            return f"state {state}" if state in _ZK_MIGRATION_UNDER_WAY else ""
        case _:
            return ""
