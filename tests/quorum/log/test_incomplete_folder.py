"""A folder without one of its parts: refused if it could be taken for the voter's."""

import random
from pathlib import Path

import pytest

from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId
from quorum.log.errors import FileDamaged
from quorum.log.meta_properties import next_boot
from quorum.persistent_state import LOG_FOLDER, QuorumConfig, load_persistent_state

WAY_BACK = "move this node's whole folder away, `meta.properties` with it, and start again"


def start(folder: Path, seed: int = 1) -> str:
    """Start a node in `folder` up to its boot timestamp, and stop it; return its directory id."""
    config = QuorumConfig(node_id=ReplicaId(3), folder=folder, voters={})
    past = load_persistent_state(config, rng=random.Random(seed))
    past.elections.write(ElectionState(Epoch(2)))
    past.log.close()
    next_boot(folder, 1_000)
    return str(past.key.directory_id)


def test_a_used_folder_without_its_log_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    start(folder)
    (folder / LOG_FOLDER).rename(tmp_path / "away")
    with pytest.raises(FileDamaged, match=f"{LOG_FOLDER}: it is missing.*run in the folder") as it:
        start(folder)
    assert WAY_BACK in str(it.value)
    assert not (folder / LOG_FOLDER).exists()
    (tmp_path / "away").rename(folder / LOG_FOLDER)
    start(folder)


@pytest.mark.parametrize("gone", ["*.log", "*"])
def test_a_used_folder_whose_records_were_removed_is_refused(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "data"
    start(folder)
    for each in (folder / LOG_FOLDER).glob(gone):
        each.unlink()
    before = sorted((folder / LOG_FOLDER).iterdir())
    with pytest.raises(FileDamaged, match="there is no such file, but a node has run") as it:
        start(folder)
    assert WAY_BACK in str(it.value)
    assert sorted((folder / LOG_FOLDER).iterdir()) == before


def test_a_voter_that_has_voted_and_has_no_record_yet_starts_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert start(folder) == start(folder)


def test_a_log_without_meta_properties_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    start(folder)
    (folder / "meta.properties").unlink()
    with pytest.raises(
        FileDamaged, match=r"meta\.properties: it is missing, but there is a log"
    ) as it:
        start(folder)
    assert WAY_BACK in str(it.value)
    assert not (folder / "meta.properties").exists()


def test_the_remedy_of_each_refusal_makes_a_new_directory(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = start(folder)
    folder.rename(tmp_path / "away")
    assert start(folder, seed=2) != first


def test_a_folder_that_was_formatted_or_prepared_and_never_used_is_taken(tmp_path: Path) -> None:
    formatted = tmp_path / "formatted"
    first = start(formatted)
    (formatted / "boot-timestamp").unlink()
    for file in (formatted / LOG_FOLDER).iterdir():
        file.unlink()
    (formatted / LOG_FOLDER).rmdir()
    assert start(formatted, seed=2) == first
    prepared = tmp_path / "prepared"
    (prepared / LOG_FOLDER).mkdir(parents=True)
    start(prepared)
