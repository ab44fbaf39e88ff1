"""The contents of a folder formatted by Kafka's tool, as the first leader applies them.

The files here are written by our own code in Kafka's format;
tests/process/test_kafka_formatted_folders.py uses folders that Kafka's tool has formatted.
"""

from pathlib import Path

import pytest

from admin.formatted import FILE_NAME, UnsupportedFormat, formatted
from quorum.core.vocabulary import Epoch
from quorum.log.errors import FileDamaged
from quorum.persistent_state import LOG_FOLDER
from quorum.records.control import SnapshotBatches
from statemachine.features.features import RECORDED
from statemachine.records import codec, kafka_records
from statemachine.records.kafka_records import Record

AT_ZERO = f"{0:020}-{0:010}.checkpoint"


def write(path: Path, *said: Record) -> None:
    batches = SnapshotBatches(Epoch(0), 0)
    data = batches.opening(None, None)
    if said:
        data += batches.data([codec.encode(record, 29) for record in said])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data + batches.closing())


def level(name: str, level: int) -> Record:
    return kafka_records.FeatureLevel(name=name, level=level)


def test_the_levels_are_those_of_the_folder_and_what_it_does_not_name_is_at_0(
    tmp_path: Path,
) -> None:
    write(tmp_path / FILE_NAME, level("metadata.version", 25), level("transaction.version", 1))
    found = formatted(tmp_path)
    assert found is not None
    assert (found.path, found.metadata_version) == (tmp_path / FILE_NAME, 25)
    assert dict(found.features) == {**dict.fromkeys(RECORDED, 0), "transaction.version": 1}


def test_levels_may_stand_beside_the_voters_too(tmp_path: Path) -> None:
    write(tmp_path / LOG_FOLDER / AT_ZERO, level("metadata.version", 29))
    found = formatted(tmp_path)
    assert found is not None
    assert (found.path.name, found.metadata_version) == (AT_ZERO, 29)


def test_a_folder_that_says_nothing_was_not_formatted(tmp_path: Path) -> None:
    assert formatted(tmp_path) is None
    assert formatted(tmp_path / "not-there") is None
    write(tmp_path / LOG_FOLDER / AT_ZERO)
    assert formatted(tmp_path) is None


def test_a_log_that_has_begun_says_itself_what_is_in_force(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, level("metadata.version", 25))
    log = tmp_path / LOG_FOLDER / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(b"")
    assert formatted(tmp_path) is not None
    log.write_bytes(b"some batch")
    assert formatted(tmp_path) is None


def scram(iterations: int) -> kafka_records.UserScramCredential:
    return kafka_records.UserScramCredential(
        name="alice",
        mechanism=1,
        salt=b"s",
        stored_key=b"k",
        server_key=b"v",
        iterations=iterations,
    )


def test_credentials_are_taken_and_the_last_of_a_user_counts(tmp_path: Path) -> None:
    """KIP-900: `kafka-storage format --add-scram`."""
    write(tmp_path / FILE_NAME, level("metadata.version", 29), scram(4_096), scram(8_192))
    found = formatted(tmp_path)
    assert found is not None
    assert found.scram_credentials == (scram(8_192),)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ([level("metadata.version", 14)], "metadata.version 14 is not supported, 15 to 30 are"),
        ([level("metadata.version", 29), level("new.version", 1)], "new.version at level 1"),
        (
            [level("metadata.version", 29), level("group.version", 9)],
            "group.version 9 is not supported, 0 to 1 are",
        ),
        ([level("metadata.version", 29), kafka_records.NoOp()], "a record of NoOp"),
    ],
)
def test_a_format_with_credentials_or_unknown_levels_is_refused_by_name(
    said: list[Record], what: str, tmp_path: Path
) -> None:
    write(tmp_path / FILE_NAME, *said)
    with pytest.raises(UnsupportedFormat) as refused:
        formatted(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(refused.value)
    assert what in str(refused.value)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, level("metadata.version", 29))
    data = bytearray((tmp_path / FILE_NAME).read_bytes())
    data[-20] ^= 1
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(FileDamaged, match=FILE_NAME):
        formatted(tmp_path)
