"""The folders of partitions, and the mark of a clean shutdown."""

from pathlib import Path
from uuid import UUID

import pytest

from broker.storage.log_dir import (
    CLEAN_SHUTDOWN_NAME,
    METADATA_NAME,
    claim,
    discard,
    partition_folders,
    read_topic_id,
    remove_leftovers,
    take_clean_shutdown,
    write_clean_shutdown,
)
from statemachine.vocabulary import NO_EPOCH

TOPIC = UUID("6ec0cb24-cd46-4d8c-9e86-4c02c8d3e011")
OTHER = UUID("00000000-0000-4000-8000-000000000001")


def test_a_folder_names_its_topic_in_kafkas_form(tmp_path: Path) -> None:
    path, aside = claim(tmp_path, "t.a-b_c", 12, TOPIC)
    assert (path.name, aside) == ("t.a-b_c-12", None)
    assert (path / METADATA_NAME).read_text() == "version: 0\ntopic_id: bsDLJM1GTYyehkwCyNPgEQ\n"
    assert read_topic_id(path) == TOPIC


def test_a_folder_is_found_again(tmp_path: Path) -> None:
    path, _ = claim(tmp_path, "t", 0, TOPIC)
    (path / "00000000000000000000.log").write_bytes(b"")
    assert claim(tmp_path, "t", 0, TOPIC) == (path, None)
    (found,) = partition_folders(tmp_path)
    assert (found.path, found.topic, found.number, found.topic_id) == (path, "t", 0, TOPIC)


def test_a_folder_of_another_topic_is_set_aside_whole(tmp_path: Path) -> None:
    path, _ = claim(tmp_path, "t", 0, OTHER)
    (path / "00000000000000000000.log").write_bytes(b"theirs")
    again, aside = claim(tmp_path, "t", 0, TOPIC)
    assert aside is not None
    assert (aside / "00000000000000000000.log").read_bytes() == b"theirs"
    assert read_topic_id(aside) == OTHER
    assert list(again.glob("*.log")) == []
    assert [each.path for each in partition_folders(tmp_path)] == [again]


def test_a_log_without_a_topic_id_is_somebodys_and_set_aside(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"whose?")
    _, aside = claim(tmp_path, "t", 0, TOPIC)
    assert aside is not None
    assert [each.name for each in aside.iterdir()] == ["00000000000000000000.log"]


def test_a_folder_whose_making_was_interrupted_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path, aside = claim(tmp_path, "t", 0, TOPIC)
    assert (read_topic_id(path), aside) == (TOPIC, None)


@pytest.mark.parametrize("text", ["", "version: 0\ntopic_id: x\n", "topic_id: \xff", "nonsense"])
def test_a_topic_id_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / METADATA_NAME).write_text(text, encoding="latin-1")
    assert read_topic_id(tmp_path) is None


def test_a_discarded_log_is_gone(tmp_path: Path) -> None:
    path, _ = claim(tmp_path, "t", 0, TOPIC)
    discard(path, TOPIC)
    discard(path, TOPIC)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_now_belongs_to_another_topic_is_not_discarded(tmp_path: Path) -> None:
    path, _ = claim(tmp_path, "t", 0, TOPIC)
    discard(path, OTHER)
    assert read_topic_id(path) == TOPIC


def test_the_rest_of_an_interrupted_discard_is_no_log_and_is_removed(tmp_path: Path) -> None:
    path, _ = claim(tmp_path, "t", 0, TOPIC)
    path.rename(tmp_path / "bsDLJM1GTYyehkwCyNPgEQ.0.0-delete")
    assert partition_folders(tmp_path) == []
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_metadata_log_is_no_partition_of_this_kind(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    assert partition_folders(tmp_path) == []


def test_the_mark_of_a_clean_shutdown_is_taken_once(tmp_path: Path) -> None:
    write_clean_shutdown(tmp_path, 42)
    text = (tmp_path / CLEAN_SHUTDOWN_NAME).read_text()
    assert text == '{"version":0,"brokerEpoch":42}'
    assert take_clean_shutdown(tmp_path) == 42
    assert take_clean_shutdown(tmp_path) == NO_EPOCH


@pytest.mark.parametrize("text", ["", "{}", '{"version":9,"brokerEpoch":1}', "\xff"])
def test_a_mark_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / CLEAN_SHUTDOWN_NAME).write_text(text, encoding="latin-1")
    assert take_clean_shutdown(tmp_path) == NO_EPOCH
