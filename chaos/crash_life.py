"""What one node does to its disk in its life, drawn from a seed, and what it has promised by then.

It appends, commits, rolls, votes, truncates, boots, takes snapshots and receives them, with the
code of the product; and it keeps account, on its own, of what must be found after a crash at any
moment: while something is being done, that what held before still holds or what will hold after.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from chaos.disk import VirtualDisk
from quorum.core.vocabulary import Election, Epoch, LogEnd, Offset, ReplicaId, ReplicaKey
from quorum.log.boot_timestamp import next_boot
from quorum.log.segments import SegmentedLog
from quorum.log.snapshot_folder import SnapshotFolder
from quorum.opening import LOG_FOLDER, QuorumConfig, remember
from quorum.records.encode import encode
from quorum.records.snapshot_batches import SnapshotBatches

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
    """What a disk holds: all of `batches` up to `kept`, perhaps more of them, and nothing else."""

    first: int = 0
    """The offset of the first of `batches`, which follow each other and hold one record each."""
    batches: tuple[bytes, ...] = ()
    kept: int = 0
    """Everything below was acknowledged."""
    needed: int = 0
    """From here on the log holds it; a snapshot says what came before."""
    election: Election = field(default_factory=Election)
    boot: int = -1

    @property
    def end(self) -> int:
        return self.first + len(self.batches)


class Life:
    """One node on a disk that keeps its power; `allowed` is what may be found if it does not."""

    def __init__(self, seed: int, disk: VirtualDisk) -> None:
        self.rng = random.Random(seed)
        self.disk = disk
        self.allowed: tuple[Promise, ...] = (Promise(),)
        self.directory_ids: set[object] = set()
        self.doing = "nothing yet"

    def run(self) -> None:
        """Live; whoever watches the disk sees every moment of it."""
        self.doing = "found the folder"
        past = remember(CONFIG, rng=self.rng, wall_clock=self._wall_ms, fs=self.disk)
        self.directory_ids.add(past.key.directory_id)
        self.log, self.elections = past.log, past.elections
        self.store = SnapshotFolder(FOLDER / LOG_FOLDER, self.disk)
        deeds: list[Callable[[], None]] = [
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
            deed = self.rng.choice(deeds)
            self.doing = deed.__name__.strip("_").replace("_", " ")
            deed()
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
        """From here on it may be so, but need not."""
        self.allowed = (*self.allowed, replace(self._now, **changes))  # type: ignore[arg-type]

    def _done(self) -> None:
        """From here on it is so."""
        self.allowed = (self._now,)

    # --- what it does ------------------------------------------------------------------------

    def _append(self) -> None:
        if not self._now.election.epoch:
            self._vote()
        now = self._now
        batch = append(self.log, now.election.epoch, self.rng)
        # Not asked to be kept, it may be all the same, as soon as something is written.
        self._will(batches=(*now.batches, batch))
        self._done()

    def _commit(self) -> None:
        self._will(kept=self._now.end)
        self.log.commit()
        self._done()

    def _vote(self) -> None:
        epoch = Epoch(self._now.election.epoch + 1)
        election = Election(epoch, voted_for=ReplicaKey(ReplicaId(self.rng.randrange(1, 4))))
        self._will(election=election)
        self.elections.write(election)
        self._done()

    def _truncate(self) -> None:
        now = self._now
        end = self.rng.randint(max(now.needed, self.log.start), now.end)
        # It goes from its end, a file at a time: any of it that is to go may be gone.
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
        """It is written down by the next vote, as the driver has it."""
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
        while len(self.store.ids) > 2:
            oldest = self.store.ids[0]
            self.store.forget(oldest)
            while self.store.remove(oldest):
                pass
        self._will(needed=int(self.store.ids[0].offset))
        self._done()
        self.log.advance_start(self.store.ids[0].offset)
        while self.log.remove_obsolete():
            pass

    def _install_snapshot(self) -> None:
        """The leader has gone far ahead, and its log does not reach back to ours."""
        now = self._now
        if not now.election.epoch:
            return
        id_ = LogEnd(now.election.epoch, Offset(now.end + self.rng.randint(1, 20)))
        for at, data in self._snapshot(id_):
            self.store.receive(id_, data, at)
        start = int(id_.offset)
        # Once the snapshot is there, the old log may be found, or any front of it, or none.
        ahead = replace(now, first=start, batches=(), kept=start, needed=start)
        self.allowed = (now, ahead)
        installed = self.store.install(id_, is_mixed=False)
        assert not isinstance(installed, str), installed
        self.log.begin_anew(id_.offset)
        while self.log.remove_obsolete():
            pass
        self._done()
        self._note(id_)
        for older in self.store.ids[:-1]:
            self.store.forget(older)
            while self.store.remove(older):
                pass

    # --- snapshots ---------------------------------------------------------------------------

    def _id_at(self, end: int) -> LogEnd:
        """The id of a snapshot of what the log says below `end`."""
        epoch = max(epoch for epoch, first in self.log.epochs if first < end)
        return LogEnd(epoch, Offset(end))

    def _snapshot(self, id_: LogEnd) -> list[tuple[int, bytes]]:
        """Its pieces, each with its place in the file."""
        batches = SnapshotBatches(id_.epoch, 1)
        pieces = [batches.opening(None, None)]
        pieces += [batches.data([b"x" * self.rng.choice(RECORD_SIZES)]) for _ in range(3)]
        pieces.append(batches.closing())
        at, placed = 0, []
        for piece in pieces:
            placed.append((at, bytes(piece)))
            at += len(piece)
        return placed

    def _note(self, id_: LogEnd) -> None:
        """It counts from now on."""
        path = FOLDER / LOG_FOLDER / f"{id_.offset:020}-{id_.epoch:010}.checkpoint"
        self.store.note(id_, self.disk.size(path))


def append(log: SegmentedLog, epoch: Epoch, rng: random.Random) -> bytes:
    """Append one record, as long as chance wants; return its batch."""
    offset = log.end.offset
    value = f"{offset}@{epoch} ".encode().ljust(rng.choice(RECORD_SIZES), b".")
    batch = bytes(encode([value], timestamp_ms=1, base_offset=offset, epoch=epoch))
    log.append(batch)
    return batch
