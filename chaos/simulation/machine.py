"""A machine: the disk, clocks and configuration that outlive a replica's processes."""

import errno
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.disk.disk_state import SECTOR_BYTES, File, Folder
from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from chaos.invariants.append_times import SUFFIX, AppendTimes, Clock, check_read, check_whole
from chaos.invariants.disk_format import StoredBatch
from chaos.invariants.durable_state import DurableState
from chaos.invariants.snapshots import check_names
from chaos.violation import Died, Violation
from quorum.core.vocabulary import ReplicaKey
from quorum.persistent_state import LOG_FOLDER, QuorumConfig

FOLDER: Final = Path("/node")
LOG: Final = FOLDER / LOG_FOLDER
QUORUM_STATE: Final = "quorum-state"
EPOCH_WALL_MS: Final = 1_795_236_537_164
"""The time of day at which every run begins."""

BOOT: Final = FOLDER / "boot-timestamp"
"""The file with the boot timestamp."""

COVERED_FROM: Final = 21
"""The checksum of a batch covers all bytes from this position on."""
ROTTEN_BEFORE_END: Final = 4
"""The number of sound batches after a damaged one; damage at the end could be a torn write."""

# The vote as an older release writes it: version 0, without the directory id.
_DIRECTORY: Final = re.compile(rb'"votedDirectoryId":"[^"]*"')
_OLD_FIELDS: Final = b'"appliedOffset":0,"currentVoters":[]'
_VERSION: Final = (b'"data_version":1', b'"data_version":0')


@dataclass(slots=True)
class VirtualClock:
    """A monotonic clock with an offset, running slightly too fast or too slow."""

    offset_ms: int
    rate: float
    _looked: tuple[int, int] = (-1, 0)
    """The last reading and its moment: many readings share a moment."""
    _asked: tuple[int, int] = (-1, 0)
    """The last result of `when`, which is most often the same after each turn."""

    def at(self, now_ms: int) -> int:
        """Return the time that the clock shows at `now_ms`."""
        if self._looked[0] != now_ms:
            self._looked = now_ms, self._shows(now_ms)
        return self._looked[1]

    def when(self, shown_ms: int) -> int:
        """Return the first moment at which the clock shows `shown_ms` or more."""
        if self._asked[0] != shown_ms:
            moment_ms = int((shown_ms - self.offset_ms) / self.rate)
            while self._shows(moment_ms) < shown_ms:
                moment_ms += 1
            self._asked = shown_ms, moment_ms
        return self._asked[1]

    def _shows(self, now_ms: int) -> int:
        return self.offset_ms + int(now_ms * self.rate)


@dataclass(eq=False, slots=True)
class Machine:
    """One machine of the cluster; processes come and go on it."""

    config: QuorumConfig
    rng: random.Random
    durable: DurableState
    disk: VirtualDisk = field(default_factory=VirtualDisk)
    key: ReplicaKey = field(init=False)
    """The replica on this machine; its directory id is unknown before the first start."""
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(0, 1.0))
    wall_offset_ms: int = 0
    wall_offsets_ms: tuple[int, int] = (0, 0)
    """The lowest and the highest of all so far."""
    times_lost: set[str] = field(default_factory=set)
    """Indexes that the disk failed to keep: the process continues, and truncated entries may come
    back in them."""
    times: AppendTimes = field(default_factory=AppendTimes)
    """The checked indexes of append times."""
    slow_until_ms: int = 0
    stopped: bool = False
    """True if it was stopped on purpose."""
    dies_after: int | None = None
    """The number of disk operations until the power fails or the process dies."""
    dies_alone: bool = False
    """True if only the process dies, and the power stays on."""
    sync_fails: bool = False
    """True if the next fsync fails."""
    rotten: tuple[Path, int, bytes] | None = None
    """The damage: its file, position, and the bytes before."""
    rots_at_end: bool = False
    """True if the damage is in the last batch of the log and resembles a torn write."""
    partner: "Machine | None" = None
    """The machine with which it has exchanged disks."""
    copy: VirtualDisk | None = None
    """A copy of an earlier state of its disk, as a power loss might have left it."""
    spoiled: set[str] = field(default_factory=set)
    """The names of all snapshots that were damaged."""
    times_spoiled: set[str] = field(default_factory=set)
    """The names of all indexes that were damaged."""
    names_checked: tuple[VirtualDisk, int] | None = None
    """The disk and the moment of the last check of the durable names in its folder."""
    is_old: bool = False
    """True if it runs the older release."""
    upgrades: bool = False
    """True if the next process runs the newer release."""
    sync_failed: bool = False
    """True if a sync has failed under this process."""
    is_at_fault: bool = False
    """True if the disk may lose what this process writes outside its log."""
    began_at: int = 0
    """The log end when this process began."""

    def __post_init__(self) -> None:
        self.key = ReplicaKey(self.config.node_id)
        self.disk.watch = self._watch

    def rot(self) -> bool:
        """Flip a bit in the middle of the log; False if the log is too short for that.

        A checksum covers it, and sound batches follow: no crash can have left this.
        """
        durable = self.durable
        sound = [b for b in durable.batches[:-ROTTEN_BEFORE_END] if b.base >= durable.start]
        if self.rotten is not None or self.partner is not None or not sound:
            return False
        batch = sound[self.rng.randrange(len(sound))]
        path, at = durable.place_of(batch, self.disk)
        position = at + self.rng.randrange(COVERED_FROM, len(batch.data))
        self.turn_over(path, position)
        return True

    def misdirect(self) -> bool:
        """Misdirect the last write into the middle of the log as well.

        False if the log is too short; sound batches follow the damage.
        """
        durable = self.durable
        sound = [b for b in durable.batches[:-ROTTEN_BEFORE_END] if b.base >= durable.start]
        if self.rotten is not None or self.partner is not None or not sound:
            return False
        hit = sound[self.rng.randrange(len(sound))]
        path, at = durable.place_of(hit, self.disk)
        offset = self.rng.randrange(len(hit.data) // 2)
        data = durable.batches[-1].data[: len(hit.data) - offset]
        before = self.disk.overwrite(path, at + offset, data)
        if before == data:
            return False
        self.rotten = (path, at + offset, before)
        rest = SECTOR_BYTES - at % SECTOR_BYTES
        if not any(self.disk.content(path)[at : at + rest]):
            self.repair()  # The product cannot distinguish this from an unwritten sector.
        return self.rotten is not None

    def turn_over(self, path: Path, position: int) -> None:
        """Flip a bit of this byte."""
        byte = self.disk.content(path)[position] ^ 1 << self.rng.randrange(8)
        self.rotten = (path, position, self.disk.overwrite(path, position, bytes([byte])))

    def rot_snapshot(self) -> bool:
        """Flip a bit of the newest snapshot; False if there is none in use."""
        newest = self.durable.newest
        if self.rotten is not None or newest is None:
            return self.rotten_name is not None
        if not self.disk.exists(self.durable.folder / newest.name):
            return False  # It is being removed, and only a loss of power would bring it back.
        position = self.rng.randrange(len(newest.file.durable))
        self.turn_over(self.durable.folder / newest.name, position)
        self.spoiled.add(newest.name)
        return True

    @property
    def rotten_name(self) -> str | None:
        """The name of the damaged file."""
        return None if self.rotten is None else self.rotten[0].name

    @property
    def is_unreadable(self) -> bool:
        """True if the files that the checkers go by are damaged; the product may not read them
        either."""
        name = str(self.rotten_name)
        return name.endswith(".log") or name == QUORUM_STATE

    def explains(self, failure: Exception) -> bool:
        """True if a process on it may end with this: its disk has failed, or the snapshot that
        it names, just received and complete, was damaged before its records were loaded."""
        snapshot = self.durable.checkpoints.get(str(self.rotten_name))
        return self.sync_failed or (
            snapshot is not None and f"{snapshot}: a record" in f"{failure}"
        )

    @property
    def refusal(self) -> str:
        """The refusal of a process to start on it, in words."""
        what = "vote" if self.rotten_name == QUORUM_STATE else "disk"
        return f"refuses a {what} that is damaged"

    @property
    def promised(self) -> list[StoredBatch]:
        """The batches that a process must find in its log when it starts."""
        return self.durable.batches[:-1] if self.rots_at_end else self.durable.batches

    def check_damage(self, note: Callable[[str], None]) -> None:
        """R2 and R10: a process has started, so it has detected or survived the damage."""
        if self.rots_at_end:
            note("cuts what has turned over at the end of its log")
            self.rotten, self.rots_at_end = None, False
        if self.is_unreadable:
            rule = "R2" if self.rotten_name == QUORUM_STATE else "R10"
            raise Violation(rule, f"{self.key} starts although {self.rotten_name} is damaged")
        if self.rotten is not None and not self.disk.exists(self.rotten[0]):
            note("goes back to what is older than its newest snapshot")
            self.rotten = None

    def repair(self) -> None:
        """Undo the damage, unless the file is gone."""
        if self.rotten is not None and self.disk.exists(self.rotten[0]):
            path, position, before = self.rotten
            if position + len(before) <= self.disk.size(path):
                self.disk.overwrite(path, position, before)
        self.rotten, self.rots_at_end = None, False

    def repair_at_work(self) -> None:
        """The same under a process that lives; not of a file that is removed, but may come back."""
        path = None if self.rotten is None else self.rotten[0]
        if path is not None and (self.disk.exists(path) or self.disk.kept(path) is None):
            self.repair()

    def begin(self) -> None:
        """A process is about to continue from the log end."""
        self.is_at_fault = self.disk.capacity_bytes is not None
        self.began_at = self.durable.end

    def jump(self, ms: int) -> None:
        """Change the time of day."""
        self.wall_offset_ms += ms
        lowest, highest = self.wall_offsets_ms
        self.wall_offsets_ms = min(lowest, self.wall_offset_ms), max(highest, self.wall_offset_ms)

    def check_times(self, now_ms: int, newest: int | None = None) -> None:
        """R27, on its disk as it is; `newest` limits the number of segments."""
        folder = self.disk.kept(LOG)
        if isinstance(folder, Folder):
            lowest, highest = self.wall_offsets_ms
            clock = Clock(EPOCH_WALL_MS + lowest, EPOCH_WALL_MS + now_ms + highest)
            segments = [
                each
                for each in self.durable.segments(newest)
                if Path(each[0]).with_suffix(SUFFIX).name not in self.times_lost
            ]
            self.times.check(self.key, segments, folder.durable, clock, self.times_spoiled)

    def check_times_are_whole(self) -> None:
        """R27, for a process that lives and had time to write its indexes."""
        for segment, batches in self.durable.segments():
            index = (LOG / segment).with_suffix(SUFFIX)
            if index.name in self.times_spoiled and self.disk.exists(index):
                check_read(self.key, index, self.disk, batches)
        for segment, batches in self.durable.segments(newest=1):
            index = (LOG / segment).with_suffix(SUFFIX)
            if batches and index.name not in self.times_spoiled:
                check_whole(self.key, self.disk.content(index), batches[-1])

    def check_times_of_complete(self) -> None:
        """R27, for the last complete segment, if the living process has completed it."""
        segment, *later = self.durable.segments(newest=2)
        if not later or self.is_at_fault or segment[1][-1].end <= self.began_at:
            return
        path = (LOG / segment[0]).with_suffix(SUFFIX)
        if path.name in self.times_lost:
            return
        index = self.disk.kept(path)
        # Its name is kept with that of the next segment.
        if isinstance(index, File) and path.name not in self.times_spoiled:
            check_whole(f"{self.key}, for good,", bytes(index.durable), segment[1][-1])

    def upgrade(self) -> None:
        """Start the newer release next; it finds the vote in the older release's format."""
        self.is_old = self.upgrades = False
        path = LOG / QUORUM_STATE
        if not self.disk.exists(path):
            return
        now = self.disk.content(path)
        before = _DIRECTORY.sub(_OLD_FIELDS, now).replace(*_VERSION)
        if len(before) <= len(now):
            self.disk.overwrite(path, 0, before.ljust(len(now)))

    def revive(self) -> None:
        """The power is back; whatever the disk was to do wrong is forgotten."""
        self.dies_after, self.dies_alone = None, False
        self.sync_fails, self.sync_failed = False, False

    def heal(self) -> None:
        """Remove all faults."""
        self.revive()
        self.put_right()
        self.repair()
        self.make_room()
        self.slow_until_ms = 0

    def exchange_disks(self, other: "Machine") -> None:
        """Exchange the disks of two machines."""
        self.disk, other.disk = other.disk, self.disk
        self.disk.watch, other.disk.watch = self._watch, other._watch
        self.partner, other.partner = other, self

    def replace_disk(self) -> None:
        """Insert an empty disk: the replica that starts on it is another one of the same id."""
        self.disk = VirtualDisk()
        self.disk.watch = self._watch
        self.durable = self.durable.of_another()
        self.key = ReplicaKey(self.config.node_id)
        self.rotten = self.copy = None
        self.rots_at_end = False
        self.times_spoiled.clear()
        self.times_lost.clear()
        self.spoiled.clear()

    def keep_copy(self) -> None:
        """Copy the disk as it is, unless there is a copy already."""
        if self.copy is None and self.rotten is None and self.partner is None:
            self.copy = self.disk.after_power_loss(self.rng)

    def put_copy_back(self, *, once: bool = True) -> None:
        """Restore the copy of the disk; it is used up if it is to be used `once`."""
        assert self.copy is not None
        self.disk, self.copy = self.copy, None if once else self.copy.copy()
        self.disk.capacity_bytes, self.disk.watch = None, self._watch
        self.durable = self.durable.of_another()
        self.durable.reread(self.disk)

    @property
    def boots_later(self) -> bool:
        """True if its next boot timestamp is later than all before, even on the copy of its
        disk: by its clock alone, or because the copy knows of the last boot."""
        assert self.copy is not None
        if self.wall_offset_ms >= self.wall_offsets_ms[1]:
            return True
        return _boot_on(self.copy) == _boot_on(self.disk)

    def put_right(self) -> None:
        """Undo an exchange of disks."""
        if self.partner is not None:
            other = self.partner
            self.exchange_disks(other)
            self.partner = other.partner = None

    def make_room(self) -> None:
        """The disk is not full any more."""
        self.disk.hold(None)

    def _check_names(self) -> None:
        """Check that the durable names would do for a start, whenever they change."""
        self.names_checked = self.disk, self.disk.named
        folder = self.disk.kept(LOG)
        if isinstance(folder, Folder):
            check_names(self.key, folder.durable)

    def _watch(self, operation: Operation) -> Fail | None:
        if not operation.changes:
            return None
        # Durable names come with a sync of a folder alone, or with another disk.
        if self.names_checked != (self.disk, self.disk.named):
            self._check_names()
        if self.dies_after is not None:
            if self.dies_after <= 0:
                raise Died
            self.dies_after -= 1
        if self.sync_fails and operation.kind is Kind.SYNC:
            self.sync_fails, self.sync_failed, self.is_at_fault = False, True, True
            if operation.path.suffix == SUFFIX:
                self.times_lost.add(operation.path.name)
            return Fail(errno.EIO)
        return None


def _boot_on(disk: VirtualDisk) -> bytes | None:
    return disk.content(BOOT) if disk.exists(BOOT) else None
