"""Backups one after the other: what each fetches, keeps and removes, and what a crash leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from admin.backup import run
from admin.backup.folder_storage import FolderStorage
from admin.backup.manifest import BackupError, log_name
from admin.backup.run import Retention
from admin.backup.storage import Writer, backup_ids, find_manifest
from admin.backup.verification import Verified, verify
from admin.client.metadata_source import Elsewhere, EpochsFell, Part, Records
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from statemachine.records import codec, kafka_records
from tests.admin.backup.stored_backups import HOUR_MS, TAKEN_MS, Through, backed_up, command
from tests.admin.tools.old_controllers import (
    CHECKPOINT,
    CHECKPOINT_END,
    EPOCH,
    LATER_MS,
    LOG,
    LOG_END,
    cut,
    followed_by,
    old,
    rest,
)
from tests.support.real_cluster import CLUSTER_ID, IN_TREE

NO_OP = codec.encode(kafka_records.NoOp(), 0)


def verified(place: Path, id_: str | None = None) -> Verified:
    storage = FolderStorage(place)
    return verify(storage, find_manifest(storage, id_))


def with_checkpoint(folder: Path, *, log: bytes = LOG) -> Path:
    """The folder of controller 3, whose log begins at its checkpoint."""
    behind = log[len(cut(CHECKPOINT_END)) :]
    return old(folder, 3, log=behind, start=CHECKPOINT_END, checkpoints=[IN_TREE / CHECKPOINT])


def test_a_first_backup_has_the_whole_log_and_says_what_it_is_as_of(tmp_path: Path) -> None:
    manifest = backed_up(old(tmp_path, 2), tmp_path / "to").manifest
    assert (manifest.cluster_id, manifest.taken_ms) == (CLUSTER_ID, TAKEN_MS)
    assert (manifest.end_offset, manifest.epoch) == (LOG_END, EPOCH)
    assert [each.id for each in manifest.voters] == [2, 3, 4]
    assert manifest.voters[0].endpoints == [("CONTROLLER", "127.0.0.1", 19002)]
    assert manifest.features["metadata.version"] == 29
    assert manifest.kraft_version == 1
    assert manifest.snapshot is None
    (piece,) = manifest.log
    assert (tmp_path / "to" / piece.name).read_bytes() == LOG
    assert len(verified(tmp_path / "to").image.topics) == 1


def test_a_snapshot_comes_with_the_log_behind_it(tmp_path: Path) -> None:
    manifest = backed_up(with_checkpoint(tmp_path), tmp_path / "to").manifest
    assert manifest.snapshot is not None
    assert (manifest.snapshot.end_offset, manifest.snapshot.epoch) == (CHECKPOINT_END, EPOCH)
    kept = (tmp_path / "to" / manifest.snapshot.name).read_bytes()
    assert kept == (IN_TREE / CHECKPOINT).read_bytes()
    (piece,) = manifest.log
    assert (tmp_path / "to" / piece.name).read_bytes() == rest(CHECKPOINT_END)
    whole = backed_up(old(tmp_path, 2), tmp_path / "other").manifest
    assert (manifest.voters, manifest.features) == (whole.voters, whole.features)
    assert verified(tmp_path / "to").partitions == verified(tmp_path / "other").partitions


def test_a_further_backup_fetches_only_what_is_new(tmp_path: Path) -> None:
    first = backed_up(old(tmp_path / "1", 2, log=cut(531)), tmp_path / "to").manifest
    second = backed_up(old(tmp_path / "2", 2), tmp_path / "to", now_ms=TAKEN_MS + 1)
    assert second.previous == first
    assert second.fetched_bytes == len(rest(531))
    assert verified(tmp_path / "to").manifest.end_offset == LOG_END
    assert verified(tmp_path / "to", first.id).manifest.end_offset == 531
    idle = backed_up(old(tmp_path / "3", 2), tmp_path / "to", now_ms=TAKEN_MS + 2)
    assert (idle.fetched_bytes, idle.manifest.log) == (0, second.manifest.log)


def test_a_cluster_whose_epochs_began_again_needs_another_place(tmp_path: Path) -> None:
    class Fell(Through):
        async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
            raise EpochsFell("no leader", end, Epoch(2))

    with pytest.raises(BackupError, match="begin again, name another place with --to"):
        backed_up(old(tmp_path, 2), tmp_path / "to", through=Fell)


def test_small_pieces_of_the_log_become_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [479, 493, 531, LOG_END]
    for place, end in enumerate(ends):
        log = LOG if end == LOG_END else cut(end)
        source = old(tmp_path / str(end), 2, log=log)
        manifest = backed_up(source, tmp_path / "to", now_ms=TAKEN_MS + place).manifest
    assert [(each.base_offset, each.end_offset) for each in manifest.log] == [(0, LOG_END)]
    monkeypatch.setattr(run, "GROWING_BYTES", 1)
    for place, end in enumerate(ends):
        source = tmp_path / str(end) / "old-2"
        manifest = backed_up(source, tmp_path / "apart", now_ms=TAKEN_MS + place).manifest
    bases = [0, *ends[:-1]]
    assert [(each.base_offset, each.end_offset) for each in manifest.log] == [
        *zip(bases, ends, strict=True)
    ]
    assert verified(tmp_path / "apart").manifest == manifest


def test_a_long_log_behind_a_snapshot_is_a_reason_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(old(tmp_path / "1", 2, log=cut(531)), tmp_path / "to")
    source = with_checkpoint(tmp_path / "2")
    short = backed_up(source, tmp_path / "to", now_ms=TAKEN_MS + 1).manifest
    assert short.snapshot is None
    monkeypatch.setattr(run, "NEW_SNAPSHOT_BYTES_MIN", 1)
    long = backed_up(source, tmp_path / "to", now_ms=TAKEN_MS + 2).manifest
    assert long.snapshot is not None
    assert long.snapshot.end_offset == CHECKPOINT_END
    assert long.end_offset == LOG_END
    assert verified(tmp_path / "to").manifest == long


def test_a_cluster_that_lost_what_was_backed_up_gets_a_backup_of_its_own(tmp_path: Path) -> None:
    """An older state was restored, and went on otherwise."""
    first = backed_up(
        old(tmp_path / "1", 2, log=followed_by(NO_OP, epoch=5), epoch=5), tmp_path / "to"
    ).manifest
    second = backed_up(
        old(tmp_path / "2", 2, log=followed_by(NO_OP, NO_OP, epoch=9), epoch=9),
        tmp_path / "to",
        now_ms=TAKEN_MS + 1,
    )
    assert second.previous is None
    (remark,) = second.remarks
    assert "restored or recovered from an older state" in remark
    assert verified(tmp_path / "to").manifest.epoch == 9
    assert verified(tmp_path / "to", first.id).manifest.epoch == 5


class Dying(Through):
    """A source that gives [493, 531), and then nothing any more."""

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        if end.offset == 531:
            raise BackupError("the connection is gone")
        found = await super().fetch(end)
        assert isinstance(found, Records)
        size_bytes = len(cut(531)) - len(cut(493))
        return Records(bytes(found.data)[:size_bytes], found.high_watermark)


def test_a_crash_in_the_middle_leaves_the_earlier_backup(tmp_path: Path) -> None:
    first = backed_up(old(tmp_path / "1", 2, log=cut(493)), tmp_path / "to").manifest
    before = sorted(path.name for path in (tmp_path / "to").iterdir())
    with pytest.raises(BackupError, match="the connection is gone"):
        backed_up(old(tmp_path / "2", 2), tmp_path / "to", now_ms=TAKEN_MS + 1, through=Dying)
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == before
    # A process that is killed takes nothing back.
    part = tmp_path / "to" / "00000000000000000000-1795300000009.log.part"
    part.write_bytes(LOG[:1000])
    whole = part.with_suffix("")
    whole.write_bytes(LOG[:1000])
    assert verified(tmp_path / "to").manifest == first
    backed_up(tmp_path / "2" / "old-2", tmp_path / "to", now_ms=TAKEN_MS + 2)
    assert not part.exists()
    assert not whole.exists()


class Garbling(Through):
    """A leader with a bad disk, or a network that changes a bit."""

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        found = await super().fetch(end)
        if not isinstance(found, Records) or not found.data:
            return found
        data = bytearray(found.data)
        data[len(data) // 2] ^= 1
        return Records(bytes(data), found.high_watermark)

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        part = await super().fetch_snapshot(id_, position)
        data = bytearray(part.data)
        data[len(data) // 2] ^= 1
        return Part(bytes(data), part.size_bytes)


class Ahead(Through):
    """A leader that sends more than is committed, as Kafka's do to observers."""

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        found = await super().fetch(end)
        return found if isinstance(found, Elsewhere) else Records(found.data, Offset(531))


def test_only_what_is_committed_is_taken(tmp_path: Path) -> None:
    manifest = backed_up(old(tmp_path, 2), tmp_path / "to", through=Ahead).manifest
    assert manifest.end_offset == 531
    assert verified(tmp_path / "to").manifest == manifest


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_of_damaged_bytes_no_backup_is_made(tmp_path: Path, has_checkpoint: bool) -> None:
    source = with_checkpoint(tmp_path) if has_checkpoint else old(tmp_path, 2)
    with pytest.raises(BackupError, match="is not sound, and no backup was made of it"):
        backed_up(source, tmp_path / "to", through=Garbling)
    assert [path.name for path in (tmp_path / "to").iterdir()] == [".lock"]


@pytest.mark.parametrize("damage", ["a bit", "the end"])
def test_a_backup_of_a_folder_says_what_is_missing_in_it(tmp_path: Path, damage: str) -> None:
    log = bytearray(LOG)
    if damage == "a bit":
        log[len(cut(493)) + 70] ^= 1
        said = f"is damaged at byte {len(cut(493))}"
    else:
        del log[-7:]
        said = f"the end of {tmp_path}/old-2/__cluster_metadata-0/{0:020}.log is not whole"
    source = old(tmp_path, 2, log=bytes(log))
    result = command("--from-folder", source, "--to", tmp_path / "to")
    assert result.exit_code == 0, result.stderr
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("Note: ")]
    assert said in note
    assert ("offset 493" if damage == "a bit" else "offset 545") in note


def test_a_folder_that_has_lost_its_identity_is_known_by_its_other_files(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    (source / "meta.properties").unlink()
    result = command("--from-folder", source, "--to", tmp_path / "to")
    assert result.exit_code == 1
    assert f"no file in {source} names its cluster" in result.stderr
    election = ElectionState(Epoch(EPOCH))
    QuorumStateFile(source / LOG_FOLDER, cluster_id=CLUSTER_ID).write(election)
    result = command("--from-folder", source, "--to", tmp_path / "to")
    assert result.exit_code == 0, result.stderr
    assert f"of cluster {CLUSTER_ID}" in result.stdout


def test_a_place_has_the_backups_of_one_cluster(tmp_path: Path) -> None:
    backed_up(old(tmp_path / "1", 2), tmp_path / "to")
    other = old(tmp_path / "2", 2, cluster_id="AAAAAAAAQACAAAAAAAAAAA")
    with pytest.raises(BackupError, match="holds backups of cluster"):
        backed_up(other, tmp_path / "to")


def test_a_backup_whose_files_are_gone_is_not_continued(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    first = backed_up(source, tmp_path / "to").manifest
    (tmp_path / "to" / first.log[0].name).unlink()
    again = backed_up(source, tmp_path / "to", now_ms=TAKEN_MS + 1)
    assert again.previous is None
    assert "is missing or cut short" in again.remarks[0]
    assert verified(tmp_path / "to").manifest == again.manifest


def test_a_small_piece_with_another_content_is_not_built_on(tmp_path: Path) -> None:
    first = backed_up(old(tmp_path / "1", 2, log=cut(531)), tmp_path / "to").manifest
    path = tmp_path / "to" / first.log[0].name
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(BackupError, match="does not hold what was written"):
        backed_up(old(tmp_path / "2", 2), tmp_path / "to", now_ms=TAKEN_MS + 1)


def test_old_backups_go_with_the_files_that_only_they_have(tmp_path: Path) -> None:
    source = old(tmp_path / "1", 2, log=cut(493))
    backed_up(source, tmp_path / "to")
    backed_up(with_checkpoint(tmp_path / "2"), tmp_path / "to", now_ms=TAKEN_MS + HOUR_MS)
    retention = Retention(age_ms=HOUR_MS)
    now_ms = TAKEN_MS + 2 * HOUR_MS
    log = followed_by(NO_OP, time_ms=now_ms)
    third = backed_up(
        old(tmp_path / "3", 2, log=log), tmp_path / "to", now_ms=now_ms, retention=retention
    )
    assert len(third.removed) == 1
    assert not third.remarks
    storage = FolderStorage(tmp_path / "to")
    assert len(backup_ids(storage)) == 2
    last = backed_up(
        tmp_path / "3" / "old-2",
        tmp_path / "to",
        now_ms=TAKEN_MS + 9 * HOUR_MS,
        retention=Retention(count=1),
    )
    assert backup_ids(storage) == [last.manifest.id]
    names = {*(each.name for each in last.manifest.files), last.manifest.name, ".lock"}
    assert {path.name for path in (tmp_path / "to").iterdir()} == names


def test_ids_rise_although_the_clock_was_put_back(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    made = [backed_up(source, tmp_path / "to", now_ms=now).manifest for now in (5, 3, 3)]
    ids = [each.id for each in made]
    assert ids == sorted(ids)
    assert len({*ids}) == 3
    assert [each.taken_ms for each in made] == [5, 3, 3]
    assert verified(tmp_path / "to").manifest == made[-1]


MONTH = Retention(age_ms=30 * 24 * HOUR_MS)
YEAR_MS = 365 * 24 * HOUR_MS


def test_a_clock_that_is_ahead_for_one_run_costs_no_backup(tmp_path: Path) -> None:
    """The last record of the cluster does not confirm that so much time has passed."""
    source, place = old(tmp_path, 2, log=followed_by(NO_OP)), tmp_path / "to"
    first = backed_up(source, place, now_ms=LATER_MS).manifest
    ahead = backed_up(source, place, now_ms=LATER_MS + YEAR_MS, retention=MONTH)
    assert not ahead.removed
    (remark,) = ahead.remarks
    assert "the last record of the cluster 2026-11-21T04:53:20Z" in remark
    assert "too old for --keep-for are kept (1)" in remark
    after = backed_up(source, place, now_ms=LATER_MS + HOUR_MS, retention=MONTH)
    assert after.removed == after.remarks == ()
    assert backup_ids(FolderStorage(place)) == [first.id, ahead.manifest.id, after.manifest.id]
    assert find_manifest(FolderStorage(place), None).taken_ms == LATER_MS + HOUR_MS


def test_a_record_of_the_future_costs_no_backup(tmp_path: Path) -> None:
    """The clock of the leader was ahead."""
    place = tmp_path / "to"
    backed_up(old(tmp_path / "1", 2), place, now_ms=LATER_MS)
    source = old(tmp_path / "2", 2, log=followed_by(NO_OP, time_ms=LATER_MS + YEAR_MS))
    later = backed_up(source, place, now_ms=LATER_MS + HOUR_MS, retention=MONTH)
    assert later.removed == later.remarks == ()


def test_backups_by_a_clock_that_was_behind_are_not_taken_for_old(tmp_path: Path) -> None:
    source, place = old(tmp_path, 2, log=followed_by(NO_OP)), tmp_path / "to"
    backed_up(source, place, now_ms=LATER_MS - YEAR_MS)
    right = backed_up(source, place, now_ms=LATER_MS, retention=MONTH)
    assert right.removed == right.remarks == ()


def test_two_backups_into_one_place_keep_apart(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "to")
    with storage.locked(), pytest.raises(BackupError, match="another process uses"):
        backed_up(old(tmp_path, 2), storage)


class Shared(FolderStorage):
    """A place that cannot keep another run out, as an object store cannot."""

    is_exclusive = False


def test_a_run_does_not_take_the_files_of_another_one_that_is_under_way(tmp_path: Path) -> None:
    place = Shared(tmp_path / "to")
    backed_up(old(tmp_path / "1", 2, log=cut(493)), place)
    under_way = tmp_path / "to" / log_name(0, TAKEN_MS + HOUR_MS)
    under_way.write_bytes(LOG)
    source = old(tmp_path / "2", 2)
    backed_up(source, place, now_ms=TAKEN_MS + 2 * HOUR_MS, retention=Retention(count=1))
    assert under_way.exists()
    now_ms = TAKEN_MS + 48 * HOUR_MS
    # A clock that the last record does not confirm may be ahead.
    backed_up(source, place, now_ms=now_ms, retention=Retention(count=1))
    assert under_way.exists()
    source = old(tmp_path / "3", 2, log=followed_by(NO_OP, time_ms=now_ms))
    backed_up(source, place, now_ms=now_ms, retention=Retention(count=1))
    assert not under_way.exists()
    assert verified(tmp_path / "to").manifest.end_offset == LOG_END + 1


class Overtaken(Shared):
    """Another run removes what its manifests do not name, just before this one has published."""

    @contextmanager
    def create(self, name: str) -> Iterator[Writer]:
        with super().create(name) as writer:
            yield writer
        if name.endswith(".json"):
            self.remove(next(each for each in self.sizes() if each.endswith(".log")))


def test_a_backup_whose_files_another_run_removes_is_none(tmp_path: Path) -> None:
    place = Overtaken(tmp_path / "to")
    with pytest.raises(BackupError, match="by another backup into the same place"):
        backed_up(old(tmp_path, 2), place)
    assert backup_ids(place) == []


def test_files_of_others_stay(tmp_path: Path) -> None:
    place = tmp_path / "to"
    place.mkdir()
    (place / "notes.log").write_text("mine")
    (place / f"{0:020}.log").write_text("of a controller")
    backed_up(old(tmp_path, 2), place, retention=Retention(count=1))
    assert (place / "notes.log").read_text() == "mine"
    assert (place / f"{0:020}.log").read_text() == "of a controller"


def test_what_the_commands_show(tmp_path: Path) -> None:
    place = tmp_path / "to"
    first = backed_up(old(tmp_path / "1", 2, log=cut(531)), place).manifest
    second = backed_up(old(tmp_path / "2", 2), place, now_ms=TAKEN_MS + 1).manifest
    listed = command("list", place)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        *("Backup", first.id, second.id)
    ]
    shown = command("show", place, first.id)
    assert "531 of epoch 3" in shown.stdout
    assert "2 at 127.0.0.1:19002; 3 at" in shown.stdout
    assert command("verify", place).exit_code == 0
    nothing = command("show", place, "20000101T000000.000Z")
    assert nothing.exit_code == 1
    assert second.id in nothing.stderr
    empty = command("verify", tmp_path / "nowhere")
    assert "holds no backup" in empty.stderr
    assert command("--to", place).exit_code == 2
