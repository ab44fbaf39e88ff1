"""Power loss at every operation of a node's disk, and recovery from every possible outcome.

`StorageWorkload` runs the product's storage code through appends, commits, votes, truncations,
boots and snapshots, and keeps its own account of what a crash at any moment must preserve. Before
every operation that changes the disk the power fails: of all unsynced changes every subset that may
survive is a crash image, and each image must recover.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from chaos.disk.disk_state import Chance
from chaos.disk.virtual_disk import Fault, Kind, Operation, VirtualDisk
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.log.errors import StorageError
from quorum.log.meta_properties import next_boot
from quorum.log.segmented_log import SegmentedLog
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.persistent_state import LOG_FOLDER, PersistentState, QuorumConfig, load_persistent_state
from quorum.records.control import SnapshotBatches
from quorum.records.encode import encode

FOLDER: Final = Path("/node")
CONFIG: Final = QuorumConfig(
    node_id=ReplicaId(1),
    cluster_id=None,
    folder=FOLDER,
    voters={ReplicaId(each): ("localhost", 9_000 + each) for each in (1, 2, 3)},
    segment_bytes=1_500,
)
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
RECORD_SIZES: Final = (5, 5, 100, 450, 1_200)
STEPS: Final = 14


@dataclass(frozen=True, slots=True)
class Promise:
    """The required contents of a disk: `batches` up to `kept`, and possibly more of them."""

    first: int = 0
    """The offset of the first of `batches`, which are contiguous and hold one record each."""
    batches: tuple[bytes, ...] = ()
    kept: int = 0
    """The end of the acknowledged records."""
    needed: int = 0
    """The offset from which the log must hold the records; a snapshot holds the earlier ones."""
    election: ElectionState = field(default_factory=ElectionState)
    boot: int = -1

    @property
    def end(self) -> int:
        return self.first + len(self.batches)


class StorageWorkload:
    """One node on a disk that keeps its power; `allowed` are the states that a crash may leave."""

    def __init__(self, seed: int, disk: VirtualDisk) -> None:
        self.rng = random.Random(seed)
        self.disk = disk
        self.allowed: tuple[Promise, ...] = (Promise(),)
        self.directory_ids: set[object] = set()
        self.doing = "nothing yet"

    def run(self) -> None:
        """Run the workload; the owner of the disk sees every operation."""
        self.doing = "found the folder"
        past = load_persistent_state(CONFIG, rng=self.rng, wall_clock=self._wall_ms, fs=self.disk)
        self.directory_ids.add(past.key.directory_id)
        self.log, self.elections = past.log, past.elections
        self.store = FileSnapshotStore(FOLDER / LOG_FOLDER, self.disk)
        steps: list[Callable[[], None]] = [
            *(self._append,) * 5,
            *(self._commit,) * 5,
            *(self._vote,) * 2,
            self._truncate,
            self._truncate,
            self._boot,
            self._learn_cluster,
            self._take_snapshot,
            self._take_snapshot,
            self._install_snapshot,
        ]
        for _ in range(STEPS):
            step = self.rng.choice(steps)
            self.doing = step.__name__.strip("_").replace("_", " ")
            step()
        self.doing = "close"
        self._will(kept=self._now.end)
        self.log.close()
        self._done()

    def _wall_ms(self) -> int:
        return 1_795_236_537_164

    @property
    def _now(self) -> Promise:
        return self.allowed[-1]

    def _will(self, **changes: object) -> None:
        """Allow this state from now on."""
        self.allowed = (*self.allowed, replace(self._now, **changes))  # type: ignore[arg-type]

    def _done(self) -> None:
        """Require this state from now on."""
        self.allowed = (self._now,)

    # --- steps -------------------------------------------------------------------------------

    def _append(self) -> None:
        if not self._now.election.epoch:
            self._vote()
        now = self._now
        batch = append(self.log, now.election.epoch, self.rng)
        # An unsynced write may be durable as soon as it is written.
        self._will(batches=(*now.batches, batch))
        self._done()

    def _commit(self) -> None:
        self._will(kept=self._now.end)
        self.log.commit()
        self._done()

    def _vote(self) -> None:
        epoch = Epoch(self._now.election.epoch + 1)
        election = ElectionState(epoch, voted_for=ReplicaKey(ReplicaId(self.rng.randrange(1, 4))))
        self._will(election=election)
        self.elections.write(election)
        self._done()

    def _truncate(self) -> None:
        now = self._now
        end = self.rng.randint(max(now.needed, self.log.start), now.end)
        # A truncation goes file by file from the end: any part of it may have happened.
        self._will(kept=min(now.kept, end))
        self._will(batches=now.batches[: end - now.first])
        self.log.truncate_to(Offset(end))
        self._done()

    def _boot(self) -> None:
        boot = self._now.boot + 1
        self._will(boot=boot)
        assert next_boot(FOLDER, 0, fs=self.disk) == boot
        self._done()

    def _learn_cluster(self) -> None:
        """Learn the cluster id; the next vote writes it down, as in the driver."""
        self.elections.cluster_id = CLUSTER_ID
        self._vote()

    def _take_snapshot(self) -> None:
        now = self._now
        end = self.rng.randint(now.needed, now.kept)
        if end == now.needed:
            return
        id_ = self._id_at(end)
        for at, data in self._snapshot(id_):
            self.store.write(id_, data, at)
        self.store.finish(id_)
        self._note(id_)
        while len(self.store.snapshots) > 2:
            oldest = self.store.snapshots[0].id
            self.store.forget(oldest)
            while self.store.remove(oldest):
                pass
        self._will(needed=int(self.store.snapshots[0].id.offset))
        self._done()
        self.log.advance_start(self.store.snapshots[0].id.offset)
        while self.log.remove_obsolete():
            pass

    def _install_snapshot(self) -> None:
        """Install a snapshot of a leader whose log begins after the end of ours."""
        now = self._now
        if not now.election.epoch:
            return
        id_ = OffsetAndEpoch(now.election.epoch, Offset(now.end + self.rng.randint(1, 20)))
        for at, data in self._snapshot(id_):
            self.store.receive(id_, data, at)
        start = int(id_.offset)
        # Once the snapshot is durable, any prefix of the old log may be left.
        ahead = replace(now, first=start, batches=(), kept=start, needed=start)
        self.allowed = (now, ahead)
        installed = self.store.install(id_, is_mixed=False)
        assert not isinstance(installed, str), installed
        self.log.begin_anew(id_.offset)
        while self.log.remove_obsolete():
            pass
        self._done()
        self._note(id_)
        for older in self.store.snapshots[:-1]:
            self.store.forget(older.id)
            while self.store.remove(older.id):
                pass

    # --- snapshots ---------------------------------------------------------------------------

    def _id_at(self, end: int) -> OffsetAndEpoch:
        """The id of a snapshot of the log below `end`."""
        epoch = max(epoch for epoch, first in self.log.epochs if first < end)
        return OffsetAndEpoch(epoch, Offset(end))

    def _snapshot(self, id_: OffsetAndEpoch) -> list[tuple[int, bytes]]:
        """The pieces of a snapshot with their positions."""
        batches = SnapshotBatches(id_.epoch, 1)
        pieces = [batches.opening(None, None)]
        pieces += [batches.data([b"x" * self.rng.choice(RECORD_SIZES)]) for _ in range(3)]
        pieces.append(batches.closing())
        at, placed = 0, []
        for piece in pieces:
            placed.append((at, bytes(piece)))
            at += len(piece)
        return placed

    def _note(self, id_: OffsetAndEpoch) -> None:
        """Add the snapshot to the store."""
        path = FOLDER / LOG_FOLDER / f"{id_.offset:020}-{id_.epoch:010}.checkpoint"
        self.store.note(id_, self.disk.size(path))


def append(log: SegmentedLog, epoch: Epoch, rng: random.Random) -> bytes:
    """Append one record of random size; return its batch."""
    offset = log.end.offset
    value = f"{offset}@{epoch} ".encode().ljust(rng.choice(RECORD_SIZES), b".")
    batch = bytes(encode([value], timestamp_ms=1, base_offset=offset, epoch=epoch))
    log.append(batch)
    return batch


IMAGES_PER_POINT: Final = 8
CRASHES_IN_RECOVERY: Final = 4
"""One of this many images loses power again during recovery."""


class Lost(Exception):
    """The failure of one crash image: it did not recover, or broke a promise."""


class _Died(Exception):
    """The power was lost."""


@dataclass(slots=True)
class Tally:
    """The number of crash images tried."""

    lives: int = 0
    points: int = 0
    whole: int = 0
    """The points at which every possible outcome was tried."""
    images: int = 0

    def __str__(self) -> str:
        return (
            f"{self.images:,} crash images of {self.lives:,} lives at {self.points:,} points, "
            f"at {self.whole:,} of them all that there are: none unrecoverable, "
            "nothing acknowledged lost"
        )


class Script:
    """An exhaustive chance: it answers the same questions differently each time."""

    def __init__(self) -> None:
        self._answers: list[int] = []
        self._counts: list[int] = []
        self._at = 0

    def randrange(self, stop: int, /) -> int:
        if self._at == len(self._answers):
            self._answers.append(0)
            self._counts.append(stop)
        answer = self._answers[self._at]
        self._at += 1
        return answer

    def next(self) -> bool:
        """Advance to the next sequence of answers; return False after the last."""
        del self._answers[self._at :], self._counts[self._at :]
        self._at = 0
        while self._answers and self._answers[-1] + 1 == self._counts[-1]:
            self._answers.pop()
            self._counts.pop()
        if not self._answers:
            return False
        self._answers[-1] += 1
        return True


def crash_everywhere(seed: int, tally: Tally, *, images_max: int) -> None:
    """Run one workload with all its crashes, up to `images` of them; raises `Lost`."""
    disk = VirtualDisk()
    workload = StorageWorkload(seed, disk)
    rng = random.Random(f"crashes of {seed}")
    tally.lives += 1

    def watch(operation: Operation) -> Fault | None:
        where = f"seed {seed}, {workload.doing}, "
        if operation.changes and tally.images < images_max:
            _crash(workload, f"{where}before: {operation}", rng, tally)
        if operation.kind is Kind.SYNC and tally.images < images_max:
            _fail_sync(workload, operation, f"{where}after a failed {operation}", rng, tally)
        return None

    disk.watch = watch
    workload.run()
    if tally.images < images_max:
        _crash(workload, f"seed {seed}, at the end", rng, tally)


def crash_images(images_max: int, *, base: int = 0) -> Iterator[Tally]:
    """Run lives from the seed `base` on, up to `images` in all; yields the tally after each."""
    tally, seed = Tally(), base
    while tally.images < images_max:
        crash_everywhere(seed, tally, images_max=images_max)
        seed += 1
        yield tally


def _crash(workload: StorageWorkload, where: str, rng: random.Random, tally: Tally) -> None:
    """Lose power here, with many possible outcomes."""
    tally.points += 1
    script = Script()
    for number in range(IMAGES_PER_POINT):
        # If there are too many outcomes to try all, draw half of the tries.
        chance: Chance = script if number < IMAGES_PER_POINT // 2 else rng
        _recover(workload, workload.disk.after_power_loss(chance), f"{where}, image {number}", rng)
        tally.images += 1
        if chance is script and not script.next():
            tally.whole += 1
            return


def _recover(workload: StorageWorkload, image: VirtualDisk, where: str, rng: random.Random) -> None:
    if not rng.randrange(CRASHES_IN_RECOVERY):
        image = _crashed_again(image, where, rng)
        where += ", and again in recovery"
    past, boot = _opened(image, where)
    shown = _content(past)
    _check(workload, past, shown, boot, where)
    again, _ = _opened(image.after_power_loss(rng), f"{where}, then once more")
    if not _content(again).startswith(shown):
        raise Lost(
            f"{where}: records that the restarted node had read are lost after another crash"
        )


def _fail_sync(
    workload: StorageWorkload, sync: Operation, where: str, rng: random.Random, tally: Tally
) -> None:
    """Fail this sync, restart on the running system, continue, and only then lose power."""
    tally.images += 1
    running = workload.disk.copy()
    running.forget(sync.path)
    past, boot = _opened(running, where)
    _check(workload, past, _content(past), boot, where)
    election = past.election
    if not election.epoch or rng.randrange(2):
        election = ElectionState(Epoch(election.epoch + 1), voted_for=past.key)
        past.elections.write(election)
    for _ in range(rng.randrange(3)):
        append(past.log, election.epoch, rng)
    past.log.commit()
    again, _ = _opened(running.after_power_loss(rng), f"{where}, then a crash")
    if _content(again) != _content(past):
        raise Lost(
            f"{where}: the log after a crash differs from what the restarted node had committed"
        )
    if (again.election, again.key) != (election, past.key):
        raise Lost(f"{where}: the restarted node forgot a vote, or its identity, in a crash")


def _crashed_again(image: VirtualDisk, where: str, rng: random.Random) -> VirtualDisk:
    """The image after a power loss during the recovery of an image."""
    left = rng.randrange(6)

    def watch(operation: Operation) -> Fault | None:
        nonlocal left
        left -= operation.changes
        if left < 0:
            raise _Died
        return None

    image.watch = watch
    try:
        load_persistent_state(CONFIG, rng=rng, fs=image)
    except _Died:
        return image.after_power_loss(rng)
    except StorageError as error:
        raise Lost(f"{where}: {error}") from error
    image.kill()
    image.watch = None
    return image


def _opened(image: VirtualDisk, where: str) -> tuple[PersistentState, int]:
    try:
        past = load_persistent_state(CONFIG, rng=random.Random(0), fs=image)
        return past, next_boot(FOLDER, 0, fs=image) - 1
    except StorageError as error:
        raise Lost(f"{where}: {error}") from error


def _content(past: PersistentState) -> bytes:
    log = past.log
    return log.read(log.start, log.end.offset, 1 << 30)


def _check(
    workload: StorageWorkload, past: PersistentState, shown: bytes, boot: int, where: str
) -> None:
    """Check that one of the promises in force is kept in full."""
    if workload.directory_ids and past.key.directory_id not in workload.directory_ids:
        raise Lost(f"{where}: the directory id has changed")
    problems = [_problem(each, past, shown, boot) for each in workload.allowed]
    if None not in problems:
        raise Lost(f"{where}: {'; or '.join(dict.fromkeys(map(str, problems)))}")


def _problem(promise: Promise, past: PersistentState, shown: bytes, boot: int) -> str | None:
    """The violation of the promise, or None."""
    start, end = past.log.start, past.log.end.offset
    if past.election != promise.election:
        return f"the election is {past.election}, not {promise.election}"
    if boot != promise.boot:
        return f"the last boot was {boot}, not {promise.boot}"
    if not promise.first <= start <= promise.needed:
        return f"the log begins at {start}, not in [{promise.first}, {promise.needed}]"
    if not promise.kept <= end <= promise.end:
        return f"the log ends at {end}, not in [{promise.kept}, {promise.end}]"
    if shown != b"".join(promise.batches[start - promise.first : end - promise.first]):
        return f"the records [{start}, {end}) are not those that were written"
    return None
