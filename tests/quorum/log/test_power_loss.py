"""Power loss at any moment: nothing promised is lost, and the node starts again."""

import errno
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from quorum.core.vocabulary import ElectionState, Epoch, Offset, ReplicaId, ReplicaKey
from quorum.log import filesystem, recovery, segment_writer
from quorum.log.filesystem import FREED_BYTES
from quorum.log.meta_properties import MetaProperties, load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.ports import LogFailure
from tests.contracts.batches import batch
from tests.quorum.log.damaged_folders import everything
from tests.support.parameters import few_in_quick

SEEDS = 30
IMAGES = 10


ROOT = Path("/")
LOG = Path("/log")


@dataclass
class Recorder:
    """The disk as it was before each operation that changed it, and as it is."""

    disk: VirtualDisk = field(default_factory=VirtualDisk)
    earlier: list[VirtualDisk] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disk.watch = self._note

    def _note(self, operation: Operation) -> None:
        if operation.kind is not Kind.READ:
            self.earlier.append(self.disk.copy())

    @property
    def count(self) -> int:
        """Operations so far."""
        return len(self.earlier)

    def image(self, upto: int, rng: random.Random) -> VirtualDisk:
        """The possible disks after a power loss behind the first `upto` operations."""
        return [*self.earlier, self.disk][upto].after_power_loss(rng)

    def images(self, rng: random.Random) -> Iterator[VirtualDisk]:
        """The possible disks after a power loss behind the last operation."""
        for _ in range(IMAGES):
            yield self.image(self.count, rng)


@dataclass
class Promises:
    """From the operation `since` on: the log begins with `kept`, and is the front of `allowed`."""

    since: int
    kept: bytes
    allowed: list[bytes]


@dataclass
class Workload:
    """Random appends, commits and truncations, and what was promised at each moment."""

    recorder: Recorder
    rng: random.Random
    batches: list[bytes] = field(default_factory=list)
    committed: int = 0
    promises: list[Promises] = field(default_factory=lambda: [Promises(0, b"", [b""])])

    def run(self, log: SegmentedLog) -> None:
        for _ in range(self.rng.randint(3, 12)):
            self._step(log)
        log.close()
        self.committed = len(self.batches)
        self._promise([])

    def _step(self, log: SegmentedLog) -> None:
        match self.rng.choice(["append", "append", "append", "commit", "commit", "truncate"]):
            case "append":
                size = self.rng.choice([5, 100, 700, 2_000])
                epoch = len(self.promises) + 1
                self.batches.append(batch(log.end.offset, 1, epoch=epoch, size=size))
                log.append(self.batches[-1])
                self._promise([])
            case "commit":
                log.commit()
                self.committed = len(self.batches)
                self._promise([])
            case _:
                old = b"".join(self.batches)
                kept = self.rng.randint(0, len(self.batches))
                del self.batches[kept:]
                self.committed = min(self.committed, kept)
                self._promise([old])
                log.truncate_to(Offset(kept))
                self._promise([])

    def _promise(self, also_allowed: list[bytes]) -> None:
        self.promises.append(
            Promises(
                self.recorder.count,
                b"".join(self.batches[: self.committed]),
                [b"".join(self.batches), *also_allowed],
            )
        )

    def in_force(self, upto: int) -> tuple[bytes, list[bytes]]:
        """The promises that hold after `upto` operations, in any call."""
        at = max(i for i, promise in enumerate(self.promises) if promise.since <= upto)
        first = max(
            (i for i, promise in enumerate(self.promises) if promise.since < upto), default=0
        )
        running = self.promises[first : at + 1]
        return running[-1].kept, [each for promise in running for each in promise.allowed]


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", few_in_quick(range(SEEDS), every=3))
@pytest.mark.parametrize("segment_bytes_max", [1_500, 1 << 30])
def test_a_power_loss_keeps_committed_records_and_the_log_opens(
    monkeypatch: pytest.MonkeyPatch, seed: int, segment_bytes_max: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(segment_writer, "GROUP_BYTES_MAX", 4_000)
    monkeypatch.setattr(recovery, "GROUP_BYTES_MAX", 4_000)
    workload = Workload(Recorder(), rng)
    disk = workload.recorder.disk
    workload.run(SegmentedLog(LOG, segment_bytes_max=segment_bytes_max, fs=disk))
    for _ in range(IMAGES):
        upto = rng.randint(0, workload.recorder.count)
        image = workload.recorder.image(upto, rng)
        kept, allowed = workload.in_force(upto)
        again = SegmentedLog(LOG, segment_bytes_max=segment_bytes_max, fs=image)
        found = everything(again)
        assert found.startswith(kept), upto
        assert any(each.startswith(found) for each in allowed), upto
        again.append(batch(again.end.offset, 2, epoch=100))
        again.close()
        assert everything(SegmentedLog(LOG, fs=image)).startswith(found)


@pytest.mark.parametrize("seed", few_in_quick(range(SEEDS), every=3))
def test_a_power_loss_leaves_the_old_or_the_new_election_state(seed: int) -> None:
    rng = random.Random(seed)
    recorder = Recorder()
    elections = [ElectionState()] + [
        ElectionState(Epoch(epoch), voted_for=ReplicaKey(ReplicaId(rng.randint(0, 9))))
        for epoch in range(1, 6)
    ]
    returned = [0]
    for election in elections[1:]:
        QuorumStateFile(ROOT, fs=recorder.disk).write(election)
        returned.append(recorder.count)
    for upto in range(recorder.count + 1):
        image = recorder.image(upto, rng)
        last = max(i for i, since in enumerate(returned) if since <= upto)
        assert QuorumStateFile(ROOT, fs=image).read() in elections[last : last + 2]


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_no_loss_of_power_takes_the_identity_from_a_folder(seed: int) -> None:
    rng = random.Random(seed)
    recorder = Recorder()
    folder = Path("/node")

    def identity(disk: VirtualDisk, cluster: str | None = None) -> MetaProperties:
        return load_or_create(folder, cluster, ReplicaId(1), rng=rng, fs=disk)

    first = identity(recorder.disk)
    created = recorder.count
    identity(recorder.disk, "cluster")
    for upto in range(created, recorder.count + 1):
        found = identity(recorder.image(upto, rng))
        assert found.directory_id == first.directory_id
        if upto == recorder.count:
            assert found.cluster_id == "cluster"


def test_one_synced_commit_makes_all_unsynced_ones_before_it_durable() -> None:
    """Also those that lie in older segments."""
    recorder = Recorder()
    log = SegmentedLog(LOG, segment_bytes_max=1_500, synced=False, fs=recorder.disk)
    for offset in range(10):
        log.append(batch(offset, size=700))
        log.commit(sync=False)
    log.commit()
    for image in recorder.images(random.Random(1)):
        assert everything(SegmentedLog(LOG, fs=image)) == everything(log)


@pytest.mark.parametrize("seed", few_in_quick(range(SEEDS), every=3))
@pytest.mark.parametrize("cut_to", [None, 2])
def test_the_front_of_a_log_without_promises_is_not_lost_while_its_rest_is_kept(
    seed: int, cut_to: int | None
) -> None:
    """A partition whose log began in the middle would be taken for one that was shortened there."""
    rng = random.Random(seed)
    recorder = Recorder()

    def begin(disk: VirtualDisk) -> SegmentedLog:
        return SegmentedLog(LOG, segment_bytes_max=1_500, synced=False, lock=False, fs=disk)

    for count in (1, 3, 2):
        log = begin(recorder.disk)
        for _ in range(count):
            log.append(batch(log.end.offset, size=700))
            log.commit(sync=False)
        if cut_to is not None and log.end.offset > cut_to:
            log.truncate_to(Offset(cut_to))
        recorder.disk.kill()
    for upto in range(recorder.count + 1):
        left = begin(recorder.image(upto, rng))
        assert left.start == 0
        assert everything(log).startswith(everything(left)[: len(everything(log))])


def test_records_that_a_restarted_process_finds_are_durable_from_then_on() -> None:
    """The process before it may have died between a write and its fsync."""
    recorder = Recorder()
    dying = SegmentedLog(LOG, fs=recorder.disk)
    for offset in range(10):
        dying.append(batch(offset, size=700))
        dying.commit(sync=False)
    recorder.disk.kill()
    restarted = SegmentedLog(LOG, fs=recorder.disk)
    assert restarted.end.offset == 10
    for image in recorder.images(random.Random(1)):
        assert everything(SegmentedLog(LOG, fs=image)) == everything(restarted)


def test_an_election_that_was_read_is_durable_from_then_on() -> None:
    """The process before it may have died between a renaming and its fsync."""
    recorder = Recorder()
    voted = ElectionState(Epoch(7), voted_for=ReplicaKey(ReplicaId(3)))
    QuorumStateFile(ROOT, fs=recorder.disk).write(ElectionState(Epoch(6)))
    QuorumStateFile(ROOT, fs=recorder.disk).write(voted)
    dying = recorder.earlier[-1]  # As it was before the last fsync of the folder.
    found = {
        QuorumStateFile(ROOT, fs=dying.after_power_loss(random.Random(seed))).read().epoch
        for seed in range(IMAGES)
    }
    assert found == {6, 7}
    assert QuorumStateFile(ROOT, fs=dying).read() == voted
    for seed in range(IMAGES):
        left = dying.after_power_loss(random.Random(seed))
        assert QuorumStateFile(ROOT, fs=left).read() == voted


@pytest.mark.parametrize("seed", few_in_quick(range(SEEDS), every=3))
@pytest.mark.parametrize("stretch_bytes", [FREED_BYTES, 120])
def test_a_power_loss_while_a_log_is_cut_leaves_no_gap(
    seed: int, stretch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "FREED_BYTES", stretch_bytes)
    rng = random.Random(seed)
    recorder = Recorder()
    log = SegmentedLog(LOG, segment_bytes_max=300, fs=recorder.disk)
    for offset in range(20):
        log.append(batch(offset))
        log.commit()
    whole, before = everything(log), recorder.count
    log.advance_start(Offset(13))
    while log.remove_obsolete():
        pass
    kept = everything(log)
    for upto in range(before, recorder.count + 1):
        found = SegmentedLog(LOG, fs=recorder.image(upto, rng))
        assert whole.endswith(everything(found))
        assert everything(found).endswith(kept)
    assert found.start == 12


@pytest.mark.parametrize("seed", few_in_quick(range(SEEDS), every=3))
@pytest.mark.parametrize("stretch_bytes", [FREED_BYTES, 120])
def test_a_power_loss_while_a_log_begins_anew_leaves_one_log(
    seed: int, stretch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "FREED_BYTES", stretch_bytes)
    rng = random.Random(seed)
    recorder = Recorder()
    log = SegmentedLog(LOG, segment_bytes_max=300, fs=recorder.disk)
    for offset in range(20):
        log.append(batch(offset))
        log.commit()
    whole, before = everything(log), recorder.count
    log.begin_anew(Offset(17))
    while log.remove_obsolete():
        pass
    for upto in range(before, recorder.count + 1):
        found = SegmentedLog(LOG, fs=recorder.image(upto, rng))
        if found.start == 17:
            assert everything(found) == b""
        else:
            assert whole.startswith(everything(found))
            found.begin_anew(Offset(17))
            assert (found.start, found.end.offset) == (17, 17)
    assert found.start == 17


def test_records_of_a_failed_sync_are_durable_once_a_restarted_process_finds_them() -> None:
    """Linux takes pages that it could not write for written, and goes on showing them."""
    disk = VirtualDisk()
    failing = SegmentedLog(LOG, fs=disk)
    failing.append(batch(0))
    failing.commit()
    failing.append(batch(1, size=700))
    disk.watch = lambda operation: Fail(errno.EIO) if operation.kind is Kind.SYNC else None
    with pytest.raises(LogFailure):
        failing.commit()
    disk.kill()
    disk.watch = None
    restarted = SegmentedLog(LOG, fs=disk)
    assert restarted.end.offset == 2
    for seed in range(IMAGES):
        left = disk.after_power_loss(random.Random(seed))
        assert SegmentedLog(LOG, fs=left).end.offset == 2


def test_records_of_a_lost_truncation_do_not_come_back_behind_new_ones() -> None:
    """The cut records are as long as the new ones, and of a later epoch: they would seem to follow.

    A leader of epoch 3 that nobody heard is replaced by one of epoch 4 that has records of epoch 2.
    """
    disk = VirtualDisk()
    failing = SegmentedLog(LOG, fs=disk)
    for offset, epoch in ((0, 1), (1, 3), (2, 3)):
        failing.append(batch(offset, epoch=epoch))
    failing.commit()

    def fail(operation: Operation) -> Fail | None:
        return Fail(errno.EIO) if operation.kind is Kind.SYNC else None

    disk.watch = fail
    with pytest.raises(LogFailure):
        failing.truncate_to(Offset(1))
    disk.kill()
    disk.watch = None
    restarted = SegmentedLog(LOG, fs=disk)
    assert restarted.end.offset == 1
    restarted.append(batch(1, epoch=2))
    restarted.commit()
    for seed in range(IMAGES):
        left = SegmentedLog(LOG, fs=disk.after_power_loss(random.Random(seed)))
        assert left.epochs == ((1, 0), (2, 1))
        assert left.end.offset == 2
