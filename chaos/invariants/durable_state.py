"""The durable log, vote and snapshots of a disk, read without the product's code.

The checkers compare the messages of a node with this. It follows a log as it grows, and reads
everything again after a truncation or a crash. Where a snapshot replaces a log or its prefix, it
uses the committed history instead; other checks compare the snapshot with that.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from chaos.disk.disk_state import File, Folder, Node
from chaos.disk.virtual_disk import VirtualDisk
from chaos.invariants.disk_format import Checkpoint, StoredBatch, batches, checkpoints, same_front
from chaos.invariants.history import History
from chaos.invariants.voter_sets import VoterSet, voter_set_in
from chaos.violation import Violation
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey


class DurableVote(NamedTuple):
    """The epoch, vote and leader in the quorum-state file."""

    epoch: int = 0
    voted_for: int | None = None
    leader: int | None = None

    def __str__(self) -> str:
        voted = "" if self.voted_for is None else f", vote for {self.voted_for}"
        leader = "" if self.leader is None else f", leader {self.leader}"
        return f"epoch {self.epoch}{voted}{leader}"


@dataclass(slots=True)
class _Place:
    """The position up to which a segment has been read."""

    name: str
    file: File
    position: int


class DurableState:
    """The durable log, vote and snapshots in one folder of one disk."""

    def __init__(self, folder: Path, history: History) -> None:
        self.folder = folder
        self._history = history
        self.start = 0
        """The offset from which the log is in files."""
        self.checkpoints: dict[str, Checkpoint] = {}
        self.received_end = 0
        """The end of the last snapshot that replaced the log."""
        self.batches: list[StoredBatch] = []
        self.ends: list[int] = []
        """The end of each batch, to find a batch by offset."""
        self.assigned: list[VoterSet] = []
        """The voter sets in the log; the last one is in force."""
        self.vote = DurableVote()
        self.names: dict[str, Node] | None = None
        """The durable names in the folder at the last read."""
        self._segments: list[str] = []
        self._place: _Place | None = None
        self._vote_bytes = b""
        self._vote_path = folder / "quorum-state"
        self._sound: dict[str, list[StoredBatch]] = {}
        """The batches of each segment that were sound at its last full read."""

    def of_another(self) -> "DurableState":
        """A fresh state, for an empty disk in place of this one."""
        return DurableState(self.folder, self._history)

    def holds(self, other: "DurableState") -> bool:
        """True if it contains the whole log of the other."""
        return self.end >= other.end and (
            self.epoch_before(other.end) == other.epoch_before(other.end)
        )

    def __str__(self) -> str:
        epochs = {each.epoch: each.base for each in reversed(self.batches)}
        starts = ", ".join(f"{epoch} from {epochs[epoch]}" for epoch in sorted(epochs))
        return f"{self.vote}; log up to {self.end}; epochs {starts or 'none'}"

    @property
    def end(self) -> int:
        """The durable log end offset."""
        return self.ends[-1] if self.ends else 0

    def end_at(self, offset: int) -> OffsetAndEpoch:
        """The log end after a truncation to this offset; the epoch is -1 within a batch."""
        return OffsetAndEpoch(Epoch(self.epoch_before(offset)), Offset(offset))

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record below this offset; 0 if there is none, -1 within a batch."""
        if offset == 0:
            return 0
        at = bisect_left(self.ends, offset)
        found = at < len(self.ends) and self.ends[at] == offset
        return self.batches[at].epoch if found else -1

    def between(self, start: int, end: int) -> list[StoredBatch]:
        """The batches from `start` to `end`, both of them boundaries or beyond the log."""
        return self.batches[bisect_left(self.ends, start + 1) : bisect_left(self.ends, end + 1)]

    def place_of(self, batch: StoredBatch, disk: VirtualDisk) -> tuple[Path, int]:
        """The file that holds a batch, and where in it."""
        folder = disk.kept(self.folder)
        assert isinstance(folder, Folder)
        for name in sorted(folder.durable):
            file = folder.durable[name]
            at = file.durable.find(batch.data) if isinstance(file, File) else -1
            if at >= 0:
                return self.folder / name, at
        raise AssertionError(f"{batch} is in no file")

    def reread(self, disk: VirtualDisk) -> list[Checkpoint]:
        """Read everything again, and keep only what is complete; return all snapshots."""
        self.names, self.checkpoints = None, {}
        disk.rewritten.clear()
        found = self.look_at_names(disk)
        self._go_on_from(self.start)
        self._read_anew()
        if self.end == self.start:
            self.received_end = self.start
        newest = self.newest
        if newest is not None and self.epoch_before(newest.end) != newest.epoch:
            # Power was lost during a replacement of the log; the next open completes it.
            self._go_on_from(newest.end)
            self.received_end = newest.end
        self.read_vote(disk)
        return found

    def _read_anew(self) -> None:
        """Read all segments and find the sound batches.

        A checksum that was verified before is not computed again as long as the bytes are equal.
        """
        sound, self._sound = self._sound, {}
        for name in self._segments:
            if self._place is not None and self._place.position < len(self._place.file.durable):
                break  # The segment before is torn: nothing behind it belongs to the log.
            file = (self.names or {})[name]
            assert isinstance(file, File)
            self._place = place = _Place(name, file, 0)
            known = self._take(place, same_front(file.durable, sound.get(name, ())))
            self._sound[name] = known + self._read_file(place, checked=True)

    def _go_on_from(self, start: int) -> None:
        """Start from the committed history below this offset."""
        if not self._history.is_boundary(start):
            raise Violation("R21", f"a log starts at {start}, but committed is {self._history.end}")
        self.batches = self._history.between(0, start)
        self.ends = [each.end for each in self.batches]
        self.assigned = self._history.assigned_at(start)
        self._place = None

    @property
    def newest(self) -> Checkpoint | None:
        """The last snapshot that is whole."""
        whole = [each for each in self.checkpoints.values() if each.content is not None]
        return max(whole, key=lambda each: each.end, default=None)

    @property
    def can_fall_back(self) -> bool:
        """True if the log in files continues from a complete snapshot, or from offset 0."""
        newest = self.newest
        return self.start == 0 or (newest is not None and newest.end >= self.start)

    def look_at_names(self, disk: VirtualDisk) -> list[Checkpoint]:
        """List the segments and snapshots; return the new snapshots."""
        folder = disk.kept(self.folder)
        names = folder.durable if isinstance(folder, Folder) else {}
        if names is self.names:
            return []
        self.names = names
        self._segments = sorted([n for n in names if n.endswith(".log") and len(n) == 24])
        self.start = int(self._segments[0][:20]) if self._segments else 0
        self.checkpoints, new = checkpoints(names, self.checkpoints)
        return new

    def read_on(self) -> list[StoredBatch]:
        """Read what has become durable since; return the new batches."""
        return self._read_on()

    def is_another(self, disk: VirtualDisk) -> bool:
        """True if something that was read is gone, or the log starts elsewhere."""
        place, names = self._place, self.names or {}
        rewritten, disk.rewritten = disk.rewritten, []
        if place is None:
            return self.start > self.end
        if names.get(place.name) is not place.file:
            return True
        found = [self._is_rewritten(each, names) for each in rewritten]  # Each is looked at.
        return any(found)

    def _is_rewritten(self, file: File, names: Mapping[str, Node]) -> bool:
        """True if a batch or a snapshot that was read has been overwritten, in any file.

        Causes: a lost truncation whose old tail was overwritten, which keeps the length of the
        file; a misdirected write.
        """
        start, file.rewritten_from = file.rewritten_from, None
        name = next((each for each, node in names.items() if node is file), "")
        if name in self.checkpoints:
            return True
        if name not in self._segments or start is None:
            return False
        position = 0
        for batch in self._batches_in(name):
            end = position + len(batch.data)
            if end > start and file.durable[position:end] != batch.data:
                return True
            position = end
        return False

    def segments(self, newest: int | None = None) -> list[tuple[str, list[StoredBatch]]]:
        """The segments of the log, or the `newest` ones, with the batches in each."""
        if self._place is None:
            return []
        return [(each, self._batches_in(each)) for each in self._segments[-(newest or 0) :]]

    def _batches_in(self, segment: str) -> list[StoredBatch]:
        at = bisect_right(self._segments, segment)
        end = int(self._segments[at][:20]) if at < len(self._segments) else self.end
        return self.between(int(segment[:20]), end)

    def led(self, replica: int, disk: VirtualDisk) -> int:
        """The epoch that this replica led, in the vote file, durable or not; 0 if it did not lead.

        After a kill, the next process may sync what the killed one wrote.
        """
        if not disk.exists(self._vote_path):
            return 0
        state = json.loads(disk.content(self._vote_path))
        return int(state["leaderEpoch"]) if state["leaderId"] == replica else 0

    def read_vote(self, disk: VirtualDisk) -> bool:
        """Read the vote again; return True if it has changed."""
        file = disk.kept(self._vote_path)
        durable = file.durable if isinstance(file, File) else b""
        if durable == self._vote_bytes:
            return False
        self._vote_bytes = content = bytes(durable)
        if not content:
            self.vote = DurableVote()
            return True
        try:
            state = json.loads(content)
        except ValueError as error:
            raise Violation("R2", f"a vote is lost, the disk has {content!r}") from error
        voted, leader = state["votedId"], state["leaderId"]
        self.vote = DurableVote(
            state["leaderEpoch"], None if voted < 0 else voted, None if leader < 0 else leader
        )
        return True

    def _read_on(self) -> list[StoredBatch]:
        found: list[StoredBatch] = []
        place = self._place
        if place is not None:
            found += self._read_file(place)
        for name in self._segments[bisect_right(self._segments, place.name if place else "") :]:
            if place is not None and place.position < len(place.file.durable):
                break  # The segment before is torn: nothing behind it belongs to the log.
            file = (self.names or {})[name]
            assert isinstance(file, File)
            place = self._place = _Place(name, file, 0)
            found += self._read_file(place)
        return found

    def _read_file(self, place: _Place, *, checked: bool = False) -> list[StoredBatch]:
        return self._take(place, batches(place.file.durable, place.position, checked=checked))

    def _take(self, place: _Place, new: Sequence[StoredBatch]) -> list[StoredBatch]:
        """Take the batches that continue the log, up to the first that does not."""
        found: list[StoredBatch] = []
        for batch in new:
            if batch.base != self.end:
                break
            place.position += len(batch.data)
            self.batches.append(batch)
            self.ends.append(batch.end)
            found.append(batch)
            if batch.is_control:
                assigned = voter_set_in(*batch)
                self.assigned += [] if assigned is None else [assigned]
        return found


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One boot of a replica, as the checkers know it: key, boot number and disk."""

    key: ReplicaKey
    boot: int
    durable: DurableState
    led: int = 0
    """The last epoch that an earlier process led, by the disk at start; 0 if none."""
    id: ReplicaId = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.key.id)

    def __str__(self) -> str:
        return str(self.id)
