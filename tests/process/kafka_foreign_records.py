"""Records in a log of ours that Kafka's brokers follow, written without a command behind them."""

from collections.abc import Mapping
from typing import Final

from statemachine.records import kafka_records, own_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE, MoveKind, MoveOutcome, MoveState, Ownership
from tests.support.controllers import Node

SETTINGS: Final = {
    "reassignment.parallel.replica.count": "1",
    "reassignment.parallel.partition.count": "20",
    "reassignment.parallel.leader.movements": "5",
    "reassignment.max.concurrent.replica.movements": "40",
    "reassignment.completion.rule": "all-target",
}
"""A setting of the cluster that only its controllers use."""


def _owned(how: Ownership) -> own_records.ConfigOwned:
    return own_records.ConfigOwned(
        move=1,
        resource_type=BROKER_RESOURCE,
        resource_name="101",
        name="leader.replication.throttled.rate",
        previous="5000",
        owned=how,
    )


FACTS: Final[tuple[kafka_records.Record, ...]] = (
    own_records.MoveBegun(
        id=1,
        kind=MoveKind.REASSIGN,
        who="User:ann",
        asked_at_ms=1_000,
        partitions=1,
        refused=0,
        name="to the new rack",
        key="k-1",
        fingerprint=bytes(16),
        throttle_bytes_per_s=1_000_000,
    ),
    own_records.MovePart(id=1, part=0, plan=bytes(30_000)),
    own_records.MoveChanged(
        id=1, state=MoveState.PAUSED, since_ms=2_000, reason="hurt", detail="one"
    ),
    own_records.MoveEnded(
        id=1,
        outcome=MoveOutcome.COMPLETED,
        at_ms=3_000,
        completed=1,
        cancelled=0,
        superseded=0,
        gone=0,
    ),
    own_records.MovesForgotten(through=1),
    own_records.MovesPaused(paused=True, who="User:ann", since_ms=4_000),
    own_records.MovesPaused(paused=False, who="User:ann", since_ms=5_000),
    own_records.Remembered(
        key="k-1", fingerprint=bytes(16), kind="moved", answer=bytes(1_000), at_ms=6_000
    ),
    own_records.KeysForgotten(through_ms=6_000),
    _owned(Ownership.OWNED),
    _owned(Ownership.RELEASED),
    # A NoOp with a tag that is nobody's: 9,999. Our nodes skip it, and refuse unknown ones of ours.
    kafka_records.Unknown(type_id=20, version=0, body=b"\x01\x8f\x4e\x02\x00\x00"),
)
"""One of each; all together leave nothing behind."""


def aims(topic: kafka_records.Topic, replicas: tuple[int, ...]) -> tuple[kafka_records.Record, ...]:
    """Changes that speak in our tags alone: whither a partition is to go, and no longer."""
    begun = kafka_records.PartitionChange(
        partition_id=0,
        topic_id=topic.topic_id,
        target=replicas,
        original=replicas,
        base=replicas,
        move=1,
        step=1,
        since_ms=1_000,
    )
    over = kafka_records.PartitionChange(partition_id=0, topic_id=topic.topic_id, target=())
    return (begun, over)


def configs(
    values: Mapping[str, str | None], name: str, kind: int = BROKER_RESOURCE
) -> tuple[kafka_records.Record, ...]:
    """The configurations of a resource; "" are all brokers, None removes."""
    return tuple(
        kafka_records.Config(resource_type=kind, resource_name=name, name=each, value=value)
        for each, value in values.items()
    )


def write(node: Node, written: tuple[kafka_records.Record, ...]) -> None:
    """Append these in one batch, as the active controller does with what it has decided."""
    image = node.controller.image
    values = [encode(each, image.level) for each in written]
    base = node.opened.quorum.replica.propose(values)
    for place, value in enumerate(values):
        replay(image, decode(value), base + place)
