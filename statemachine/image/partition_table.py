"""The partition table of a topic: most partitions as packed rows of bytes.

A partition as a value takes half a kilobyte, and a cluster may have 2,000,000 of them. Nearly all
are ordinary: not being reassigned, without an ELR, and with a recovered leader. An ordinary
partition is a row in one block of bytes for the topic, and is decoded when it is read. The table
caches the values that were read last, since a change that is decided is soon replayed. All other
partitions are kept as values. Callers cannot tell the two apart.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple
from uuid import UUID

from statemachine.limits import PARTITIONS_REMEMBERED_MAX
from statemachine.partitions.registration import NO_STAGE, PartitionRegistration
from statemachine.records.row_codec import (
    FIRST_REPLICA,
    ROW_FORMATS,
    WIDTH_MAX,
    DirectoryNumbers,
    DoesNotFit,
    Fields,
    RowFormat,
    Split,
    format_of,
    place_of,
    widened,
)
from statemachine.records.shapes import encode_ordinary
from statemachine.vocabulary import NO_LEADER, RECOVERED, BrokerId, Directories, Replicas

NO_KEY: Final = 0xFFFFFFFF
"""The key in place of a missing partition."""

ONCE: Final[Iterable[int]] = repeat(1)
"""One change of each partition."""

_NO_REPLICAS: Final = (0,) * WIDTH_MAX


class UpdatedRows(NamedTuple):
    """Rows that had the same ISR before a change, and have the same one after it."""

    before: Replicas
    after: Replicas
    places: bytes
    """The positions of the members of `after` among the replicas."""
    numbers: list[int]


class RowIsr(NamedTuple):
    """The ISR of a row before and after a change."""

    before: Replicas
    after: Replicas
    places: bytes
    """The positions of the members of `after` among the replicas."""


class SharedState:
    """State that the tables of all topics of an image share."""

    __slots__ = ("_holders", "_left", "directories")

    def __init__(self) -> None:
        self.directories = DirectoryNumbers()
        """The numbers of log directories in rows."""
        self._holders: list[PartitionTable] = []
        self._left = PARTITIONS_REMEMBERED_MAX

    def count_decoded(self, table: "PartitionTable", *, is_first: bool) -> None:
        """Count one more value in the cache of a table; drop all values if there are too many."""
        self._left -= 1
        if self._left < 0:
            for holder in self._holders:
                holder.forget()
            self._holders.clear()
            self._left, is_first = PARTITIONS_REMEMBERED_MAX - 1, True
        if is_first:
            self._holders.append(table)


class PartitionTable:
    """The partitions of a topic by number, with a slot for each number below its length."""

    __slots__ = ("_count", "_decoded", "_form", "_rows", "_unpacked", "common")

    def __init__(self, common: SharedState) -> None:
        self.common = common
        self._count = 0
        self._form = ROW_FORMATS[1]
        self._rows = bytearray()
        self._unpacked: dict[int, PartitionRegistration] = {}
        """The partitions that are not rows."""
        self._decoded: dict[int, PartitionRegistration] = {}
        """The cache of decoded rows."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartitionRegistration | None]:
        number = 0
        while number < self._count:
            yield self.peek(number)
            number += 1

    def get(self, number: int) -> PartitionRegistration | None:
        """Return the partition with this number, or None; cache its decoded row."""
        made = self._decoded.get(number)
        if made is not None:
            return made
        if not 0 <= number < self._count:
            return None
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        if not fields[0]:
            return self._unpacked.get(number)
        partition = self._value(form, fields)
        self.common.count_decoded(self, is_first=not self._decoded)
        self._decoded[number] = partition
        return partition

    def peek(self, number: int) -> PartitionRegistration | None:
        """Like `get`, without caching the value: for scans."""
        if number >= self._count:
            return None
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        return self._value(form, fields) if fields[0] else self._unpacked.get(number)

    def put(self, number: int, after: PartitionRegistration | None) -> None:
        """Set the partition with this number, which has a slot; None removes it."""
        assert 0 <= number < self._count, f"there is no slot for partition {number}"
        before = self._decoded.get(number)
        if after is not None and _is_ordinary(after) and self._becomes_row(number, before, after):
            if before is None:
                self.common.count_decoded(self, is_first=not self._decoded)
                self._unpacked.pop(number, None)
            self._decoded[number] = after
            return
        self._decoded.pop(number, None)
        self._rows[number * self._form.size] = 0
        if after is None:
            self._unpacked.pop(number, None)
        else:
            self._unpacked[number] = after

    def forget(self) -> None:
        """Empty the cache."""
        self._decoded = {}

    def make_room(self, count: int) -> None:
        """Extend the table to at least `count` slots."""
        if count > self._count:
            self._rows += bytes((count - self._count) * self._form.size)
            self._count = count

    def trim(self) -> None:
        """Remove the slots after the last partition."""
        size, count = self._form.size, self._count
        while count and not self._rows[(count - 1) * size] and count - 1 not in self._unpacked:
            count -= 1
        self._count = count
        del self._rows[count * size :]

    def copy(self) -> "PartitionTable":
        """Return an independent copy."""
        other = PartitionTable(self.common)
        other._count, other._form = self._count, self._form
        other._rows = bytearray(self._rows)
        other._unpacked = dict(self._unpacked)
        return other

    def unpacked(self) -> list[tuple[int, PartitionRegistration]]:
        """Return number and value of each partition that is not a row, in order of number.

        Partitions under reassignment and partitions with an ELR are among them.
        """
        return sorted(self._unpacked.items())

    # Access to rows without decoding a value.

    def broker_ids(self) -> set[BrokerId]:
        """Return a superset of the brokers that have replicas of rows."""
        form, found = self._form, set[BrokerId]()
        end = FIRST_REPLICA + form.width
        for fields in form.whole.iter_unpack(self._rows):
            found.update(fields[FIRST_REPLICA:end])
        return found

    def append_rows(self, rows: bytearray, form: RowFormat, count: int) -> None:
        """Append `count` partitions as rows of this format."""
        if not self._count:
            self._form = form
        elif form.width > self._form.width:
            self._widen(form)
        elif form.width < self._form.width:
            rows = widened(rows, count, form, self._form)
        self._rows += rows
        self._count += count

    def splits(self, numbers: Sequence[int]) -> list[Split] | None:
        """Return the rows of these partitions in parts; None if one of them has no slot.

        For a partition that is not a row the first part begins with 0, and the rest is undefined.
        """
        if not numbers or min(numbers) < 0 or max(numbers) >= self._count:
            return None
        unpack_from, rows, size = self._form.split.unpack_from, self._rows, self._form.size
        return [unpack_from(rows, number * size) for number in numbers]

    def split(self, number: int) -> Split | None:
        """Like `splits`, for one partition."""
        if not 0 <= number < self._count:
            return None
        form = self._form
        return form.split.unpack_from(self._rows, number * form.size)

    def places(self, replicas: Replicas, isr: Replicas) -> bytes | None:
        """Return the places of the ISR as a row has them, or None if they do not fit."""
        return self._form.places(replicas, isr)

    def change_isr(self, number: int, epoch: int, places: bytes) -> None:
        """Set the partition epoch and the ISR of a row, which has room for both."""
        form = self._form
        form.isr.pack_into(self._rows, form.isr_at(number * form.size), epoch, places)
        self._decoded.pop(number, None)

    def change_isrs(
        self, numbers: Sequence[int], isrs: Sequence[Replicas], counts: Iterable[int] = ONCE
    ) -> list[UpdatedRows] | None:
        """Set the ISRs of rows, each named once, which have changed `counts` times.

        Return None and change nothing if one cannot be a row. Most of a thousand rows differ from
        others only in their epochs.
        """
        splits = self.splits(numbers)
        if splits is None:
            return None
        pack, known = self._form.isr.pack, dict[tuple[bytes, bytes, Replicas], UpdatedRows]()
        packed = []
        try:
            for number, isr, count, (head, _, epoch, tail) in zip(
                numbers, isrs, counts, splits, strict=False
            ):
                key = head, tail, isr
                updated = known.get(key)
                if updated is None:
                    updated = self._updated(number, isr)
                    if updated is None:
                        return None
                    known[key] = updated
                updated.numbers.append(number)
                packed.append(pack(epoch + count, updated.places))
        except DoesNotFit:
            return None
        rows, size, first = self._rows, self._form.size, self._form.isr_at(0)
        end = first + self._form.isr.size
        for number, each in zip(numbers, packed, strict=True):
            row_at = number * size
            rows[row_at + first : row_at + end] = each
            self._decoded.pop(number, None)
        return list(known.values())

    def _updated(self, number: int, isr: Replicas) -> UpdatedRows | None:
        """Return the ISR before and after; None if the partition is not a row, or stays none."""
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        replicas = form.replicas_of(fields)
        places = form.places(replicas, isr) if replicas else None
        if places is None:
            return None
        return UpdatedRows(form.isr_of(fields, replicas), isr, places, [])

    def row(self, number: int) -> bytes | None:
        """Return a copy of the row, or None if the partition has none."""
        if not 0 <= number < self._count:
            return None
        size = self._form.size
        row = bytes(self._rows[number * size : (number + 1) * size])
        return row if row[0] else None

    def decode_row(self, row: bytes) -> PartitionRegistration:
        """Decode a present or earlier row of this table."""
        form = format_of(row)
        return self._value(form, form.whole.unpack(row))

    def encoded(
        self, number: int, topic_id: bytes, version: int, row: bytes | None = None
    ) -> bytes | None:
        """Encode the row as a Partition record; None if there is none or `version` cannot.

        `topic_id` is the topic's; `row` is an earlier row to encode instead of the present one.
        """
        if row is not None:
            form = format_of(row)
            fields = form.whole.unpack(row)
        elif number < self._count:
            form = self._form
            fields = form.whole.unpack_from(self._rows, number * form.size)
        else:
            return None
        if not fields[0] or (fields[2] and not version):
            return None
        replicas = form.replicas_of(fields)
        leader = NO_LEADER if fields[1] < 0 else replicas[fields[1]]
        raw = self.common.directories.raw
        return encode_ordinary(
            version,
            number,
            topic_id,
            replicas,
            form.isr_of(fields, replicas),
            (leader, fields[3], fields[4]),
            b"".join([raw[each] for each in form.numbers_of(fields)]),
        )

    def _value(self, form: RowFormat, fields: Fields) -> PartitionRegistration:
        """Decode the fields of a row. It repeats methods of `RowFormat` inline for speed."""
        count = fields[0]
        replicas = fields[FIRST_REPLICA : FIRST_REPLICA + count]
        directories: Directories = ()
        if fields[2]:
            ids, first = self.common.directories.ids, form.first_number
            directories = tuple([ids[each] for each in fields[first : first + count]])
        in_order = fields[5] == form.in_order[count]
        return PartitionRegistration(
            replicas=replicas,
            isr=replicas if in_order else form.isr_of(fields, replicas),
            leader=NO_LEADER if fields[1] < 0 else replicas[fields[1]],
            leader_epoch=fields[3],
            partition_epoch=fields[4],
            directories=directories,
        )

    def _becomes_row(
        self, number: int, before: PartitionRegistration | None, after: PartitionRegistration
    ) -> bool:
        """Write the partition into its row; return False and leave the row void if it does not fit.

        `before` is the value of the row, if it is cached.
        """
        replicas, isr, directories = after.replicas, after.isr, after.directories
        count = len(replicas)
        if not 0 < count <= WIDTH_MAX or (directories and len(directories) != count):
            return False
        if count > self._form.width:
            self._widen(ROW_FORMATS[count])
        form = self._form
        places = form.in_order[count] if isr is replicas else form.places(replicas, isr)
        leader = 0 if after.leader == replicas[0] else place_of(after.leader, replicas)
        if places is None or leader is None:
            return False
        try:
            form.head.pack_into(
                self._rows,
                number * form.size,
                count,
                leader,
                directories != (),
                after.leader_epoch,
                after.partition_epoch,
                places,
            )
            # An unchanged field is the same tuple as before.
            if (
                before is not None
                and before.replicas is replicas
                and before.directories is directories
            ):
                return True
            return self._place(number * form.size, replicas, directories)
        except DoesNotFit:
            # An id or epoch outside the range of records, which only a faulty log can contain.
            return False

    def _place(self, row_at: int, replicas: Replicas, directories: Directories) -> bool:
        """Write the replicas and directories; return False if a directory has no number."""
        numbers, form = self.common.directories.of(directories), self._form
        if numbers is None:
            return False
        if len(numbers) < form.width:
            replicas += _NO_REPLICAS[: form.width - len(replicas)]
            numbers += _NO_REPLICAS[: form.width - len(numbers)]
        form.tail.pack_into(self._rows, row_at + form.replicas_at, *replicas, *numbers)
        return True

    def _widen(self, form: RowFormat) -> None:
        self._rows = widened(self._rows, self._count, self._form, form)
        self._form = form


class IsrChange:
    """A decided change of the ISR of one row, to be appended and replayed at once."""

    def __init__(self, topic: "Topic", number: int, epoch: int, isr: RowIsr) -> None:
        self.topic: Final = topic
        self.number: Final = number
        self.epoch: Final = epoch
        """The partition epoch after it."""
        self.isr: Final = isr


class Topic:
    """A topic with its partitions in the order of their numbers."""

    __slots__ = ("keys", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, common: SharedState) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = PartitionTable(common)
        self.keys = array("I")

    def partition(self, number: int) -> PartitionRegistration | None:
        """Return the partition with this number, or None."""
        return self.partitions.get(number)

    def existing(self, first: int = 0) -> Iterator[tuple[int, PartitionRegistration]]:
        """Yield number and value of each partition that exists, from number `first` on."""
        number = first
        while number < len(self.partitions):
            partition = self.partitions.peek(number)
            if partition is not None:
                yield number, partition
            number += 1

    def numbers(self) -> list[int]:
        """Return the numbers of the partitions that exist."""
        return [number for number, key in enumerate(self.keys) if key != NO_KEY]

    def make_room(self, number: int) -> None:
        """Extend the table to the partition of this number."""
        self.partitions.make_room(number + 1)
        self.keys.extend(repeat(NO_KEY, len(self.partitions) - len(self.keys)))

    def trim(self) -> None:
        """Remove the slots after the last partition."""
        self.partitions.trim()
        del self.keys[len(self.partitions) :]


def _is_ordinary(partition: PartitionRegistration) -> bool:
    """Return True if a row can hold everything but the replicas of this partition."""
    if partition.target or partition.adding or partition.removing or partition.original:
        return False
    if partition.elr or partition.last_known_elr or partition.recovery != RECOVERED:
        return False
    return partition.stage is NO_STAGE or partition.stage == NO_STAGE
