"""The start of a log, whatever a crash has left beside it."""

from pathlib import Path

import pytest

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import checkpoint_name
from quorum.log.errors import FileDamaged
from quorum.log.segmented_log import SegmentedLog
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.persistent_state import basis, contains
from tests.contracts.batches import batch
from tests.contracts.log_worlds import begun_at
from tests.quorum.log.small_snapshots import id_, parts, written


def a_log(folder: Path, *epochs: int, start: int = 0) -> SegmentedLog:
    """A log of one record an epoch, committed."""
    log = begun_at(Offset(start), SegmentedLog(folder))
    for at, epoch in enumerate(epochs, start=start):
        log.append(batch(at, epoch=epoch))
    log.commit()
    return log


def test_a_log_from_its_first_record_begins_with_the_newest_checkpoint_if_there_is_one(
    tmp_path: Path,
) -> None:
    log = a_log(tmp_path, 1, 1, 2, 2, 2)
    assert basis(tmp_path, log).checkpoint is None
    store = FileSnapshotStore(tmp_path)
    for offset, epoch in ((2, 1), (4, 2)):
        written(store, id_(offset, epoch), *parts(b"a", epoch=epoch))
    found = basis(tmp_path, log)
    assert found.checkpoint is not None
    assert (found.checkpoint.id, found.is_apart) == (id_(4, 2), False)


def test_the_older_snapshot_replaces_a_damaged_one(tmp_path: Path) -> None:
    log = a_log(tmp_path, 1, 1, 2, 2, 2)
    store = FileSnapshotStore(tmp_path)
    written(store, id_(2, 1), *parts(b"a", epoch=1))
    written(store, id_(4, 2), parts(b"a", epoch=2)[0])
    found = basis(tmp_path, log)
    assert found.checkpoint is not None
    assert found.checkpoint.id == id_(2, 1)
    ((damaged, problem),) = found.damaged
    assert damaged == id_(4, 2)
    assert "no footer" in problem.reason


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, 2), (4, 3), (2, 2)], ids=["beyond", "other epoch", "older epoch"]
)
def test_one_that_the_log_does_not_lead_up_to_was_being_installed(
    offset: int, epoch: int, tmp_path: Path
) -> None:
    log = a_log(tmp_path, 1, 1, 2, 2, 2)
    written(FileSnapshotStore(tmp_path), id_(offset, epoch), *parts(b"a", epoch=epoch))
    found = basis(tmp_path, log)
    assert found.is_apart
    assert found.checkpoint is not None
    assert found.checkpoint.id == id_(offset, epoch)


def test_damage_to_one_that_was_being_installed_is_refused(tmp_path: Path) -> None:
    """Part of the log that it was to replace may be gone: nobody can tell what was promised."""
    log = a_log(tmp_path, 1, 1, 2, 2, 2)
    written(FileSnapshotStore(tmp_path), id_(9, 2), parts(b"a", epoch=2)[0])
    with pytest.raises(FileDamaged, match="no footer"):
        basis(tmp_path, log)


def test_a_log_without_what_came_before_it_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path, 3, 3, start=5)
    with pytest.raises(FileDamaged, match="begins at offset 5, and no checkpoint has the records"):
        basis(tmp_path, log)
    written(FileSnapshotStore(tmp_path), id_(6, 3), parts(b"a", epoch=3)[0])
    with pytest.raises(FileDamaged, match=r"records before it; .*3\.checkpoint: it has no footer"):
        basis(tmp_path, log)
    (tmp_path / checkpoint_name(id_(6, 3))).unlink()
    written(FileSnapshotStore(tmp_path), id_(5, 2), *parts(b"a", epoch=2))
    found = basis(tmp_path, log)
    assert found.checkpoint is not None
    assert not found.is_apart


def test_the_epoch_of_the_last_record_tells_if_a_log_contains_a_checkpoint(tmp_path: Path) -> None:
    log = a_log(tmp_path, 1, 1, 2)
    inside = [(1, 1), (2, 1), (3, 2)]
    for offset in range(5):
        for epoch in range(4):
            found = contains(log, OffsetAndEpoch(Epoch(epoch), Offset(offset)))
            assert found == ((offset, epoch) in inside or offset == 0)
