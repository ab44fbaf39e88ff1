"""What was written, what was read back, and whether the one is the other. Pure.

The content of every record follows from its partition and its number alone, so that nothing has
to be kept to know what it should be. Per partition the numbers rise from 0 in the order written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

NO_OFFSET: Final = -1
_HEAD: Final = "%05d-%012d "
_HEAD_BYTES: Final = len(_HEAD % (0, 0))
RECORD_BYTES_MIN: Final = _HEAD_BYTES


def content(partition: int, number: int, size_bytes: int) -> bytes:
    """The record of this number: it names itself, over and over, in exactly `size_bytes`."""
    assert size_bytes >= RECORD_BYTES_MIN
    head = (_HEAD % (partition, number)).encode()
    return (head * (size_bytes // _HEAD_BYTES + 1))[:size_bytes]


def number_of(value: bytes, partition: int) -> int | None:
    """Which record of `partition` this is; None if it is none, to the last byte."""
    head = value[:_HEAD_BYTES]
    try:
        number = int(head[6:-1])
    except ValueError:
        return None
    return number if value == content(partition, number, max(len(value), _HEAD_BYTES)) else None


@dataclass(slots=True)
class Written:
    """What one partition was given and has acknowledged."""

    given: int = 0
    """Records handed over; their numbers are those below it."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The number of each acknowledged record, with its offset, or `NO_OFFSET`."""

    def acknowledge(self, first: int, count: int, offset: int) -> None:
        """`count` records from `first` on are written at `offset`."""
        for place in range(count):
            at = NO_OFFSET if offset == NO_OFFSET else offset + place
            self.acknowledged[first + place] = at


@dataclass(slots=True)
class Read:
    """What one partition gave back: each offset with the number of the record there, if any."""

    numbers: dict[int, int] = field(default_factory=dict)
    """The offset at which each number was first read."""
    duplicated: int = 0
    foreign: int = 0
    """Records that were never written like this."""
    disordered: int = 0
    """Records that came after one with a higher number."""
    _last: int = -1

    def note(self, offset: int, number: int | None) -> None:
        """A record was read; `number` is None if its content is not one of ours."""
        if number is None:
            self.foreign += 1
            return
        if number in self.numbers:
            self.duplicated += 1
            return
        if number < self._last:
            self.disordered += 1
        self._last = max(self._last, number)
        self.numbers[number] = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The two sides compared; `fault` says what is wrong, or None."""

    acknowledged: int
    read: int
    lost: int
    """Acknowledged, but not there."""
    elsewhere: int
    """Acknowledged at another offset than the one where they are."""
    duplicated: int
    foreign: int
    disordered: int

    @property
    def fault(self) -> str | None:
        """What must not be."""
        wrong = {
            "acknowledged records are lost": self.lost,
            "acknowledged records are at another offset": self.elsewhere,
            "records are there twice": self.duplicated,
            "records are not what was written": self.foreign,
            "records are out of order": self.disordered,
        }
        found = [f"{count} {what}" for what, count in wrong.items() if count]
        return ", ".join(found) or None


def balance(pairs: Iterable[tuple[Written, Read]]) -> Balance:
    """All partitions compared."""
    both = list(pairs)
    return Balance(
        acknowledged=sum(len(written.acknowledged) for written, _ in both),
        read=sum(len(read.numbers) + read.duplicated + read.foreign for _, read in both),
        lost=sum(len(written.acknowledged.keys() - read.numbers.keys()) for written, read in both),
        elsewhere=sum(_elsewhere(written, read) for written, read in both),
        duplicated=sum(read.duplicated for _, read in both),
        foreign=sum(read.foreign for _, read in both),
        disordered=sum(read.disordered for _, read in both),
    )


def _elsewhere(written: Written, read: Read) -> int:
    return sum(
        1
        for number, offset in written.acknowledged.items()
        if offset != NO_OFFSET and read.numbers.get(number, offset) != offset
    )
