"""What is told of bytes left to copy, as plain numbers; `UNKNOWN` where nobody has said it.

The names are those of the fields that every door shares. What brokers have said is given, as a
`Told`; nothing here asks them.
"""

from admin.model import UNKNOWN
from statemachine.image.image import Image
from statemachine.image.partition_index import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.copies import Told, move_copies, partition_copies


def of_partition(
    topic: Topic, number: int, partition: PartitionRegistration, told: Told
) -> dict[str, int]:
    """Of the step under way of a partition."""
    found = partition_copies(topic.topic_id, number, partition, told)
    if found is None:
        return {}
    return {
        "bytes_left": found.bytes_left,
        "bytes_per_s": found.bytes_per_s,
        "time_left_ms": _known(found.time_left_ms),
    }


def of_move(image: Image, move_id: int, told: Told, at_most: int) -> dict[str, int]:
    """Of a whole move that runs; `at_most` so many of its partitions are looked at."""
    found = move_copies(image, move_id, told, at_most)
    numbers = {
        "copies_unknown": found.unknown,
        "copies_behind": found.behind,
        "time_left_ms": _known(found.time_left_ms),
    }
    if found.known:
        numbers |= {"bytes_left": found.bytes_left, "bytes_per_s": found.bytes_per_s}
    return numbers


def _known(number: int | None) -> int:
    return UNKNOWN if number is None else number
