"""The plan of the demo: every partition and its leader move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.model import PartitionDescription, TopicDescription
from admin.tools.demo.story import plan_moves

BROKERS = [101, 102, 103, 104]
REPLICAS = st.permutations(BROKERS).map(lambda order: tuple(order[:3]))


def topic(replicas: list[tuple[int, ...]]) -> TopicDescription:
    return TopicDescription(
        name="orders",
        topic_id=None,
        partitions=tuple(
            PartitionDescription(
                partition=number, leader=each[0], leader_epoch=0, replicas=each, isr=each
            )
            for number, each in enumerate(replicas)
        ),
    )


@given(st.lists(REPLICAS, min_size=1, max_size=12))
def test_every_partition_gets_a_broker_that_it_did_not_have(
    replicas: list[tuple[int, ...]],
) -> None:
    for one, before in zip(plan_moves(topic(replicas), BROKERS), replicas, strict=True):
        assert one.replicas is not None
        assert one.replicas[0] not in before
        assert one.replicas[1:] == before[1:]


def test_a_partition_that_is_everywhere_cannot_move() -> None:
    with pytest.raises(AssertionError):
        plan_moves(topic([(101, 102, 103, 104)]), BROKERS)
