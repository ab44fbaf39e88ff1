"""Damage to the files of logs: bits that flip, sectors of zeros, files that are gone or cut off.

What is left of each copy is told by the batches that it was made of, and not by any reader.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

from quorum.log.append_times import UNKNOWN
from quorum.records.batch import HEADER_BYTES
from tests.lag.small_quorum import Copy, Made

SECTORS: Final = (512, 4096)
"""Sizes in bytes."""
PLACED_BYTES: Final = 27
"""The front of a header, with its offset, length, epoch and last offset."""


@dataclass
class File:
    """A segment on disk, and the batches that were written into it."""

    path: Path
    batches: Sequence[Made]
    content: bytearray
    size: int
    """The size that it was cut off to."""
    is_there: bool = True
    has_index: bool = True

    @cached_property
    def _positions(self) -> dict[int, int]:
        ends = accumulate((len(each.data) for each in self.batches), initial=0)
        return {batch.offset: at for batch, at in zip(self.batches, ends, strict=False)}

    def at(self, batch: Made) -> int:
        """The position of a batch."""
        return self._positions[batch.offset]


@dataclass
class DamagedCopies:
    """The copies of a quorum, and what was done to them."""

    files: dict[int, list[File]]
    """By replica, in order."""
    copies: dict[int, Copy] = field(default_factory=dict)
    deeds: list[str] = field(default_factory=list)
    _flipped: set[tuple[Path, int]] = field(default_factory=set)
    _zeroed: list[tuple[Path, int, int]] = field(default_factory=list)
    """Each file with the first and the last position, exclusive."""

    @classmethod
    def of(cls, copies: Sequence[Copy], root: Path) -> "DamagedCopies":
        """The copies as they were written below `root`."""
        files = {}
        for copy in copies:
            folder = copy.write(root)
            files[copy.name] = [
                File(path, own, bytearray(data), len(data), has_index=copy.is_timed)
                for own in copy.segments
                for path in [folder / f"{own[0].offset:020}.log"]
                for data in [path.read_bytes()]
            ]
        return cls(files, {copy.name: copy for copy in copies})

    def flip(self, file: File, at: int, bit: int) -> None:
        """One bit of a byte; of each batch at most one."""
        if self._batch_at(file, at) in self._flipped:
            return
        self._flipped.add(self._batch_at(file, at))
        file.content[at] ^= 1 << bit
        self.deeds.append(f"bit {bit} of byte {at} of {self._name(file)} is flipped")

    @staticmethod
    def _batch_at(file: File, at: int) -> tuple[Path, int]:
        """The batch that has this byte."""
        for place, batch in enumerate(file.batches):
            at -= len(batch.data)
            if at < 0:
                return file.path, place
        raise AssertionError("the file has no such byte")

    def flip_any(self, rng: random.Random, name: int) -> None:
        """A bit anywhere in a copy."""
        file = rng.choice(self.files[name])
        if file.content:
            self.flip(file, rng.randrange(len(file.content)), rng.randrange(8))

    def flip_batch(self, rng: random.Random, key: tuple[int, int]) -> None:
        """A bit of this batch, in every copy that has it."""
        for files in self.files.values():
            for file in files:
                for batch in file.batches:
                    if batch.key == key:
                        at = file.at(batch) + rng.randrange(len(batch.data))
                        self.flip(file, at, rng.randrange(8))

    def zero(self, file: File, low: int, high: int) -> None:
        """These bytes are zeros."""
        high = min(high, len(file.content))
        file.content[low:high] = bytes(high - low)
        self._zeroed.append((file.path, low, high))
        self.deeds.append(f"bytes {low} to {high} of {self._name(file)} are zeros")

    def zero_sectors(self, rng: random.Random, name: int) -> None:
        """One or two sectors of a file."""
        file, size = rng.choice(self.files[name]), rng.choice(SECTORS)
        low = rng.randrange(0, len(file.content), size)
        self.zero(file, low, low + size * rng.choice((1, 1, 2)))

    def zero_unconfirmed(self) -> None:
        """The batches that stand alone between damage, and of which only their own header says
        where they belong. A report cannot use them."""
        for name, files in self.files.items():
            others = {
                each.key for other in self.files if other != name for each in self.intact(other)
            }
            own = [(batch, file) for file in files for batch in file.batches]
            epochs = [batch.epoch if self._is_intact(batch, file) else None for batch, file in own]
            around = zip([None, *epochs], own, [*epochs[1:], None], strict=False)
            for before, (batch, file), after in around:
                is_alone = self._is_intact(batch, file) and batch.epoch not in (before, after)
                is_indexed = file.has_index and UNKNOWN not in (batch.entry[0], batch.entry[2])
                if is_alone and not is_indexed and batch.key not in others:
                    self.zero(file, file.at(batch), file.at(batch) + len(batch.data))

    def lose(self, file: File, *, with_index: bool = True) -> None:
        """The file is gone, and its index with it."""
        file.is_there, file.has_index = False, file.has_index and not with_index
        kept = "" if with_index else ", and its index is not"
        self.deeds.append(f"{self._name(file)} is gone{kept}")

    def cut(self, name: int, file: File, size: int) -> None:
        """The file is cut off, and those behind it are gone."""
        files = self.files[name]
        file.size = min(file.size, size)
        for later in files[files.index(file) + 1 :]:
            later.is_there = later.has_index = False
        self.deeds.append(f"{self._name(file)} is cut off at {size}")

    @staticmethod
    def _name(file: File) -> str:
        return "/".join(file.path.parts[-3:])

    def apply(self) -> None:
        """Write it to the files."""
        for files in self.files.values():
            for file in files:
                if file.is_there:
                    file.path.write_bytes(file.content[: file.size])
                else:
                    file.path.unlink()
                if not file.has_index:
                    file.path.with_suffix(".appendtime").unlink(missing_ok=True)

    def intact(self, name: int) -> list[Made]:
        """The batches of a copy whose bytes are all there, as they were."""
        return [batch for batch, is_intact, _ in self.batches(name) if is_intact]

    def batches(self, name: int) -> Iterator[tuple[Made, bool, bool]]:
        """The batches that a copy was made of: are they intact, and is their index there?"""
        for file in self.files[name]:
            for batch in file.batches:
                yield batch, self._is_intact(batch, file), file.has_index

    @staticmethod
    def _is_intact(batch: Made, file: File) -> bool:
        low = file.at(batch)
        high = low + len(batch.data)
        return file.is_there and high <= file.size and file.content[low:high] == batch.data

    def indexed(self, name: int) -> list[Made]:
        """The batches of a copy of which only its indexes are left."""
        files = self.files[name]
        if any(file.is_there and file.size for file in files):
            return []
        return [
            batch
            for file in files
            if file.has_index
            for batch in file.batches
            if UNKNOWN not in (batch.entry[0], batch.entry[2])
        ]

    def reached(self, name: int) -> list[Made]:
        """The batches of a copy up to where its files end, whatever was done to them before.

        Where a file ends with zeros, nothing says that there were batches.
        """
        found: list[Made] = []
        end = 0
        there = [at for at, file in enumerate(self.files[name]) if file.is_there]
        for file in self.files[name][: max(there, default=-1) + 1]:
            position, is_told = 0, True
            for batch in file.batches:
                position += len(batch.data)
                if position <= file.size:
                    found.append(batch)
                    is_intact = self._is_intact(batch, file)
                    is_told = is_intact or (is_told and self._is_placed(batch, file))
                    end = len(found) if is_told and file.is_there else end
        return found[:end]

    def has_damaged_end(self, name: int) -> bool:
        """True if the last file of a copy ends with bytes that are no whole batch."""
        file = next((each for each in reversed(self.files[name]) if each.is_there), None)
        if file is None:
            return False
        own = [each for each in file.batches if self._is_intact(each, file)]
        return (file.at(own[-1]) + len(own[-1].data) if own else 0) < file.size

    def _is_placed(self, batch: Made, file: File) -> bool:
        """True unless zeros are in place of its header, so that nothing says where it was."""
        low = file.at(batch)
        head = file.content[low : low + HEADER_BYTES]
        is_hit = any(
            path == file.path and begin < low + HEADER_BYTES and low < end
            for path, begin, end in self._zeroed
        )
        is_front_there = head[:PLACED_BYTES] == batch.data[:PLACED_BYTES]
        return not is_hit or (is_front_there and any(head[PLACED_BYTES:]))


def damage_at_random(rng: random.Random, damaged: DamagedCopies, log: Sequence[Made]) -> None:
    """A combination of damage, loss and truncation."""
    names = list(damaged.files)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        damaged.flip_any(rng, rng.choice(names))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        lost = rng.choice(damaged.files[rng.choice(names)])
        damaged.lose(lost, with_index=rng.random() < 0.6)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        name = rng.choice(names)
        file = rng.choice(damaged.files[name][-2:])
        damaged.cut(name, file, rng.randint(0, len(file.content)))
    for _ in range(rng.choice((0, 0, 1, 2))):
        damaged.flip_batch(rng, rng.choice(log).key)
    for _ in range(zeroed := rng.choice((0, 0, 1, 1, 2))):
        damaged.zero_sectors(rng, rng.choice(names))
    if zeroed:
        damaged.zero_unconfirmed()
