"""`metaquorum restore`: the folders that it writes, what it refuses, and clusters that go on."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from admin.backup.folder_storage import FolderStorage
from admin.backup.restore import make_plan, restore
from admin.backup.storage import find_manifest
from admin.backup.verification import verify
from admin.tools.founding import LOST_EPOCHS_MAX
from quorum.core.limits import EPOCH_MAX
from quorum.log.filesystem import OS
from quorum.log.meta_properties import look
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from quorum.transport.address import Address
from statemachine.records import codec, kafka_records
from tests.admin.backup.stored_backups import HOUR_MS, TAKEN_MS, backed_up
from tests.admin.recover.recovered_folders import command, started, voters
from tests.admin.tools.old_controllers import (
    CHECKPOINT,
    CHECKPOINT_END,
    EPOCH,
    LATER_MS,
    LOG_END,
    fingerprint,
    followed_by,
    old,
    rest,
    without_voters,
)
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import active
from tests.support.real_cluster import CLUSTER_ID, IN_TREE

NO_OP = codec.encode(kafka_records.NoOp(), 0)


def with_checkpoint(folder: Path) -> Path:
    checkpoints = [IN_TREE / CHECKPOINT]
    return old(folder, 3, log=rest(CHECKPOINT_END), start=CHECKPOINT_END, checkpoints=checkpoints)


@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_a_restored_cluster_goes_on_with_what_was_backed_up(
    tmp_path: Path, has_checkpoint: bool
) -> None:
    """With other ids, other addresses and another number of controllers than before."""
    place, new = tmp_path / "to", tmp_path / "new"

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("restore", place, "--dir", new, "--controllers", voters(addresses))
        assert result.exit_code == 0, result.stderr
        return {node_id: new / f"controller-{node_id}" / "data" for node_id in addresses}

    source = with_checkpoint(tmp_path) if has_checkpoint else old(tmp_path, 2)
    # In a thread: a backup runs a loop of its own.
    await asyncio.to_thread(backed_up, source, place)
    storage = FolderStorage(place)
    known = verify(storage, find_manifest(storage, None))
    async with started(make, 7, 8) as nodes:
        leader = await active(nodes.values())
        assert {each.id for each in leader.opened.quorum.node.voters} == {7, 8}
        assert leader.opened.quorum.node.epoch > EPOCH + LOST_EPOCHS_MAX
        assert leader.opened.cluster.id == CLUSTER_ID
        image = leader.controller.image
        assert {each.name for each in image.topics.values()} == {
            each.name for each in known.image.topics.values()
        }
        assert image.brokers.keys() == known.image.brokers.keys()
        await join(leader.controller, 301)
        await asked(leader.controller, topic("after", 301))
        assert image.topic_named("after") is not None
        # While it lives, no second one is founded beside it, but for one with another id.
        there = voters({each.node_id: each.address for each in nodes.values()})
        again = ("restore", place, "--dir", tmp_path / "2", "--controllers", there)
        refused = await asyncio.to_thread(command, *again)
        assert refused.exit_code == 1
        assert f"a node of cluster {CLUSTER_ID} answers at 127.0.0.1:" in refused.stderr
        assert not (tmp_path / "2").exists()
        other = await asyncio.to_thread(command, *again, "--new-cluster")
        assert other.exit_code == 0, other.stderr


def test_the_command_says_what_is_lost_and_how_to_start(tmp_path: Path) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    result = command("restore", tmp_path / "to", "--dir", tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert "Lost: everything that was committed after 2026-11-21T22:26:40Z" in result.stdout
    assert f"at offset {LOG_END} or later" in result.stdout
    assert "2 at 127.0.0.1:19002, 3 at 127.0.0.1:19003, 4 at 127.0.0.1:19004" in result.stdout
    assert "__cluster_metadata-0" in result.stdout
    for node_id in (2, 3, 4):
        settings = tmp_path / "new" / f"controller-{node_id}" / "node.properties"
        assert f"start --config {settings}" in result.stdout
        assert f"listeners=127.0.0.1:{19000 + node_id}" in settings.read_text()
    assert not (tmp_path / "new" / ".restoring").exists()


def test_folders_with_anything_in_them_are_refused_and_stay(tmp_path: Path) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    new = tmp_path / "new"
    assert command("restore", tmp_path / "to", "--dir", new).exit_code == 0
    before = fingerprint(new)
    again = command("restore", tmp_path / "to", "--dir", new)
    assert again.exit_code == 1
    assert "controller-2/data is not empty, the folder of a controller that may still run" in (
        again.stderr
    )
    assert fingerprint(new) == before


def test_if_one_folder_cannot_be_made_none_has_data(tmp_path: Path) -> None:
    """Some would be refused as not empty when the command is given again."""
    backed_up(old(tmp_path, 2), tmp_path / "to")
    new = tmp_path / "new"
    new.mkdir()
    (new / "controller-4").write_text("no folder")
    result = command("restore", tmp_path / "to", "--dir", new)
    assert result.exit_code == 1
    assert "controller-4" in result.stderr
    assert not [*new.glob("*/data")]
    (new / "controller-4").unlink()
    assert command("restore", tmp_path / "to", "--dir", new).exit_code == 0


def test_every_name_that_is_made_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of new folders too, of those above the controllers and of the place."""
    synced: list[Path] = []

    def sync(fd: int) -> None:
        os.fsync(fd)
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(type(OS), "fsync", staticmethod(sync))
    place, new = tmp_path / "a" / "to", tmp_path / "b" / "new"
    backed_up(old(tmp_path, 2), place)
    assert command("restore", place, "--dir", new).exit_code == 0
    log = new / "controller-2" / "data" / LOG_FOLDER
    assert {tmp_path, place.parent, place, new.parent, new, log.parent.parent} <= {*synced}
    names = {each.name for each in log.iterdir() if each.suffix != ".lock"}
    assert names <= {each.name for each in synced} | {"quorum-state", ".lock"}


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    """A lost disk that had only the data, and `metaquorum local`."""
    backed_up(old(tmp_path, 2), tmp_path / "to")
    settings = tmp_path / "new" / "controller-2" / "node.properties"
    settings.parent.mkdir(parents=True)
    settings.write_text("node.id=2\n")
    (settings.parent / "data").mkdir()
    result = command("restore", tmp_path / "to", "--dir", tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert settings.read_text() == "node.id=2\n"
    assert "The settings of 3, 4 are new, and have no TLS, SASL and authorizer" in result.stdout
    assert (settings.parent / "data" / LOG_FOLDER).is_dir()


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("process.roles=broker", "process.roles is broker, not controller"),
        ("node.id=3", "node.id is 3, not 2"),
        ("cluster.id=AAAAAAAAQACAAAAAAAAAAA", f"AAAAAAAAQACAAAAAAAAAAA, not {CLUSTER_ID}"),
        ("log.dir=/var/lib/metaquorum/controller-2", "controller-2, not "),
        ("listeners=127.0.0.1:19003", "listeners is 127.0.0.1:19003, not 127.0.0.1:19002"),
        ("advertised.listeners=A://other:19002", "A://other:19002, not 127.0.0.1:19002"),
        ("quorum.voters=2,3,5", "quorum.voters is 2,3,5, not 2@127.0.0.1:19002,3@"),
        ("quorum.voters=2@127.0.0.1:1,3,4", "2@127.0.0.1:1,3,4, not 2@127.0.0.1:19002,3@"),
        ("node.di=2", "node.di is not a setting"),
    ],
)
def test_settings_of_another_node_are_refused_with_the_difference(
    tmp_path: Path, kept: str, told: str
) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    settings = tmp_path / "new" / "controller-2" / "node.properties"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"{kept}\n")
    result = command("restore", tmp_path / "to", "--dir", tmp_path / "new")
    assert result.exit_code == 1
    assert str(settings) in result.stderr
    assert told in result.stderr
    assert [*(tmp_path / "new").iterdir()] == [settings.parent]
    assert [*settings.parent.iterdir()] == [settings]


def test_settings_that_say_the_same_in_other_words_are_kept(tmp_path: Path) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    settings = tmp_path / "new" / "controller-2" / "node.properties"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f"process.roles=controller\nnode.id=2\nquorum.voters=4,3,2@127.0.0.1:19002\n"
        f"listeners=CONTROLLER://0.0.0.0:19002\nlog.dir={settings.parent}/../controller-2/data\n"
    )
    result = command("restore", tmp_path / "to", "--dir", tmp_path / "new")
    assert result.exit_code == 0, result.stderr


def test_an_earlier_backup_may_be_named(tmp_path: Path) -> None:
    first = backed_up(old(tmp_path / "1", 2, log=without_voters()), tmp_path / "a").manifest
    backed_up(old(tmp_path / "2", 2), tmp_path / "a", now_ms=TAKEN_MS + 1)
    unknown = command("restore", tmp_path / "a", first.id, "--dir", tmp_path / "new")
    assert "does not have the addresses of all voters: give --controllers" in unknown.stderr
    given = command(
        *("restore", tmp_path / "a", first.id, "--dir", tmp_path / "new"),
        *("--controllers", "1@127.0.0.1:19001"),
    )
    assert given.exit_code == 0, given.stderr
    assert f"EndOffset:    {first.end_offset} of epoch" in given.stdout


def test_a_new_cluster_has_an_id_of_its_own(tmp_path: Path) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    new = tmp_path / "new"
    result = command("restore", tmp_path / "to", "--dir", new, "--new-cluster")
    assert result.exit_code == 0, result.stderr
    ids = {look(new / f"controller-{node_id}" / "data") for node_id in (2, 3, 4)}
    found = {None if each is None else each.cluster_id for each in ids}
    assert len(found) == 1
    assert found.isdisjoint({None, CLUSTER_ID})


def test_of_a_damaged_backup_nothing_is_made(tmp_path: Path) -> None:
    manifest = backed_up(with_checkpoint(tmp_path), tmp_path / "to").manifest
    new = tmp_path / "new"
    for each in manifest.files:
        path = tmp_path / "to" / each.name
        sound = path.read_bytes()
        path.write_bytes(sound[:-90] + bytes([sound[-90] ^ 4]) + sound[-89:])
        result = command("restore", tmp_path / "to", "--dir", new)
        assert result.exit_code == 1
        assert each.name in result.stderr
        assert not new.exists()
        path.write_bytes(sound)
    (tmp_path / "to" / manifest.name).write_text("{}")
    result = command("restore", tmp_path / "to", "--dir", new)
    assert "is no manifest that can be used" in result.stderr


def test_a_level_that_is_not_known_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    record = kafka_records.FeatureLevel(name="metadata.version", level=4_000)
    log = followed_by(codec.encode(record, 0))
    backed_up(old(tmp_path, 2, log=log), tmp_path / "to")
    result = command("restore", tmp_path / "to", "--dir", tmp_path / "new")
    assert result.exit_code == 1
    assert "metadata.version 4000 is in force, this release" in result.stderr
    assert not (tmp_path / "new").exists()
    verified = command("backup", "verify", tmp_path / "to")
    assert verified.exit_code == 1
    assert "metadata.version 4000 is in force, this release" in verified.stderr
    assert "damaged" not in verified.stderr


def test_used_up_epochs_are_found_by_verify_and_restore(tmp_path: Path) -> None:
    log = followed_by(NO_OP, epoch=EPOCH_MAX - LOST_EPOCHS_MAX)
    backed_up(old(tmp_path, 2, log=log, epoch=EPOCH_MAX), tmp_path / "to")
    for words in (
        ("restore", tmp_path / "to", "--dir", tmp_path / "new"),
        ("backup", "verify", tmp_path / "to"),
    ):
        result = command(*words)
        assert result.exit_code == 1
        assert "the cluster had used its epochs up" in result.stderr


def first_epoch(folder: Path) -> int:
    """The epoch with which a restored controller begins."""
    return QuorumStateFile(folder / "controller-2" / "data" / LOG_FOLDER).read().epoch


def test_the_epoch_lies_above_every_backup_of_the_place(tmp_path: Path) -> None:
    """An older backup than the newest, of a cluster that was restored meanwhile."""
    first = backed_up(old(tmp_path / "1", 2), tmp_path / "to").manifest
    later = followed_by(NO_OP, epoch=LOST_EPOCHS_MAX * 3)
    source = old(tmp_path / "2", 2, log=later, epoch=LOST_EPOCHS_MAX * 3)
    backed_up(source, tmp_path / "to", now_ms=TAKEN_MS + HOUR_MS)
    result = command("restore", tmp_path / "to", first.id, "--dir", tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert first_epoch(tmp_path / "new") >= LOST_EPOCHS_MAX * 4


def test_a_backup_that_is_restored_again_does_not_begin_the_same_epoch(tmp_path: Path) -> None:
    """Brokers may have the log of the first time."""
    storage = FolderStorage(tmp_path / "to")
    manifest = backed_up(old(tmp_path, 2), storage).manifest
    epochs = []
    for hours in range(3):
        new, now_ms = tmp_path / f"new-{hours}", TAKEN_MS + hours * HOUR_MS
        plan = make_plan(manifest, manifest, new, None, is_new_cluster=False, now_ms=now_ms)
        restore(plan, storage, new, now_ms=now_ms)
        epochs.append(first_epoch(new))
    assert epochs == [EPOCH + LOST_EPOCHS_MAX + hours * 60 for hours in range(3)]


def test_a_backup_from_the_future_does_not_begin_the_same_epoch_twice(tmp_path: Path) -> None:
    """The clock of the machine that made it was ahead; the age is that of the last record."""
    storage = FolderStorage(tmp_path / "to")
    source = old(tmp_path, 2, log=followed_by(NO_OP))
    manifest = backed_up(source, storage, now_ms=LATER_MS + 9_000 * HOUR_MS).manifest
    epochs = []
    for hours in range(2):
        new, now_ms = tmp_path / f"new-{hours}", LATER_MS + hours * HOUR_MS
        plan = make_plan(manifest, manifest, new, None, is_new_cluster=False, now_ms=now_ms)
        epochs.append(plan.epoch)
    assert epochs == [EPOCH + LOST_EPOCHS_MAX, EPOCH + LOST_EPOCHS_MAX + 60]
