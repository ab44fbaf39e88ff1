"""The checker of the logs of moved clusters finds each fault that it adds to the model's."""

from uuid import UUID

import pytest

from chaos.cluster.invariants.metadata import MetadataInvariants
from chaos.cluster.invariants.model import Part
from chaos.cluster.invariants.record_parser import ParsedRecord, fact
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import encode
from statemachine.vocabulary import MoveState
from tests.process.judged_log import Pauses, adds_too_many

MOVE = 3
TOPIC_ID = UUID(int=7)
KEY = (TOPIC_ID.hex, 0)


def said(record: kafka_records.Record) -> tuple[ParsedRecord, bytes]:
    value = encode(record, METADATA_VERSION_MAX)
    return fact(1, value), value


def attached() -> kafka_records.PartitionChange:
    return kafka_records.PartitionChange(
        partition_id=0, topic_id=TOPIC_ID, target=(1, 2), move=MOVE
    )


def begun(*adding: int) -> kafka_records.PartitionChange:
    return kafka_records.PartitionChange(partition_id=0, topic_id=TOPIC_ID, adding=adding, step=1)


def in_state(state: MoveState) -> own_records.MoveChanged:
    return own_records.MoveChanged(id=MOVE, state=state, since_ms=1)


def test_a_step_that_begins_under_a_pause_is_a_fault() -> None:
    pauses = Pauses()
    pauses.take(*said(attached()))
    pauses.take(*said(in_state(MoveState.PAUSED)))
    with pytest.raises(AssertionError, match="move 3 is paused"):
        pauses.take(*said(begun(2)))


def test_a_step_requested_during_a_pause_may_begin_after_it() -> None:
    pauses = Pauses()
    pauses.take(*said(in_state(MoveState.PAUSED)))
    pauses.take(*said(attached()))
    pauses.take(*said(in_state(MoveState.RUNNING)))
    pauses.take(*said(begun(2)))


@pytest.mark.parametrize(
    ("adding", "isr", "is_too_many"),
    [((2,), (1, 3), False), ((2, 4), (1, 3), True), ((2, 4), (1,), False)],
)
def test_a_step_adds_no_more_than_it_may_but_for_min_isr(
    adding: tuple[int, ...], isr: tuple[int, ...], is_too_many: bool
) -> None:
    model = MetadataInvariants()
    model.topics[TOPIC_ID.hex] = "t"
    model.settings[4, "", "reassignment.parallel.replica.count"] = "1"
    model.settings[2, "t", "min.insync.replicas"] = "2"
    model.parts[KEY] = Part(
        replicas=(1, 3, *adding), isr=isr, leader=1, leader_epoch=1, partition_epoch=1
    )
    assert adds_too_many(model, said(begun(*adding))[0]) is is_too_many
