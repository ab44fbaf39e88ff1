"""What has changed in an image since somebody last asked. It is told by the image, and decides
nothing.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from statemachine.image.partition_index import Topic
from statemachine.vocabulary import BrokerId

if TYPE_CHECKING:
    from statemachine.image.image import Image
    from statemachine.vocabulary import Resource


class MetadataDelta(Struct, gc=False):
    """What was touched; dictionaries, because they keep the order."""

    partitions: dict[tuple[UUID, int], None] = {}
    """Created, changed or, when their topic is among `deleted` too, gone."""
    deleted: dict[UUID, Topic] = {}
    """The topics that are gone, with their last partitions."""
    brokers: dict[BrokerId, None] = {}
    configs: dict["Resource", None] = {}


def touch_topic(touched: MetadataDelta, topic: Topic) -> None:
    """All partitions of the topic count as touched."""
    for number in topic.numbers():
        touched.partitions[(topic.topic_id, number)] = None


def touch_both(touched: MetadataDelta, before: "Image", after: "Image") -> None:
    """Everything in either image counts as touched: one takes the place of the other."""
    for image in (before, after):
        for topic in image.topics.values():
            touch_topic(touched, topic)
        touched.brokers.update(dict.fromkeys(image.brokers))
        touched.configs.update(dict.fromkeys(image.configs))
    for topic_id, topic in before.topics.items():
        if topic_id not in after.topics:
            touched.deleted[topic_id] = topic
