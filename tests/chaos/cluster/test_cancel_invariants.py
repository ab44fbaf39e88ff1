"""The invariants of a cancel: it was requested, and a partition with a leader keeps one."""

from typing import Any, TypeAlias

import pytest

from chaos.cluster.invariants.metadata import MetadataInvariants
from chaos.cluster.invariants.model import Part
from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.violation import Violation

Said: TypeAlias = dict[str | int, Any]

TOPIC = "0" * 32
PARTITION: Said = {"topic_id": TOPIC, "partition_id": 0}
BACK: Said = {"leader": 1, "replicas": (1, 2), "adding": (), "target": (), "original": ()}


def moving() -> MetadataInvariants:
    """A partition of brokers 1 and 2, to which 3 is being added."""
    model = MetadataInvariants()
    for broker_id in (1, 2, 3):
        registered: Said = {"broker_id": broker_id, "broker_epoch": broker_id, "fenced": 1}
        model.take(
            [ParsedRecord(broker_id, "RegisterBroker", registered | {"incarnation_id": "-"})]
        )
        model.take([ParsedRecord(10 + broker_id, "UnfenceBroker", {"broker_id": broker_id})])
    first: Said = {"replicas": (1, 2), "isr": (1, 2), "leader": 1, "leader_epoch": 0}
    model.take([ParsedRecord(20, "Topic", {"name": "t", "topic_id": TOPIC})])
    model.take([ParsedRecord(21, "Partition", PARTITION | first | {"partition_epoch": 0})])
    model.ask("t", 0, (1, 2, 3))
    grown: Said = {"replicas": (1, 2, 3), "adding": (3,), "target": (1, 2, 3), "original": (1, 2)}
    model.take([changed(22, grown)])
    return model


def changed(offset: int, said: Said) -> ParsedRecord:
    return ParsedRecord(offset, "PartitionChange", PARTITION | said)


def test_a_step_that_is_taken_back_is_told_with_what_it_was() -> None:
    model = moving()
    told: list[tuple[Part, Part]] = []
    model.on_step_cancelled = lambda _, before, after: told.append((before, after))
    model.ask_cancel("t", 0)
    model.take([changed(23, BACK)])
    ((before, after),) = told
    assert (before.replicas, after.replicas) == ((1, 2, 3), (1, 2))


def test_a_cancel_that_nobody_requested_is_found() -> None:
    with pytest.raises(Violation, match="P17: a client requested the cancel"):
        moving().take([changed(23, BACK)])


def test_a_partition_that_is_led_is_led_after_a_cancel() -> None:
    model = moving()
    model.ask_cancel("t", 0)
    with pytest.raises(Violation, match="P13: a cancelled step keeps a leader"):
        model.take([changed(23, BACK | {"leader": -1})])
