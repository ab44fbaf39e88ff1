"""The partition index: the partitions that a broker holds, leads or is in sync for, without a scan.

Each partition has a key: a small number that is reused after the partition is deleted, so that the
keys of 2,000,000 partitions stay dense and their bitmaps small. Keys depend on the history of the
process. Decisions must not, so partitions are returned in the order of topic name and number.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import attrgetter
from typing import Final, NamedTuple

from pyroaring import BitMap

from statemachine.image.bitmap_builder import BitmapBuilder, Part
from statemachine.image.delta import SchedulerDelta
from statemachine.image.partition_table import NO_KEY, Topic
from statemachine.partitions.registration import PartitionRegistration, moves_leader
from statemachine.records.row_codec import Rows, rising
from statemachine.slices import PASSED_US, SORTED_US, UNITED_US, Slices, sort_in_slices
from statemachine.vocabulary import NO_LEADER, NO_MOVE, BrokerId, MoveId, Replicas

_KEYS_AT_ONCE: Final = 10_000
_KEYS_US: Final = 200
"""The cost of a bitmap of so many keys of a topic."""


class PartitionIndex:
    """Keys of partitions, and for each broker the bitmaps of keys by its roles."""

    def __init__(self) -> None:
        self._topics: list[Topic | None] = []
        self._numbers = array("I")
        self._free: list[int] = []
        self.replicas_of: Part = {}
        self.isr_of: Part = {}
        self.elr_of: Part = {}
        self.leader_of: Part = {}
        """Includes NO_LEADER: the partitions without a leader."""
        self._bitmap_builder = BitmapBuilder(self.replicas_of, self.isr_of, self.leader_of)
        self.moving = BitMap()
        """The partitions with a reassignment under way."""
        self.stepping = BitMap()
        """Those of `moving` that are adding or removing replicas."""
        self.waiting = BitMap()
        """The rest of `moving`: they wait for their next step."""
        self.adding_total = 0
        """The number of replicas that are being added, over all partitions."""
        self.leader_moves = 0
        """The number of steps under way that move a leader."""
        self.of_move: dict[MoveId, BitMap] = {}
        """The partitions that belong to each move that has any."""
        self.delta: SchedulerDelta | None = None
        """The changes for the scheduler of an active controller, which reads and clears them."""

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self._topics) - len(self._free)

    def lose_delta(self) -> None:
        """Tell the scheduler that the image was rewound or replaced."""
        if self.delta is not None:
            self.delta.lose()

    def give_key(self, topic: Topic, number: int) -> int:
        """Return a key for a partition that is about to be created."""
        if self._free:
            key = self._free.pop()
            self._topics[key] = topic
            self._numbers[key] = number
            return key
        self._topics.append(topic)
        self._numbers.append(number)
        return len(self._topics) - 1

    def add_rows(self, topic: Topic, rows: Rows, places: slice) -> None:
        """Add partitions to the topic; `settle` adds them to the bitmaps."""
        numbers = rows.numbers[places]
        if not self._free:
            first = len(self._topics)
            keys = rising(first, len(numbers))
            self._topics += [topic] * len(numbers)
            self._numbers += numbers
        else:
            keys = array("I", [self.give_key(topic, number) for number in numbers])
        size = rows.form.size
        block = rows.rows[places.start * size : places.stop * size]
        topic.partitions.append_rows(block, rows.form, len(numbers))
        topic.keys += keys
        self._bitmap_builder.gather(rows, places, keys)

    def settle(self) -> None:
        """Add the keys of all added rows to the bitmaps."""
        while not self._bitmap_builder.settle():
            pass

    def settle_some(self) -> bool:
        """Settle for a few milliseconds; return True if nothing is left."""
        return self._bitmap_builder.settle()

    def take_key(self, key: int) -> None:
        """Release the key of a deleted partition."""
        self._topics[key] = None
        self._free.append(key)

    def update(
        self, key: int, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        """Update the bitmaps after a change of a partition; None is "does not exist"."""
        was, now = before or _ABSENT, after or _ABSENT
        if now.replicas is not was.replicas:
            _move(self.replicas_of, key, was.replicas, now.replicas)
        if now.isr is not was.isr:
            _move(self.isr_of, key, was.isr, now.isr)
        if now.elr is not was.elr:
            _move(self.elr_of, key, was.elr, now.elr)
        if before is None or after is None or now.leader != was.leader:
            # NO_LEADER is indexed like a leader, but only of partitions that exist.
            led_by = () if before is None else (was.leader,)
            _move(self.leader_of, key, led_by, () if after is None else (now.leader,))
        # The property `moving` inline: most changes are of partitions that do not move.
        moved = was.target or was.adding or was.removing
        if moved or now.target or now.adding or now.removing:
            self._note_move(key, was, now)

    def remove(self, topic: Topic) -> None:
        """Remove a deleted topic, which keeps its partitions for an undo."""
        for number, partition in topic.partitions.unpacked():
            self.update(topic.keys[number], partition, None)
        keys = BitMap([key for key in topic.keys if key != NO_KEY])
        # Only rows are left in the bitmaps, and a row has no ELR.
        for broker_id in (NO_LEADER, *topic.partitions.broker_ids()):
            for part in (self.replicas_of, self.isr_of, self.leader_of):
                bitmap = part.get(broker_id)
                if bitmap is not None:
                    bitmap.difference_update(keys)
        for key in keys:
            self.take_key(key)

    def revive(self, topic: Topic) -> None:
        """Add a deleted topic again, with the partitions that it had."""
        for number, partition in topic.existing():
            key = topic.keys[number] = self.give_key(topic, number)
            self.update(key, None, partition)

    def change_isr(self, key: int, before: Replicas, after: Replicas) -> None:
        """Update the bitmaps after a change of the ISR of one partition."""
        _move(self.isr_of, key, before, after)

    def change_isrs(self, keys: list[int], before: Replicas, after: Replicas) -> None:
        """Update the bitmaps after the same change of ISR of all these partitions."""
        many = BitMap(keys)
        for broker_id in before:
            if broker_id not in after:
                self.isr_of[broker_id].difference_update(many)
        for broker_id in after:
            if broker_id not in before:
                self.isr_of.setdefault(broker_id, BitMap()).update(many)

    def _note_move(
        self, key: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        """Update the entries about moves; one of the two is moving."""
        if self.delta is not None:
            self.delta.add(self.delta.partitions, key)
        was, now = _moving(before), _moving(after)
        if was.steps is not now.steps:
            _mark(self.moving, key, now.steps is not None)
            _mark(self.stepping, key, now.steps is True)
            _mark(self.waiting, key, now.steps is False)
        self.adding_total += now.adding - was.adding
        self.leader_moves += now.moves_leader - was.moves_leader
        if was.move != now.move:
            self._change_move(key, was.move, now.move)

    def _change_move(self, key: int, before: MoveId, after: MoveId) -> None:
        if before != NO_MOVE:
            keys = self.of_move[before]
            keys.discard(key)
            if not keys:
                del self.of_move[before]
        if after != NO_MOVE:
            keys = self.of_move.setdefault(after, BitMap())
            keys.add(key)

    def count(self, part: Part, broker_id: BrokerId) -> int:
        """Return the number of partitions for which the broker has this role."""
        bitmap = part.get(broker_id)
        return 0 if bitmap is None else len(bitmap)

    def of_any(self, part: Part, broker_ids: Replicas) -> BitMap:
        """Return the partitions for which any of these brokers has this role."""
        return BitMap.union(BitMap(), *[part[b] for b in broker_ids if b in part])

    def keys_of_move(self, move_id: MoveId) -> BitMap:
        """Return the partitions that belong to the move."""
        return self.of_move.get(move_id, BitMap())

    def at(self, key: int) -> tuple[Topic, int] | None:
        """Return topic and number of the partition with this key, or None if there is none."""
        topic = self._topics[key]
        return None if topic is None else (topic, self._numbers[key])

    def every_key(self) -> Slices[BitMap]:
        """Return the keys of all partitions."""
        found = BitMap()
        for led in self.leader_of.values():
            found |= led
            yield UNITED_US
        return found

    def topics(self, keys: BitMap) -> Iterator[Topic | None]:
        """Yield the topics of the partitions with these keys, each once.

        None stands for a partition whose topic has been yielded.
        """
        seen = set[Topic]()
        for key in keys:
            topic = self._topics[key]
            assert topic is not None, "a key is in a bitmap, but no partition has it"
            if topic in seen:
                yield None
            else:
                seen.add(topic)
                yield topic

    def numbers(self, keys: BitMap) -> list[int]:
        """Return the numbers of partitions of one topic with these keys, in order."""
        return sorted([self._numbers[key] for key in keys])

    def partitions(self, keys: BitMap) -> list[tuple[Topic, int]]:
        """Return the partitions with these keys, in the order of topic name and number."""
        topics, numbers = self._topics, self._numbers
        by_topic: dict[Topic | None, list[int]] = {}
        for key in keys:
            topic = topics[key]
            found = by_topic.get(topic)
            if found is None:
                by_topic[topic] = [numbers[key]]
            else:
                found.append(numbers[key])
        assert None not in by_topic, "a key is in a bitmap, but no partition has it"
        listed: list[tuple[Topic, int]] = []
        for topic in sorted(by_topic, key=_name):
            found = by_topic[topic]
            if len(found) > 1:
                found.sort()
            listed += zip(repeat(topic), found)  # type: ignore[arg-type]
        return listed


_name = attrgetter("name")


_ABSENT: Final = PartitionRegistration(
    replicas=(), isr=(), leader=NO_LEADER, leader_epoch=0, partition_epoch=0
)
"""Stands for a partition that does not exist."""


class _Moving(NamedTuple):
    """The entry of a moving partition in the index."""

    steps: bool | None
    """Whether a step is under way; None where nothing is moving."""
    adding: int
    moves_leader: bool
    move: MoveId


_NOWHERE: Final = _Moving(None, 0, False, NO_MOVE)


def _moving(partition: PartitionRegistration) -> _Moving:
    if not partition.moving:
        return _NOWHERE
    steps = bool(partition.adding or partition.removing)
    return _Moving(steps, len(partition.adding), moves_leader(partition), partition.stage.move)


def _mark(keys: BitMap, key: int, is_in: bool) -> None:
    if is_in:
        keys.add(key)
    else:
        keys.discard(key)


def _move(
    part: Part,
    key: int,
    before: tuple[BrokerId, ...],
    after: tuple[BrokerId, ...],
) -> None:
    if before == after:
        return
    for broker_id in before:
        if broker_id not in after:
            part[broker_id].discard(key)
    for broker_id in after:
        if broker_id not in before:
            bitmap = part.get(broker_id)
            if bitmap is None:
                bitmap = part[broker_id] = BitMap()
            bitmap.add(key)


def keys_of(topic: Topic) -> Slices[BitMap]:
    """Return the keys of the partitions of a topic."""
    found = BitMap()
    for first in range(0, len(topic.keys), _KEYS_AT_ONCE):
        found |= BitMap(topic.keys[first : first + _KEYS_AT_ONCE])
        yield _KEYS_US
    found.discard(NO_KEY)
    return found


def first_after(
    topics: Iterable[Topic | None],
    keys: BitMap,
    after: tuple[str, int] | None,
    count_max: int,
) -> Slices[list[tuple[Topic, int]]]:
    """Return up to `count_max` partitions with these keys behind `after`, by topic and number.

    `topics` are those that may have such partitions.
    """
    found: list[tuple[Topic, int]] = []
    begin = "" if after is None else after[0]
    left = (None if each is None or each.name < begin else each for each in topics)
    for topic in (yield from sort_in_slices(left, key=_name)):
        first = after[1] + 1 if after is not None and topic.name == begin else 0
        for number in range(first, len(topic.keys)):
            if topic.keys[number] in keys:
                found.append((topic, number))
                if len(found) == count_max:
                    return found
            yield PASSED_US
        yield SORTED_US
    return found


def in_order(index: PartitionIndex, keys: BitMap) -> Slices[Iterator[tuple[Topic, int]]]:
    """Return the partitions with these keys; `index` must not change until the end."""
    topics = yield from sort_in_slices(index.topics(keys), key=_name)
    return (
        (topic, number) for topic in topics for number in index.numbers(BitMap(topic.keys) & keys)
    )
