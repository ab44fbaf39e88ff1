"""The name and contents of a snapshot, and its way from one replica to another."""

import random
from pathlib import Path

from quorum.core.effects import InstallSnapshot
from quorum.core.events import SnapshotInstalled, SnapshotRefused
from quorum.core.messages import FetchSnapshotResponse
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId, Snapshot
from quorum.core.voter_set import VoterAssignment, VoterSet, VoterSetHistory
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.persistent_state import PersistentState, QuorumConfig, load_persistent_state
from tests.contracts.batches import run
from tests.quorum.driver.snapshot_fixture import Bench, id_
from tests.quorum.log.small_snapshots import VOTERS, parts, written

EFFECT = InstallSnapshot(id_(30), is_mixed=False)


def test_a_snapshot_is_named_after_its_last_record_and_has_the_voters_there(tmp_path: Path) -> None:
    """The log goes on behind it, in a later epoch and with other voters."""
    later = VoterAssignment(VoterSet.of(1, 2, 3))
    assignments = VoterSetHistory([(Offset(1), VOTERS), (Offset(15), later)])
    bench = Bench(tmp_path, epochs=[1] * 10 + [2] * 10, assignments=assignments)
    bench.take(10)
    assert [each.id for each in bench.store.snapshots] == [OffsetAndEpoch(Epoch(1), Offset(10))]
    assert read_checkpoint(tmp_path / checkpoint_name(id_(10))).voters == VOTERS


def test_a_part_of_a_snapshot_equals_the_file_at_its_position(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(10)
    file = (tmp_path / checkpoint_name(id_(10))).read_bytes()
    part = FetchSnapshotResponse(
        epoch=Epoch(1), snapshot=id_(10), size_bytes=len(file), position=30, length=40
    )
    assert bench.snapshots.part_for(part) == file[30:70]


def test_an_installed_snapshot_replaces_log_and_older_snapshots_and_is_loaded(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    bench.take(10)
    whole = b"".join(parts(b"a", b"b", epoch=1))
    bench.store.receive(id_(30), whole, 0)
    installed = bench.snapshots.installed(EFFECT, bench.snapshots.installing(EFFECT)())
    assert installed == SnapshotInstalled(Snapshot(id_(30), len(whole)), VOTERS)
    assert bench.loaded == [(id_(30), [b"a", b"a", b"b", b"b"])]
    assert (bench.log.start, bench.log.end.offset) == (30, 30)
    assert [each.id for each in bench.store.snapshots] == [id_(30)]


def test_an_invalid_download_leaves_the_log_in_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.receive(id_(30), parts(b"a", epoch=1)[0], 0)
    refused = bench.snapshots.installed(EFFECT, bench.snapshots.installing(EFFECT)())
    assert isinstance(refused, SnapshotRefused)
    assert (bench.log.start, bench.log.end.offset) == (0, 20)
    assert bench.loaded == []


def test_a_folder_that_is_opened_again_knows_the_voters_of_its_snapshot(tmp_path: Path) -> None:
    past = _opened(tmp_path)
    log = past.log
    written(past.store, id_(30), *parts(b"a", epoch=1))
    log.begin_anew(Offset(30))
    log.close()
    past.elections.write(ElectionState(Epoch(1)))
    again = _opened(tmp_path)
    again.log.close()
    assert again.view.assignments.last == VOTERS


def test_a_download_is_removed_once_the_log_has_its_records(tmp_path: Path) -> None:
    """Its leader was replaced by one that had the records; nobody else would clear it away."""
    past = _opened(tmp_path)
    past.elections.write(ElectionState(Epoch(1)))
    past.store.receive(id_(20), b"half", 0)
    past.store.receive(id_(20), b"of it", 4)
    for batch in run(0, *[1] * 20):
        past.log.append(batch)
    past.log.close()
    again = _opened(tmp_path)
    again.log.close()
    assert again.store.partial is None
    assert not list(tmp_path.rglob("*.part"))


def test_a_download_stays_while_the_log_ends_before_it(tmp_path: Path) -> None:
    past = _opened(tmp_path)
    past.store.receive(id_(20), b"half", 0)
    past.log.close()
    again = _opened(tmp_path)
    again.log.close()
    assert again.store.partial == (id_(20), 4)


def _opened(folder: Path) -> PersistentState:
    config = QuorumConfig(node_id=ReplicaId(1), folder=folder, voters={ReplicaId(1): None})
    return load_persistent_state(config, rng=random.Random(1))
