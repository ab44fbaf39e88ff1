"""The partitions that are being reassigned, as an image tells of them and the doors list them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from admin.model import Reassignment
from admin.moves import PARTITIONS_SHOWN_MAX
from statemachine.copies import Told, partition_copies, untold
from statemachine.image import Image
from statemachine.partition import Partition
from statemachine.progress import position
from statemachine.queries import Underway, reassignments


def underway(
    image: Image,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool,
    told: Told = untold,
) -> tuple[Reassignment, ...]:
    """All of them or those wanted, in order; if `detailed`, with where the first ones stand.

    To tell where a partition stands takes time, in which the controller hears nobody. `told` is
    what brokers say of their copies.
    """
    named = None
    if wanted is not None:
        named = [(name, number) for name, numbers in wanted.items() for number in numbers]
    room = PARTITIONS_SHOWN_MAX if detailed else 0
    return tuple(
        [
            _listed(each, _standing(image, each, told) if place < room else {})
            for place, each in enumerate(reassignments(image, named))
        ]
    )


def _listed(found: Underway, standing: Mapping[str, Any]) -> Reassignment:
    return Reassignment(
        topic=found.topic,
        partition=found.partition,
        replicas=found.replicas,
        adding=found.adding,
        removing=found.removing,
        target=found.target,
        move_id=found.move_id,
        **standing,
    )


def _standing(image: Image, found: Underway, told: Told) -> Mapping[str, Any]:
    """What a `Reassignment` says of where the partition stands."""
    topic = image.topics[found.topic_id]
    partition, where = topic.partition(found.partition), position(image, topic, found.partition)
    assert partition is not None
    assert where is not None, f"{found.topic}-{found.partition} is listed, and does not move"
    return {
        "step": where.step,
        "step_count": where.of,
        "state": where.state.value,
        "reason": None if where.reason is None else where.reason.value,
        "detail": where.detail,
        "reason_brokers": where.brokers,
        "since_ms": where.since_ms,
        **_copies(topic.topic_id, found.partition, partition, told),
    }


def _copies(topic_id: UUID, number: int, partition: Partition, told: Told) -> dict[str, int]:
    found = partition_copies(topic_id, number, partition, told)
    if found is None:
        return {}
    return {"bytes_left": found.bytes_left, "bytes_per_s": found.bytes_per_s}
