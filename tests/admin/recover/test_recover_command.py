"""`metaquorum recover`: the log that it keeps, what it says and refuses, clusters that go on."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click
import pytest

from admin.tools.founding import LOST_EPOCHS_MAX
from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import ElectionState, Epoch, Offset
from quorum.log.errors import FolderInUse
from quorum.log.filesystem import OS, FolderLock
from quorum.log.meta_properties import look
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from quorum.records.batch import headers
from quorum.records.encode import stamp
from quorum.transport.address import Address
from statemachine.records import codec, kafka_records
from tests.admin.recover.recovered_folders import (
    RENAMES_MAX,
    command,
    is_killed_at_rename,
    started,
    voters,
)
from tests.admin.tools.old_controllers import (
    CHECKPOINT,
    CHECKPOINT_END,
    EPOCH,
    LOG,
    LOG_END,
    cut,
    directory,
    fingerprint,
    followed_by,
    old,
    rest,
)
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import Node, active
from tests.support.real_cluster import CLUSTER_ID, IN_TREE

YES: Final = ("--yes-lose-data", CLUSTER_ID)


def kept(folder: Path) -> dict[str, str]:
    """Everything in a folder but lock files, which mean nothing."""
    found = fingerprint(folder)
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


async def goes_on(nodes: Mapping[int, Node]) -> Node:
    """The leader, after it has committed something new."""
    leader = await active(nodes.values())
    await join(leader.controller, 301)
    await asked(leader.controller, topic("after", 301))
    assert leader.controller.image.topic_named("after") is not None
    return leader


async def test_one_survivor_of_three_goes_on_with_all_that_it_has(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    before = kept(source / LOG_FOLDER)

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", source, "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        return {2: source}

    async with started(make, 2) as nodes:
        leader = await goes_on(nodes)
        node = leader.opened.quorum.node
        assert [(each.id, each.key.directory_id) for each in node.voters] == [(2, directory(2))]
        assert node.epoch > EPOCH + LOST_EPOCHS_MAX
        assert len(leader.controller.image.topics) == 2
    (aside,) = source.glob(f"{LOG_FOLDER}.before-recovery-*")
    assert kept(aside) == before


async def test_two_survivors_of_five_get_the_log_that_ends_furthest(tmp_path: Path) -> None:
    """A higher epoch counts more than a higher offset."""
    longer = old(tmp_path, 3)
    later = old(tmp_path, 4, log=_reborn(cut(531), EPOCH + 1), epoch=EPOCH + 1)

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        # Controller 4 is no voter of this log with another directory.
        (longer / "meta.properties").unlink()
        result = command("recover", f"3={longer}", later, "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        assert "The log of node 4 ends furthest, at offset 532 of epoch 4" in result.stderr
        return {3: longer, 4: later}

    async with started(make, 3, 4) as nodes:
        leader = await goes_on(nodes)
        assert {each.id for each in leader.opened.quorum.node.voters} == {3, 4}


def _reborn(log: bytes, epoch: int) -> bytes:
    """The log with one more batch, of another epoch."""
    return followed_by(codec.encode(kafka_records.NoOp(), 0), log=log, end=531, epoch=epoch)


def test_what_may_be_lost_is_said_and_nothing_done_without_the_id_of_the_cluster(
    tmp_path: Path,
) -> None:
    source = old(tmp_path, 2, log=cut(531))
    before = kept(source)
    result = command("recover", source, stdin="yes\n")
    assert result.exit_code == 1
    assert f"'yes' is not the id of the cluster, {CLUSTER_ID}: nothing was changed" in result.stderr
    assert "What may be lost: whatever voters 3, 4 had committed without node 2" in result.stderr
    assert "after offset 531" in result.stderr
    nobody = command("recover", source)
    assert nobody.exit_code == 2
    error = f"Error: nobody answers here: give --yes-lose-data {CLUSTER_ID}"
    assert error in nobody.stderr.splitlines()
    assert "Type the id" not in nobody.stderr
    assert kept(source) == before
    typed = command("recover", source, stdin=f"{CLUSTER_ID}\n")
    assert typed.exit_code == 0, typed.stderr
    assert "Never start 3, 4 with a folder of before again" in typed.stdout


def test_a_majority_that_can_start_is_refused(tmp_path: Path) -> None:
    sources = [old(tmp_path, 2), old(tmp_path, 3)]
    before = kept(tmp_path)
    result = command("recover", *sources, *YES)
    assert result.exit_code == 1
    assert "the folders of 2, 3 are sound, and a majority of the voters 2, 3, 4" in result.stderr
    assert kept(tmp_path) == before
    # A wiped disk is no voter.
    wiped = old(tmp_path / "wiped", 4, directory="Hb0r3ZQ2T0mW2bIYvQmZ1A")
    assert command("recover", sources[0], wiped, *YES).exit_code == 0


def two_left(folder: Path) -> dict[int, Path]:
    """Two folders of three that need a recovery."""
    sources = {node_id: old(folder, node_id) for node_id in (2, 3)}
    (sources[3] / LOG_FOLDER / "quorum-state").unlink()
    return sources


async def test_nothing_is_recovered_while_a_voter_answers(tmp_path: Path) -> None:
    sources = two_left(tmp_path)

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", *sources.values(), "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        return sources

    async with started(make, 2, 3) as nodes:
        await active(nodes.values())
        # As of a backup of the disk: the folder itself is free.
        copy = await asyncio.to_thread(shutil.copytree, sources[2], tmp_path / "copy")
        before = kept(copy)
        result = await asyncio.to_thread(command, "recover", copy, *YES)
    assert result.exit_code == 1
    places = ", ".join(map(str, sorted(node.address for node in nodes.values())))
    assert f"a controller of cluster {CLUSTER_ID} answers at {places}: it is not lost" in (
        result.stderr
    )
    assert kept(copy) == before


async def test_a_listener_that_does_not_say_what_it_is_is_named(tmp_path: Path) -> None:
    """A controller with SASL, say: nothing is known about it without credentials."""
    sources = two_left(tmp_path)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        given = ("--voters", f"2@127.0.0.1:1,3@127.0.0.1:{port}", *YES)
        result = await asyncio.to_thread(command, "recover", *sources.values(), *given)
        assert result.exit_code == 0, result.stderr
        again = await asyncio.to_thread(command, "recover", sources[2], stdin="no\n")
    assert again.exit_code == 1
    assert f"- 127.0.0.1:{port}: something listens, and does not say what it is" in again.stderr


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    lock = FolderLock(source / LOG_FOLDER)
    try:
        result = command("recover", source, *YES)
    finally:
        lock.release()
    assert "is locked: a process uses" in result.stderr
    assert not (source / ".recovering").exists()


@pytest.mark.parametrize("damage", ["missing", "garbled", "empty", "older"])
async def test_a_damaged_quorum_state_has_a_way_back(tmp_path: Path, damage: str) -> None:
    sources = {node_id: old(tmp_path, node_id) for node_id in (2, 3, 4)}
    for source in sources.values():
        file = source / LOG_FOLDER / "quorum-state"
        match damage:
            case "missing":
                file.unlink()
            case "garbled":
                file.write_text('{"leaderId":')
            case "empty":
                file.write_bytes(b"")
            case _:
                QuorumStateFile(source / LOG_FOLDER).write(ElectionState(Epoch(1)))

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", *sources.values(), "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        assert "quorum-state" in result.stderr
        return sources

    async with started(make, 2, 3, 4) as nodes:
        leader = await goes_on(nodes)
        assert {each.id for each in leader.opened.quorum.node.voters} == {2, 3, 4}


async def test_a_lost_identity_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    (source / "meta.properties").write_text("node.id=two\n")
    unnamed = command("recover", source, *YES)
    assert "write the id of the node before the folder, as 1=" in unnamed.stderr
    unknown = command("recover", f"2={source}", *YES)
    assert "no folder names its cluster: give --cluster-id" in unknown.stderr

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        given = ("--cluster-id", CLUSTER_ID, "--voters", voters(addresses), *YES)
        result = command("recover", f"2={source}", *given)
        assert result.exit_code == 0, result.stderr
        return {2: source}

    async with started(make, 2) as nodes:
        leader = await goes_on(nodes)
        meta = look(source)
        assert meta is not None
        assert (meta.node_id, meta.cluster_id) == (2, CLUSTER_ID)
        assert meta.directory_id != directory(2)
        assert leader.opened.directory_id == meta.directory_id


@pytest.mark.parametrize("in_log", [False, True])
async def test_used_up_epochs_have_a_way_back(tmp_path: Path, in_log: bool) -> None:
    """By a vote alone, or also in the log, whose state then becomes a snapshot of epoch 1."""
    log = _stamped(LOG, EPOCH_MAX) if in_log else LOG
    sources = {node_id: old(tmp_path, node_id, log=log, epoch=EPOCH_MAX) for node_id in (2, 3, 4)}

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", *sources.values(), "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        wanted = "they begin again" if in_log else "A higher epoch than that was seen"
        assert wanted in result.stderr
        return sources

    async with started(make, 2, 3, 4) as nodes:
        leader = await goes_on(nodes)
        assert leader.opened.quorum.node.epoch < EPOCH_MAX // 2
        assert len(leader.controller.image.topics) == 2
        assert leader.controller.image.end_offset > LOG_END


def _stamped(log: bytes, epoch: int) -> bytes:
    """The log, its last batch of this epoch."""
    *_, (position, header) = headers(log)
    batch = bytearray(log[position:])
    stamp(batch, Offset(header.base_offset), Epoch(epoch))
    return log[:position] + bytes(batch)


async def test_a_damaged_log_is_kept_up_to_the_damage(tmp_path: Path) -> None:
    damaged = bytearray(LOG)
    damaged[len(cut(493)) + 70] ^= 1
    source = old(tmp_path, 2, log=bytes(damaged))

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", source, "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        assert "what follows on offset 493 is lost with it" in result.stderr
        return {2: source}

    async with started(make, 2) as nodes:
        await goes_on(nodes)


@pytest.mark.parametrize("segments", [1, 2])
async def test_damage_before_a_checkpoint_costs_nothing_behind_it(
    tmp_path: Path, segments: int
) -> None:
    damaged = bytearray(LOG)
    damaged[len(cut(471)) + 70] ^= 1
    at = len(cut(CHECKPOINT_END))
    first = bytes(damaged) if segments == 1 else bytes(damaged[:at])
    source = old(tmp_path, 3, log=first, checkpoints=[IN_TREE / CHECKPOINT])
    if segments == 2:
        (source / LOG_FOLDER / f"{CHECKPOINT_END:020}.log").write_bytes(damaged[at:])

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", source, "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        assert f"the checkpoint of offset {CHECKPOINT_END} has what was there" in result.stderr
        assert "is lost" not in result.stderr
        assert f"ends furthest, at offset {LOG_END} of epoch {EPOCH}" in result.stderr
        return {3: source}

    async with started(make, 3) as nodes:
        leader = await goes_on(nodes)
        assert len(leader.controller.image.topics) == 2


def test_a_log_that_begins_anew_behind_its_damage_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first segment is rewritten, and not the last one, which every start of a log syncs."""
    damaged = bytearray(LOG)
    damaged[len(cut(471)) + 70] ^= 1
    first, later = bytes(damaged[: len(cut(531))]), bytes(damaged[len(cut(531)) :])
    source = old(tmp_path, 3, log=first, checkpoints=[IN_TREE / CHECKPOINT])
    (source / LOG_FOLDER / f"{531:020}.log").write_bytes(later)
    synced: dict[str, int] = {}
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        synced[Path(os.readlink(f"/proc/self/fd/{fd}")).name] = os.fstat(fd).st_size

    # Root syncs each file once more, as it gives it away.
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    monkeypatch.setattr(os, "fsync", sync)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(type(OS), name, staticmethod(sync))
    result = command("recover", source, "--voters", "3@127.0.0.1:1", *YES)
    assert result.exit_code == 0, result.stderr
    for path in (source / LOG_FOLDER).glob("*.log"):
        assert synced[path.name] == path.stat().st_size, path


def test_damage_behind_a_checkpoint_costs_what_follows_on_that(tmp_path: Path) -> None:
    damaged = bytearray(LOG)
    for at in (471, CHECKPOINT_END):
        damaged[len(cut(at)) + 70] ^= 1
    source = old(tmp_path, 3, log=bytes(damaged), checkpoints=[IN_TREE / CHECKPOINT])
    result = command("recover", source, "--voters", "3@127.0.0.1:1", *YES)
    assert result.exit_code == 0, result.stderr
    assert f"offset {CHECKPOINT_END} has what was there, and what follows on that is lost" in (
        result.stderr
    )
    assert f"ends furthest, at offset {CHECKPOINT_END} of epoch {EPOCH}" in result.stderr


def test_an_end_that_is_not_whole_is_said(tmp_path: Path) -> None:
    source = old(tmp_path, 2, log=LOG[:-7])
    result = command("recover", source, "--voters", "2@127.0.0.1:1", *YES)
    assert result.exit_code == 0, result.stderr
    assert "is not whole, as after a crash: " in result.stderr
    assert f"from offset {LOG_END - 1} on are left out" in result.stderr


async def test_a_log_behind_a_checkpoint_is_recovered_with_it(tmp_path: Path) -> None:
    checkpoints = [IN_TREE / CHECKPOINT]
    source = old(
        tmp_path, 3, log=rest(CHECKPOINT_END), start=CHECKPOINT_END, checkpoints=checkpoints
    )

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("recover", source, "--voters", voters(addresses), *YES)
        assert result.exit_code == 0, result.stderr
        return {3: source}

    async with started(make, 3) as nodes:
        leader = await goes_on(nodes)
        assert len(leader.controller.image.topics) == 2


def test_a_recovery_that_was_killed_between_its_renames_begins_again(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    log = source / LOG_FOLDER
    log.rename(source / f"{LOG_FOLDER}.before-recovery-20261127T000000.000Z")
    (source / ".recovering" / LOG_FOLDER).mkdir(parents=True)
    result = command("recover", source, *YES)
    assert result.exit_code == 0, result.stderr
    assert log.is_dir()


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_folder_is_held_while_the_operator_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    """Also the log that an interrupted run had moved away: the lock of a controller is in it."""
    source = old(tmp_path, 2)
    log = source / LOG_FOLDER
    if is_interrupted:
        log.rename(source / f"{LOG_FOLDER}.before-recovery-20261127T000000.000Z")
        (source / ".recovering" / LOG_FOLDER).mkdir(parents=True)
    others: list[str] = []

    def prompt(*_: object, **__: object) -> str:
        with pytest.raises(FolderInUse):
            FolderLock(log)
        others.append(command("recover", source, *YES).stderr)
        return CLUSTER_ID

    monkeypatch.setattr("admin.cli.recover.piped_answer", lambda _: None)
    monkeypatch.setattr(click, "prompt", prompt)
    result = command("recover", source)
    assert result.exit_code == 0, result.stderr
    (other,) = others
    assert f"another recovery uses {source}" in other
    assert log.is_dir()


def test_a_lost_log_is_not_replaced_by_that_of_an_earlier_recovery(tmp_path: Path) -> None:
    """That is from before the records of months."""
    source = old(tmp_path, 2)
    assert command("recover", source, "--voters", "2@127.0.0.1:1", *YES).exit_code == 0
    shutil.rmtree(source / LOG_FOLDER)
    result = command("recover", source, *YES)
    assert result.exit_code == 1
    assert f"{source} has no {LOG_FOLDER}" in result.stderr
    assert not (source / LOG_FOLDER).exists()


def test_a_node_that_did_not_vote_is_named(tmp_path: Path) -> None:
    """The folder of a broker has a log too."""
    given = ("--voters", "1@127.0.0.1:1,2@127.0.0.1:2", *YES)
    result = command("recover", old(tmp_path, 2), old(tmp_path, 1), *given)
    assert result.exit_code == 0, result.stderr
    assert "Nodes without a vote until now, 1, get one" in result.stderr


def test_a_recovery_that_is_killed_at_any_change_of_a_name_is_given_again(tmp_path: Path) -> None:
    """Of two folders, one of which has a damaged identity."""
    for kills in range(RENAMES_MAX):
        place = tmp_path / str(kills)
        sound, nameless = old(place, 2, log=cut(531)), old(place, 3)
        (nameless / "meta.properties").write_text("node.id=three\n")
        sources = (sound, f"3={nameless}")
        given = ("--cluster-id", CLUSTER_ID, "--voters", "2@127.0.0.1:1,3@127.0.0.1:2", *YES)
        recover = partial(command, "recover", *sources, *given)
        was_killed = is_killed_at_rename(kills, recover)
        result = recover()
        if result.exit_code:
            # The new folders are a majority of the new voters, and can start.
            assert "start these nodes, and nothing is lost" in result.stderr
        for folder in (sound, nameless):
            found = look(folder)
            assert found is not None
            assert (folder / LOG_FOLDER / "quorum-state").exists()
        if not was_killed:
            break
    else:
        raise AssertionError("it was killed each time")
    assert kills >= 4


def test_what_is_no_folder_of_a_controller_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        result = command("recover", folder, *YES)
        assert result.exit_code == 1
        assert "name the folder that log.dir of a node names" in result.stderr
    one = old(tmp_path / "1", 2)
    other = old(tmp_path / "2", 3, cluster_id="AAAAAAAAQACAAAAAAAAAAA")
    assert "are of different clusters" in command("recover", one, other, *YES).stderr
    # Without meta.properties the election state tells.
    (other / "meta.properties").unlink()
    election = ElectionState(Epoch(EPOCH))
    QuorumStateFile(other / LOG_FOLDER, cluster_id="AAAAAAAAQACAAAAAAAAAAA").write(election)
    assert "are of different clusters" in command("recover", one, f"3={other}", *YES).stderr
    strange = command("recover", f"3={other}", "--cluster-id", CLUSTER_ID, *YES)
    assert f"not {CLUSTER_ID}: omit --cluster-id" in strange.stderr
    twin = old(tmp_path / "3", 2)
    assert "are both of node 2" in command("recover", one, twin, *YES).stderr
    where = command("recover", one, "--voters", "2@127.0.0.1:1,3@127.0.0.1:2", *YES)
    mixed = old(tmp_path / "4", 4)
    QuorumStateFile(mixed / LOG_FOLDER, cluster_id="AAAAAAAAQACAAAAAAAAAAA").write(election)
    said = command("recover", mixed, *YES).stderr
    assert f"the files in {mixed} are of different clusters: meta.properties of" in said
    assert "--voters names 2, 3, but the folders are those of 2" in where.stderr
