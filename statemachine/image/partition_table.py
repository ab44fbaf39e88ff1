"""The partition table of a topic: most partitions as packed rows of bytes.

A partition as a value takes half a kilobyte, and a cluster may have 2,000,000 of them. Nearly all
are ordinary: none is moving, nobody is eligible to lead who is not in sync, and whoever leads has
recovered. Such a one is a row here, in one block of bytes for the topic, and is made into a
`PartitionRegistration` for whoever asks. Those that were asked for last are remembered, for who
decides about a partition soon replays what was decided. All others are kept as they are. Nobody
outside can tell the two apart.
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
    FORMS,
    WIDTH_MAX,
    DoesNotFit,
    Fields,
    Form,
    Numbers,
    Split,
    form_of,
    place_of,
    widened,
)
from statemachine.records.shapes import encode_ordinary
from statemachine.vocabulary import NO_LEADER, RECOVERED, BrokerId, Directories, Replicas

NO_KEY: Final = 0xFFFFFFFF
"""The key of a number that no partition has."""

ONCE: Final[Iterable[int]] = repeat(1)
"""One change of each partition."""

_NO_REPLICAS: Final = (0,) * WIDTH_MAX


class UpdatedRows(NamedTuple):
    """Rows whose ISR was the same, and is the same again."""

    before: Replicas
    after: Replicas
    places: bytes
    """Those of the members of `after`."""
    numbers: list[int]


class SharedState:
    """State that the tables of all topics of an image share."""

    __slots__ = ("_holders", "_left", "directories")

    def __init__(self) -> None:
        self.directories = Numbers()
        """The numbers of log directories in rows."""
        self._holders: list[PartitionTable] = []
        self._left = PARTITIONS_REMEMBERED_MAX

    def remembering(self, columns: "PartitionTable", *, is_first: bool) -> None:
        """These columns are about to remember a partition more; the first one of theirs."""
        self._left -= 1
        if self._left < 0:
            for holder in self._holders:
                holder.forget()
            self._holders.clear()
            self._left, is_first = PARTITIONS_REMEMBERED_MAX - 1, True
        if is_first:
            self._holders.append(columns)


class PartitionTable:
    """The partitions of a topic by number, with a place for each number below its length."""

    __slots__ = ("_count", "_form", "_made", "_others", "_rows", "common")

    def __init__(self, common: SharedState) -> None:
        self.common = common
        self._count = 0
        self._form = FORMS[1]
        self._rows = bytearray()
        self._others: dict[int, PartitionRegistration] = {}
        """Those that are no rows."""
        self._made: dict[int, PartitionRegistration] = {}
        """Some of those that are, as values."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartitionRegistration | None]:
        number = 0
        while number < self._count:
            yield self.peek(number)
            number += 1

    def get(self, number: int) -> PartitionRegistration | None:
        """The partition of this number, or None; it is remembered."""
        made = self._made.get(number)
        if made is not None:
            return made
        if not 0 <= number < self._count:
            return None
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        if not fields[0]:
            return self._others.get(number)
        partition = self._value(form, fields)
        self.common.remembering(self, is_first=not self._made)
        self._made[number] = partition
        return partition

    def peek(self, number: int) -> PartitionRegistration | None:
        """As `get`, without remembering the value: for scans."""
        if number >= self._count:
            return None
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        return self._value(form, fields) if fields[0] else self._others.get(number)

    def put(self, number: int, after: PartitionRegistration | None) -> None:
        """The partition of this number, for which there is a place, is this."""
        assert 0 <= number < self._count, f"there is no place for a partition {number}"
        before = self._made.get(number)
        if after is not None and _is_ordinary(after) and self._becomes_row(number, before, after):
            if before is None:
                self.common.remembering(self, is_first=not self._made)
                self._others.pop(number, None)
            self._made[number] = after
            return
        self._made.pop(number, None)
        self._rows[number * self._form.size] = 0
        if after is None:
            self._others.pop(number, None)
        else:
            self._others[number] = after

    def forget(self) -> None:
        """Remember nothing."""
        self._made = {}

    def make_room(self, count: int) -> None:
        """Extend the table to at least so many places."""
        if count > self._count:
            self._rows += bytes((count - self._count) * self._form.size)
            self._count = count

    def trim(self) -> None:
        """Remove the places behind the last partition."""
        size, count = self._form.size, self._count
        while count and not self._rows[(count - 1) * size] and count - 1 not in self._others:
            count -= 1
        self._count = count
        del self._rows[count * size :]

    def copy(self) -> "PartitionTable":
        """Return an independent copy."""
        other = PartitionTable(self.common)
        other._count, other._form = self._count, self._form
        other._rows = bytearray(self._rows)
        other._others = dict(self._others)
        return other

    def others(self) -> list[tuple[int, PartitionRegistration]]:
        """Number and value of those that are not ordinary, in the order of their numbers.

        Whatever is being moved is among them, and whatever has an ELR.
        """
        return sorted(self._others.items())

    # Access without making a value.

    def broker_ids(self) -> set[BrokerId]:
        """All that have a replica of a row; there may be more."""
        form, found = self._form, set[BrokerId]()
        end = FIRST_REPLICA + form.width
        for fields in form.whole.iter_unpack(self._rows):
            found.update(fields[FIRST_REPLICA:end])
        return found

    def append_rows(self, rows: bytearray, form: Form, count: int) -> None:
        """So many partitions more, which are these rows."""
        if not self._count:
            self._form = form
        elif form.width > self._form.width:
            self._widen(form)
        elif form.width < self._form.width:
            rows = widened(rows, count, form, self._form)
        self._rows += rows
        self._count += count

    def splits(self, numbers: Sequence[int]) -> list[Split] | None:
        """The rows of these partitions in parts; None where there is no place for one of them.

        What is no row has a first part that begins with 0, and the others say nothing.
        """
        if not numbers or min(numbers) < 0 or max(numbers) >= self._count:
            return None
        unpack_from, rows, size = self._form.split.unpack_from, self._rows, self._form.size
        return [unpack_from(rows, number * size) for number in numbers]

    def change_isrs(
        self, numbers: Sequence[int], isrs: Sequence[Replicas], counts: Iterable[int] = ONCE
    ) -> list[UpdatedRows] | None:
        """Give rows, each named once, these ISRs by so many changes of each.

        Returns None, and changes nothing, if one is no row or would be none. Of a thousand rows
        most are like others, but for their epochs.
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
                became = known.get(key)
                if became is None:
                    became = self._became(number, isr)
                    if became is None:
                        return None
                    known[key] = became
                became.numbers.append(number)
                packed.append(pack(epoch + count, became.places))
        except DoesNotFit:
            return None
        rows, size, first = self._rows, self._form.size, self._form.isr_at(0)
        end = first + self._form.isr.size
        for number, each in zip(numbers, packed, strict=True):
            row_at = number * size
            rows[row_at + first : row_at + end] = each
            self._made.pop(number, None)
        return list(known.values())

    def _became(self, number: int, isr: Replicas) -> UpdatedRows | None:
        """Return the ISR of the row before and after, or None if it is no row before or after."""
        form = self._form
        fields = form.whole.unpack_from(self._rows, number * form.size)
        replicas = form.replicas_of(fields)
        places = form.places(replicas, isr) if replicas else None
        if places is None:
            return None
        return UpdatedRows(form.isr_of(fields, replicas), isr, places, [])

    def row(self, number: int) -> bytes | None:
        """A copy of the row, or None if the partition has none."""
        if not 0 <= number < self._count:
            return None
        size = self._form.size
        row = bytes(self._rows[number * size : (number + 1) * size])
        return row if row[0] else None

    def said_by(self, row: bytes) -> PartitionRegistration:
        """Decode a row that this table has, or had."""
        form = form_of(row)
        return self._value(form, form.whole.unpack(row))

    def encoded(
        self, number: int, topic_id: bytes, version: int, row: bytes | None = None
    ) -> bytes | None:
        """Encode the row as a Partition record; None if there is none or `version` cannot.

        `topic_id` is that of the topic; `row` is given where it is what the columns had once.
        """
        if row is not None:
            form = form_of(row)
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

    def _value(self, form: Form, fields: Fields) -> PartitionRegistration:
        """Decode the fields of a row. Repeats methods of `Form` inline for speed."""
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
        """Write the partition into its row if it fits; otherwise return False, and the row is void.

        `before` is what the row says, if that is known.
        """
        replicas, isr, directories = after.replicas, after.isr, after.directories
        count = len(replicas)
        if not 0 < count <= WIDTH_MAX or (directories and len(directories) != count):
            return False
        if count > self._form.width:
            self._widen(FORMS[count])
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
            # What is taken over from the value before is the same tuple.
            if (
                before is not None
                and before.replicas is replicas
                and before.directories is directories
            ):
                return True
            return self._place(number * form.size, replicas, directories)
        except DoesNotFit:
            # An id or an epoch that no record can say, as only a log of faults would count up to.
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

    def _widen(self, form: Form) -> None:
        self._rows = widened(self._rows, self._count, self._form, form)
        self._form = form


class Topic:
    """A topic with its partitions in the order of their numbers; None where one is missing."""

    __slots__ = ("keys", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, common: SharedState) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = PartitionTable(common)
        self.keys = array("I")

    def partition(self, number: int) -> PartitionRegistration | None:
        """The partition of this number, or None."""
        return self.partitions.get(number)

    def existing(self) -> Iterator[tuple[int, PartitionRegistration]]:
        """Number and value of each partition that exists."""
        for number, partition in enumerate(self.partitions):
            if partition is not None:
                yield number, partition

    def numbers(self) -> list[int]:
        """The numbers of the partitions that exist."""
        return [number for number, key in enumerate(self.keys) if key != NO_KEY]

    def make_room(self, number: int) -> None:
        """Extend the table to the partition of this number."""
        self.partitions.make_room(number + 1)
        self.keys.extend(repeat(NO_KEY, len(self.partitions) - len(self.keys)))

    def trim(self) -> None:
        """Remove the places behind the last partition."""
        self.partitions.trim()
        del self.keys[len(self.partitions) :]


def _is_ordinary(partition: PartitionRegistration) -> bool:
    """Return True if a row can hold everything but the replicas of this partition."""
    if partition.target or partition.adding or partition.removing or partition.original:
        return False
    if partition.elr or partition.last_known_elr or partition.recovery != RECOVERED:
        return False
    return partition.stage is NO_STAGE or partition.stage == NO_STAGE
