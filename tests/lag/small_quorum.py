"""A quorum of a few replicas with short logs, by Raft's rules: elections, tails that are given up.

A seed replays all. Batches are real ones, but what they say is not: `merge` looks at headers only.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import ReplicaId
from quorum.log.append_times import UNKNOWN
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode
from tests.lag.handmade_logs import BEGIN_MS, stamped, write_index, write_segment

METADATA: Final = "__cluster_metadata-0"


@dataclass(frozen=True)
class Made:
    """A batch in the log of a replica."""

    offset: int
    end: int
    epoch: int
    data: bytes
    entry: tuple[int, int, int] = (UNKNOWN, 0, UNKNOWN)
    """Its entry in the index of append times: time, end offset and epoch."""

    @property
    def key(self) -> tuple[int, int]:
        return self.offset, self.epoch


@dataclass
class Copy:
    """The log of one replica, divided into segments."""

    name: int
    batches: list[Made] = field(default_factory=list)
    segments: list[list[Made]] = field(default_factory=list)
    is_timed: bool = True
    meta: Mapping[str, str] = field(default_factory=lambda: {"cluster.id": "small"})

    @property
    def last(self) -> tuple[int, int]:
        """Its last epoch and its end: who votes compares these."""
        return (self.batches[-1].epoch, self.batches[-1].end) if self.batches else (0, 0)

    def divide(self, rng: random.Random, most: int) -> None:
        """Divide it into segments of at most so many batches."""
        at = 0
        while at < len(self.batches):
            size = rng.randint(1, most)
            self.segments.append(self.batches[at : at + size])
            at += size

    def write(self, root: Path) -> Path:
        """The folder of the log below `root`."""
        folder = root / f"node-{self.name}"
        for own in self.segments:
            path = write_segment(folder / METADATA, own[0].offset, [each.data for each in own])
            if self.is_timed:
                write_index(path, [each.entry for each in own])
        said = {"version": "1", "node.id": str(self.name), **self.meta}
        lines = [f"{name}={value}\n" for name, value in said.items()]
        (folder / "meta.properties").write_text("".join(lines))
        return folder / METADATA


class SmallQuorum:
    """Its life, and the copies that are left of it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        names = range(1, rng.choice((3, 3, 4, 5)) + 1)
        self.copies = [Copy(name, is_timed=rng.random() < 0.7) for name in names]
        self._now_ms = BEGIN_MS
        self._epoch = 0
        self._leader = self.copies[0]
        for _ in range(rng.randint(2, 5)):
            self._elect()
            for _ in range(rng.randint(0, 12)):
                self._append()
        self.copies = [copy for copy in self.copies if copy.batches]
        for copy in self.copies:
            copy.divide(rng, 8)

    @property
    def log(self) -> list[Made]:
        """The quorum's: the copy that is the most up to date."""
        return max(self.copies, key=lambda copy: copy.last).batches

    def _elect(self) -> None:
        """Somebody leads whose log is as up to date as those of a majority."""
        in_order = sorted(self.copies, key=lambda copy: copy.last)
        needed = len(in_order) // 2
        able = [each for each in self.copies if each.last >= in_order[needed].last]
        self._leader = self._rng.choice(able)
        self._epoch += self._rng.choice((1, 1, 1, 2))
        leader = ReplicaId(self._leader.name)
        change = LeaderChange(leader=leader, voters=(ReplicaId(1),), granting=(leader,))
        self._put(bytes(encode_leader_change(change, timestamp_ms=self._time())), 1)

    def _append(self) -> None:
        count = self._rng.randint(1, 4)
        values = [self._rng.randbytes(self._rng.randint(1, 40)) for _ in range(count)]
        self._put(bytes(encode(values, timestamp_ms=self._time())), count)

    def _time(self) -> int:
        self._now_ms += self._rng.randint(1, 50)
        return self._now_ms

    def _put(self, made: bytes, count: int) -> None:
        base = self._leader.last[1]
        data = stamped(made, base, self._epoch)
        entry = (self._now_ms, base + count, self._epoch)
        self._leader.batches.append(Made(base, base + count, self._epoch, data, entry))
        for copy in self.copies:
            if copy is not self._leader and self._rng.random() < 0.7:
                self._follow(copy)

    def _follow(self, copy: Copy) -> None:
        """It gives up what its leader does not have, and gets some of what it lacks."""
        theirs = self._leader.batches
        shared = 0
        for own, other in zip(copy.batches, theirs, strict=False):
            if own.key != other.key:
                break
            shared += 1
        more = theirs[shared : shared + self._rng.randint(1, 4)]
        here_ms = self._now_ms + self._rng.randint(1, 30)
        copy.batches[shared:] = [
            replace(each, entry=(here_ms, each.end, each.epoch)) for each in more
        ]
