"""Which partitions a change of configurations is about. It changes nothing."""

from collections.abc import Iterator, Sequence

from pyroaring import BitMap

from statemachine.configs import DEFAULTS
from statemachine.image import Image, Resource
from statemachine.index import NO_KEY, Topic
from statemachine.vocabulary import TOPIC_RESOURCE


def concerned(
    image: Image, resources: Sequence[Resource], keys: BitMap
) -> Iterator[tuple[Topic, int]]:
    """The partitions of `keys` that the configurations of these resources are for."""
    if DEFAULTS in resources:
        yield from image.index.partitions(keys)
        return
    for kind, name in resources:
        topic = image.topic_named(name) if kind == TOPIC_RESOURCE else None
        if topic is not None:
            of_topic = BitMap([key for key in topic.keys if key != NO_KEY])
            yield from image.index.partitions(keys & of_topic)
