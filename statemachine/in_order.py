"""Partitions by their keys, in the order of topic name and number, one topic after the other.

It is the order of `PartitionIndex.partitions`, without a list of all of them: of a hundred thousand
that alone would take longer than others should have to wait. It changes nothing.
"""

from collections.abc import Iterator

from pyroaring import BitMap

from statemachine.index import PartitionIndex, Topic


def in_order(index: PartitionIndex, keys: BitMap) -> Iterator[tuple[Topic, int]]:
    """The partitions with these keys; `index` must not change until all have been taken."""
    for topic in sorted(index.topics(keys), key=_name):
        for number in index.numbers(BitMap(topic.keys) & keys):
            yield topic, number


def _name(topic: Topic) -> str:
    return topic.name
