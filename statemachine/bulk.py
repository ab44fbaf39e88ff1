"""Many committed records at once: the image is as if each had been replayed by itself.

What makes it faster is that most records of a long log are changes of partitions, and that the same
ones change again and again: of changes between which nothing else was said, each partition has all
of its own merged, and only what comes out of that goes into the image and its index.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from statemachine.image import Image
from statemachine.index import Topic
from statemachine.partition import Partition, left, merged
from statemachine.replay import count_left, interned, replay
from statemachine.serde import (
    CHANGE_FRAMES,
    CHANGE_HEAD_BYTES,
    TOPIC_ID_BYTES,
    Change,
    change_of,
    decode,
    number_of,
)
from statemachine.serde.primitives import uuid_of
from statemachine.vocabulary import NO_MOVE, MoveId, MoveOutcome

_FRAME_BYTES: Final = 3


def replay_values(image: Image, values: Sequence[bytes], offset: int) -> None:
    """Change `image` by the records that these values say, the first of which is at `offset`.

    Raises `MalformedRecord`; what precedes such a record may have been replayed or not.
    """
    changes: dict[bytes, list[bytes]] = {}
    frame = CHANGE_FRAMES[-1]
    for place, value in enumerate(values):
        head = value[:CHANGE_HEAD_BYTES]
        known = changes.get(head)
        if known is not None:
            known.append(value)
        elif value.startswith(frame):
            changes[head] = [value]
        else:
            _merge(image, changes, offset)
            changes = {}
            if value.startswith(CHANGE_FRAMES):
                # Of another version. It has heads of its own, so the two are not mixed.
                frame = value[:_FRAME_BYTES]
                changes[head] = [value]
            else:
                replay(image, decode(value), offset + place)
    _merge(image, changes, offset)
    image.advance(offset + len(values))


def _merge(image: Image, changes: dict[bytes, list[bytes]], offset: int) -> None:
    """Take in changes by partition, in the order in which the partitions were first named."""
    if not changes:
        return
    # What a transaction undoes it undoes as a whole: any offset within it will do.
    image.at(max(offset, image.end_offset))
    topics: dict[bytes, Topic | None] = {}
    for head, values in changes.items():
        said = [change_of(value) for value in dict.fromkeys(values)]
        raw = head[-TOPIC_ID_BYTES:]
        if raw in topics:
            topic = topics[raw]
        else:
            topic = topics[raw] = image.topics.get(uuid_of(raw))
        number = number_of(head)
        before = None if topic is None else topic.partition(number)
        if topic is not None and before is not None:
            leaving: list[tuple[MoveId, MoveOutcome]] = []
            image.set_partition(topic, number, _after(image, before, values, said, leaving))
            for move_id, outcome in leaving:
                count_left(image, move_id, outcome)


def _after(
    image: Image,
    before: Partition,
    values: Sequence[bytes],
    said: Sequence[Change],
    leaving: list[tuple[MoveId, MoveOutcome]],
) -> Partition:
    """The partition after the changes `values`, which say these different things.

    The moves that it leaves with them are put into `leaving`, with how.
    """
    for each in said:
        if not each.only_isr:
            break
    else:
        # Each takes the place of the one before, and is counted.
        last = said[0] if len(values) == 1 else change_of(values[-1])
        assert last.change.isr is not None
        isr, epoch = image.interned(last.change.isr), before.partition_epoch + len(values)
        return replace(before, isr=isr, partition_epoch=epoch)
    after = before
    for value in values:
        change = change_of(value).change
        earlier, after = after, merged(after, change)
        outcome = left(earlier, after, change.move or NO_MOVE)
        if outcome is not None:
            leaving.append((earlier.stage.move, outcome))
    return interned(image, after)
