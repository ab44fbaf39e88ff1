"""Read what Kafka's `kafka-storage format` wrote for the first leader.

The quorum reads the voters (`quorum.log`). The levels of the features and the SCRAM credentials
(KIP-900) are metadata records in `bootstrap.checkpoint` or, if a release of Kafka keeps both in one
file, in the checkpoint at offset 0. The folder is not changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import Checkpoint, formatted_for, read_checkpoint
from quorum.log.errors import StorageError
from quorum.log.filesystem import usable
from quorum.log.segment import segment_base
from quorum.persistent_state import LOG_FOLDER
from statemachine.cluster import founding_levels
from statemachine.commands import FoundCluster
from statemachine.features.features import KRAFT_VERSION, RECORDED
from statemachine.records import codec, kafka_records
from statemachine.records.kafka_records import UserScramCredential
from statemachine.records.primitives import MalformedRecord
from statemachine.vocabulary import METADATA_VERSION

FILE_NAME: Final = "bootstrap.checkpoint"

_BEFORE_ALL: Final = OffsetAndEpoch(Epoch(0), Offset(0))


class UnsupportedFormat(StorageError):
    """The folder was formatted with something that our controllers do not support."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path}: it was formatted with {what}. Nothing has been changed. Format a new folder "
            "without it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """The levels and credentials that the first leader puts in force."""

    path: Path
    metadata_version: int
    features: tuple[tuple[str, int], ...]
    """Levels of all other features with metadata records."""
    scram_credentials: tuple[UserScramCredential, ...]


def formatted(folder: Path) -> Formatted | None:
    """Return what a folder was formatted with; None if no tool of Kafka's has done so.

    None as well for a log that has begun: it contains what is in force. Raises `StorageError`.
    """
    log = folder / LOG_FOLDER
    with usable(log):
        names = log.iterdir() if log.is_dir() else ()
        if any(segment_base(each.name) is not None and each.stat().st_size for each in names):
            return None
    levels: dict[str, int] = {}
    credentials: dict[tuple[str, int], UserScramCredential] = {}
    path = folder / FILE_NAME
    for checkpoint in _checkpoints(path, log):
        path = checkpoint.path
        _take(checkpoint, levels, credentials)
    if METADATA_VERSION not in levels:
        return None
    features = tuple((name, levels.get(name, 0)) for name in RECORDED)
    command = FoundCluster(metadata_version=levels[METADATA_VERSION], features=features)
    outcome = founding_levels(command)
    if isinstance(outcome, str):
        raise UnsupportedFormat(path, f"levels that no cluster can have: {outcome}")
    return Formatted(
        path=path,
        metadata_version=levels[METADATA_VERSION],
        features=command.features,
        scram_credentials=tuple(credentials.values()),
    )


def _checkpoints(path: Path, log: Path) -> Iterator[Checkpoint]:
    if path.exists():
        yield read_checkpoint(path, id_=_BEFORE_ALL)
    founding = formatted_for(log) if log.is_dir() else None
    if founding is not None:
        yield founding


def _take(
    checkpoint: Checkpoint,
    levels: dict[str, int],
    credentials: dict[tuple[str, int], UserScramCredential],
) -> None:
    """Add what the records say; raises `UnsupportedFormat`."""
    for value in checkpoint.records():
        try:
            record = codec.decode(value)
        except MalformedRecord as error:
            raise UnsupportedFormat(checkpoint.path, f"an unknown record: {error}") from error
        match record:
            case kafka_records.FeatureLevel(name=name, level=level):
                if name not in (METADATA_VERSION, KRAFT_VERSION, *RECORDED):
                    raise UnsupportedFormat(checkpoint.path, f"{name} at level {level}")
                levels[name] = level
            case UserScramCredential(name=user, mechanism=mechanism):
                credentials[user, mechanism] = record
            case _:
                raise UnsupportedFormat(checkpoint.path, f"a record of {type(record).__name__}")
