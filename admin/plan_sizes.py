"""What a plan that is tried would copy, in bytes, asked for by a node that has an image.

Which brokers are alive, and what partitions have, is read of this node's own image, which may be a
little late: it is an estimate in any case. How large logs are the brokers say.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from admin.addresses import Address
from admin.capabilities.plans import PARTITIONS_TOLD_MAX, BytesMoved
from admin.client.log_sizes import Place, bytes_at, copied
from admin.model import Assignment, PartitionResult
from controller.service import NotActive, Service
from statemachine.image.image import Image
from statemachine.vocabulary import Replicas

_PIECE: Final = 1_000
"""Partitions that are looked up in one go."""


async def bytes_moved(service: Service, copies: Mapping[Place, int] | None) -> BytesMoved:
    """What it takes to copy each partition so often; None stands for more than can be told."""
    try:
        brokers = (await service.read(_live_brokers, stale=True)).value
    except NotActive as error:
        return BytesMoved(None, str(error))
    return await bytes_at(brokers, copies)


async def copies_of(
    service: Service, assignments: Sequence[Assignment], refused: Sequence[PartitionResult]
) -> Mapping[Place, int] | None:
    """How often each partition is copied for these; what is refused is left out."""
    if len(assignments) > PARTITIONS_TOLD_MAX:
        return None
    wanted = {(each.topic, each.partition): each.replicas for each in assignments if each.replicas}
    for each in refused:
        wanted.pop((each.topic, each.partition), None)
    current: dict[Place, Replicas] = {}
    places = list(wanted)
    for start in range(0, len(places), _PIECE):
        reading = _replicas(places[start : start + _PIECE])
        current.update((await service.read(reading, stale=True)).value)
    return copied(current, {place: wanted[place] or () for place in current})


def _live_brokers(image: Image) -> list[Address]:
    found = sorted(image.brokers.items())
    return [
        Address(broker.endpoints[0].host, broker.endpoints[0].port)
        for _, broker in found
        if broker.endpoints and not broker.fenced
    ]


def _replicas(places: Sequence[Place]) -> Callable[[Image], dict[Place, Replicas]]:
    def read(image: Image) -> dict[Place, Replicas]:
        found: dict[Place, Replicas] = {}
        for name, number in places:
            topic = image.topic_named(name)
            partition = None if topic is None else topic.partition(number)
            if partition is not None:
                found[name, number] = partition.replicas
        return found

    return read
