"""The partitions that are being reassigned, as an image tells of them and the doors list them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from admin.model import Reassignment
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.queries import Underway, reassigned
from statemachine.reassignment.copies import Told, partition_copies, untold
from statemachine.reassignment.progress import position_as_told
from statemachine.slices import Slices, whole

PARTITIONS_SHOWN_MAX: Final = 200
"""Partitions whose position an answer tells. Each holds up the controller's loop: by 50 µs, or
on a busy machine, where it waits for its turn behind limits, by 280 µs."""
_LISTED_US: Final = 10
"""To list one."""
_STANDING_US: Final = 100
"""To tell where it stands as well."""


def underway(
    image: Image,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool,
    told: Told = untold,
) -> tuple[Reassignment, ...]:
    """As `listing`, at once."""
    return whole(listing(image, wanted, detailed=detailed, told=told))


def listing(
    image: Image,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool,
    told: Told = untold,
) -> Slices[tuple[Reassignment, ...]]:
    """All of them or those wanted, in order; if `detailed`, step by step, and where these stand.

    Otherwise as Kafka's tools have to see it, which know of no steps. To tell where a partition
    stands takes time, in which the controller hears nobody. `told` is what brokers say of their
    copies.
    """
    named = None
    if wanted is not None:
        named = [(name, number) for name, numbers in wanted.items() for number in numbers]
    listed: list[Reassignment] = []
    for each in reassigned(image, named):
        if not detailed:
            listed.append(_listed(_whole(each), {}))
            yield _LISTED_US
        elif len(listed) < PARTITIONS_SHOWN_MAX:
            listed.append(_listed(each, _standing(image, each, told)))
            yield _STANDING_US
        else:
            listed.append(_listed(each, {}))
            yield _LISTED_US
    return tuple(listed)


def _whole(found: Underway) -> Underway:
    """The reassignment as if all that is left of it were one step, as it is with Kafka.

    Kafka's `--cancel` takes back what adds or removes somebody (4.2.0), or what adds nobody or
    removes somebody (3.9.1): what waits, and a step that only adds, would be passed over by one of
    them if only the step under way were told.
    """
    replicas, target = found.replicas, found.target
    coming = tuple([each for each in target if each not in replicas])
    return replace(
        found,
        replicas=replicas + coming,
        adding=tuple([each for each in target if each in coming or each in found.adding]),
        removing=tuple([each for each in replicas if each not in target]),
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
    partition = topic.partition(found.partition)
    where = position_as_told(image, topic, found.partition, told)
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


def _copies(
    topic_id: UUID, number: int, partition: PartitionRegistration, told: Told
) -> dict[str, int]:
    found = partition_copies(topic_id, number, partition, told)
    if found is None:
        return {}
    return {"bytes_left": found.bytes_left, "bytes_per_s": found.bytes_per_s}
