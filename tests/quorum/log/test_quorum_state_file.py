import json
import re
from pathlib import Path
from uuid import UUID

import pytest

from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId, ReplicaKey, uuid_from_text
from quorum.log.errors import FileDamaged, FolderForeign, FolderUnusable, FormatUnknown
from quorum.log.quorum_state import QuorumStateFile
from quorum.ports import LogFailure

DIRECTORY = "5n0Q2mJ7RyS1xWw1eEo3Kw"
KAFKAS = (
    '{"leaderId":3,"leaderEpoch":3,"votedId":3,'
    '"votedDirectoryId":"5n0Q2mJ7RyS1xWw1eEo3Kw","data_version":1}'
)
KAFKAS_VERSION_0 = (
    '{"clusterId":"","leaderId":3,"leaderEpoch":3,"votedId":-1,'
    '"appliedOffset":0,"currentVoters":[],"data_version":0}'
)
VOTED = ElectionState(
    Epoch(3),
    voted_for=ReplicaKey(ReplicaId(3), uuid_from_text(DIRECTORY)),
    leader=ReplicaId(3),
)


def test_the_file_of_a_kafka_controller_is_read(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(KAFKAS)
    assert QuorumStateFile(tmp_path).read() == VOTED
    path.write_text(KAFKAS_VERSION_0)
    assert QuorumStateFile(tmp_path).read() == ElectionState(Epoch(3), leader=ReplicaId(3))
    path.write_text(KAFKAS_VERSION_0.replace('"votedId":-1', '"votedId":2'))
    assert QuorumStateFile(tmp_path).read().voted_for == ReplicaKey(ReplicaId(2))


def test_our_file_equals_kafkas_byte_for_byte(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path).write(VOTED)
    assert (tmp_path / "quorum-state").read_text() == KAFKAS


def test_nobody_is_written_as_minus_one(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path).write(ElectionState(Epoch(8)))
    assert json.loads((tmp_path / "quorum-state").read_text()) == {
        "leaderId": -1,
        "leaderEpoch": 8,
        "votedId": -1,
        "votedDirectoryId": "A" * 22,
        "data_version": 1,
    }


def test_the_cluster_id_is_written_once_it_is_known_and_found_again(tmp_path: Path) -> None:
    store = QuorumStateFile(tmp_path)
    store.write(VOTED)
    store.cluster_id = "4L6g3nShT-eMCtK--X86sw"
    store.write(VOTED)
    assert (tmp_path / "quorum-state").read_text() == KAFKAS.replace(
        "{", '{"clusterId":"4L6g3nShT-eMCtK--X86sw",'
    )
    again = QuorumStateFile(tmp_path)
    assert again.read() == VOTED
    assert again.cluster_id == "4L6g3nShT-eMCtK--X86sw"


def test_the_state_of_another_cluster_is_refused(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path, cluster_id="one").write(VOTED)
    with pytest.raises(FolderForeign, match=r"quorum-state: .* cluster one, .* of cluster two"):
        QuorumStateFile(tmp_path, cluster_id="two").read()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\x00" * 100, "not the state of an election"),
        (KAFKAS.encode()[:-1], "truncated"),
        (b"[]", "Expected `object`"),
        (KAFKAS.replace('"leaderEpoch":3', '"leaderEpoch":"3"').encode(), "leaderEpoch"),
        (KAFKAS.replace('"leaderEpoch":3', '"leaderEpoch":-3').encode(), "leaderEpoch"),
        (KAFKAS.replace('"leaderId":3,', "").encode(), "leaderId"),
        (KAFKAS.replace('"votedId":3', '"votedId":-2').encode(), "votedId"),
        (KAFKAS.replace('"data_version":1', '"data_version":null').encode(), "data_version"),
        (KAFKAS.replace(DIRECTORY, "abc").encode(), "3 characters"),
        (KAFKAS.replace(f'"votedDirectoryId":"{DIRECTORY}",', "").encode(), "votedDirectoryId"),
    ],
)
def test_damaged_content_is_refused_with_the_file_and_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "quorum-state"
    path.write_bytes(content)
    with pytest.raises(FileDamaged, match=re.escape(reason)) as caught:
        QuorumStateFile(tmp_path).read()
    assert str(path) in str(caught.value)
    assert "joins as a new directory" in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [-1, 2, 3])
def test_a_newer_version_is_refused_by_name_and_left_alone(tmp_path: Path, version: int) -> None:
    """Other fields of it may have changed too."""
    path = tmp_path / "quorum-state"
    content = f'{{"data_version":{version},"ballots":[]}}'
    path.write_text(content)
    with pytest.raises(FormatUnknown, match=f"{path}: version {version}, only 0 and 1 are known"):
        QuorumStateFile(tmp_path).read()
    assert path.read_text() == content


def test_the_rest_of_an_interrupted_write_is_ignored_and_replaced(tmp_path: Path) -> None:
    store = QuorumStateFile(tmp_path)
    store.write(VOTED)
    (tmp_path / "quorum-state.tmp").write_text('{"leaderId":9,"leaderEp')
    assert QuorumStateFile(tmp_path).read() == VOTED
    store.write(ElectionState(Epoch(4)))
    assert store.read() == ElectionState(Epoch(4))
    assert [path.name for path in tmp_path.iterdir()] == ["quorum-state"]


def test_an_epoch_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    store = QuorumStateFile(tmp_path)
    store.write(VOTED)
    with pytest.raises(AssertionError, match="is not written"):
        store.write(ElectionState(Epoch(EPOCH_MAX + 1)))
    assert QuorumStateFile(tmp_path).read() == VOTED


def test_a_disk_that_does_not_take_the_election_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "quorum-state.tmp").mkdir()
    with pytest.raises(LogFailure, match=r"quorum-state cannot be written: Is a directory"):
        QuorumStateFile(tmp_path).write(VOTED)


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").mkdir()
    with pytest.raises(FolderUnusable, match=r"quorum-state: Is a directory"):
        QuorumStateFile(tmp_path).read()


def test_a_reserved_uuid_needs_no_special_case() -> None:
    assert uuid_from_text("A" * 22) == UUID(int=0)
