"""Whenever the power goes: nothing that was promised is lost, and the node starts again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quorum.core.vocabulary import Election, Epoch, Offset, ReplicaId, ReplicaKey
from quorum.log import recovery, writer
from quorum.log.election_file import ElectionFile
from quorum.log.meta_properties import load_or_create
from quorum.log.segments import SegmentedLog
from tests.contracts.batches import batch
from tests.quorum.log.crash_images import Recorder
from tests.quorum.log.folders import everything

SEEDS = 30
IMAGES = 10


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
    promises: list[Promises] = field(default_factory=list)

    def run(self, log: SegmentedLog) -> None:
        self._promise([])
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
                len(self.recorder.journal),
                b"".join(self.batches[: self.committed]),
                [b"".join(self.batches), *also_allowed],
            )
        )

    def in_force(self, upto: int) -> tuple[bytes, list[bytes]]:
        """What holds for a loss of power after `upto` operations, in whatever call that is."""
        at = max(i for i, promise in enumerate(self.promises) if promise.since <= upto)
        first = max(
            (i for i, promise in enumerate(self.promises) if promise.since < upto), default=0
        )
        running = self.promises[first : at + 1]
        return running[-1].kept, [each for promise in running for each in promise.allowed]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("segment_bytes_max", [1_500, 1 << 30])
def test_no_loss_of_power_loses_what_was_committed_or_stops_the_log_from_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, segment_bytes_max: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(writer, "GROUP_BYTES_MAX", 4_000)
    monkeypatch.setattr(recovery, "GROUP_BYTES_MAX", 4_000)
    folder = tmp_path / "log"
    folder.mkdir()
    workload = Workload(Recorder(folder), rng)
    with workload.recorder.recording(monkeypatch):
        log = SegmentedLog(folder, segment_bytes_max=segment_bytes_max, lock=False)
        workload.run(log)
        operations = len(workload.recorder.journal)
        for number in range(IMAGES):
            upto = rng.randint(0, operations)
            image = tmp_path / f"image-{number}"
            image.mkdir()
            workload.recorder.image(upto, rng, image)
            kept, allowed = workload.in_force(upto)
            again = SegmentedLog(image, segment_bytes_max=segment_bytes_max, lock=False)
            found = everything(again)
            assert found.startswith(kept), upto
            assert any(each.startswith(found) for each in allowed), upto
            again.append(batch(again.end.offset, 2, epoch=100))
            again.close()
            assert everything(SegmentedLog(image, lock=False)).startswith(found)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_loss_of_power_loses_an_election_or_leaves_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "state"
    folder.mkdir()
    recorder = Recorder(folder)
    elections = [Election()] + [
        Election(Epoch(epoch), voted_for=ReplicaKey(ReplicaId(rng.randint(0, 9))))
        for epoch in range(1, 6)
    ]
    returned = [0]
    with recorder.recording(monkeypatch):
        for election in elections[1:]:
            ElectionFile(folder).write(election)
            returned.append(len(recorder.journal))
        for number in range(IMAGES):
            upto = rng.randint(0, len(recorder.journal))
            image = tmp_path / f"image-{number}"
            image.mkdir()
            recorder.image(upto, rng, image)
            last = max(i for i, since in enumerate(returned) if since <= upto)
            assert ElectionFile(image).read() in elections[last : last + 2]


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_no_loss_of_power_takes_the_identity_from_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "state"
    folder.mkdir()
    recorder = Recorder(folder)
    with recorder.recording(monkeypatch):
        first = load_or_create(folder, None, ReplicaId(1), rng=rng)
        created = len(recorder.journal)
        load_or_create(folder, "cluster", ReplicaId(1), rng=rng)
        for upto in range(created, len(recorder.journal) + 1):
            image = tmp_path / f"image-{upto}"
            image.mkdir()
            recorder.image(upto, rng, image)
            found = load_or_create(image, None, ReplicaId(1), rng=rng)
            assert found.directory_id == first.directory_id
            if upto == len(recorder.journal):
                assert found.cluster_id == "cluster"


def images(recorder: Recorder, rng: random.Random, folder: Path) -> Iterator[Path]:
    """What may be left when the power goes after the last operation."""
    for number in range(IMAGES):
        image = folder / f"image-{number}"
        image.mkdir()
        recorder.image(len(recorder.journal), rng, image)
        yield image


def test_one_synced_commit_makes_all_unsynced_ones_before_it_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that lie in older segments."""
    folder = tmp_path / "log"
    folder.mkdir()
    recorder = Recorder(folder)
    with recorder.recording(monkeypatch):
        log = SegmentedLog(folder, segment_bytes_max=1_500, synced=False, lock=False)
        for offset in range(10):
            log.append(batch(offset, size=700))
            log.commit(sync=False)
        log.commit()
        for image in images(recorder, random.Random(1), tmp_path):
            assert everything(SegmentedLog(image, lock=False)) == everything(log)
    log.close()


def test_what_a_restarted_process_has_found_is_durable_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process before it may have died between a write and its fsync."""
    folder = tmp_path / "log"
    folder.mkdir()
    recorder = Recorder(folder)
    with recorder.recording(monkeypatch):
        dying = SegmentedLog(folder, lock=False)
        for offset in range(10):
            dying.append(batch(offset, size=700))
            dying.commit(sync=False)
        restarted = SegmentedLog(folder, lock=False)
        assert restarted.end.offset == 10
        for image in images(recorder, random.Random(1), tmp_path):
            assert everything(SegmentedLog(image, lock=False)) == everything(restarted)


def test_an_election_that_was_read_is_durable_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process before it may have died between a renaming and its fsync."""
    folder = tmp_path / "state"
    folder.mkdir()
    recorder = Recorder(folder)
    voted = Election(Epoch(7), voted_for=ReplicaKey(ReplicaId(3)))
    with recorder.recording(monkeypatch):
        ElectionFile(folder).write(Election(Epoch(6)))
        ElectionFile(folder).write(voted)
        # As if the last fsync of the folder had not been reached.
        last_sync = recorder.journal.pop()
        assert (last_sync.kind, last_sync.file) == ("sync", None)
        assert ElectionFile(folder).read() == voted
        for image in images(recorder, random.Random(1), tmp_path):
            assert ElectionFile(image).read() == voted
