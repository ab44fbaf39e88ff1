"""The output of `metaquorum topics describe`, as a table and as data."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from admin.cli.topic_filters import PartitionFilter
from admin.cli.topics import described, listed_data, partitions_described, topics_data
from admin.client.channels import Response
from admin.model import PartitionDescription, TopicDescription


def topic(name: str) -> TopicDescription:
    partition = PartitionDescription(
        partition=0, leader=-1, leader_epoch=4, replicas=(101, 102), isr=(101,), offline=(102,)
    )
    return TopicDescription(name=name, topic_id=UUID(int=1), partitions=(partition,))


TOPICS: Response[Mapping[str, TopicDescription]] = Response({"b": topic("b"), "a": topic("a")}, 7)


def test_topics_are_described_in_their_order_with_a_line_for_each_partition() -> None:
    assert described(TOPICS).splitlines()[:2] == [
        "Topic: a\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 1\tReplicationFactor: 2",
        "\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 101,102\tIsr: 101",
    ]


def test_data_says_what_offset_it_is_as_of() -> None:
    data = topics_data(TOPICS)
    assert data["as_of_offset"] == 7
    assert [each["name"] for each in data["topics"]] == ["a", "b"]
    assert data["topics"][0]["partitions"][0]["leader"] is None


def test_data_has_no_offset_where_a_broker_tells_none() -> None:
    nothing: Response[Mapping[str, TopicDescription]] = Response({}, None)
    assert topics_data(nothing) == listed_data(nothing) == {"topics": []}


def partition(
    number: int, *, replicas: int, in_sync: int, leader: int = 101
) -> PartitionDescription:
    brokers = tuple(range(101, 101 + replicas))
    return PartitionDescription(
        partition=number,
        leader=leader,
        leader_epoch=1,
        replicas=brokers,
        isr=brokers[:in_sync],
    )


HEALTHY, GROWING, BEHIND, TOO_FEW, GONE, SINGLE = range(6)
MIXED = {
    "a": TopicDescription(
        name="a",
        topic_id=None,
        partitions=(
            partition(HEALTHY, replicas=3, in_sync=3),
            replace(partition(GROWING, replicas=4, in_sync=3), adding=(104,)),
            partition(BEHIND, replicas=3, in_sync=2),
            partition(TOO_FEW, replicas=3, in_sync=1),
            partition(GONE, replicas=3, in_sync=2, leader=-1),
            partition(SINGLE, replicas=1, in_sync=1),
        ),
    )
}


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (PartitionFilter(under_replicated=True), [BEHIND, TOO_FEW, GONE]),
        (PartitionFilter(under_min_isr=True), [TOO_FEW]),
        (PartitionFilter(unavailable=True), [GONE]),
        (PartitionFilter(under_min_isr=True, unavailable=True), [TOO_FEW, GONE]),
    ],
)
def test_partitions_with_a_problem_are_chosen(chosen: PartitionFilter, numbers: list[int]) -> None:
    found = chosen.chosen(MIXED, {"a": 2})
    assert [each.partition for each in found["a"].partitions] == numbers
    shown = partitions_described(Response(found, None)).splitlines()
    assert [line.split()[:4] for line in shown] == [
        ["Topic:", "a", "Partition:", str(number)] for number in numbers
    ]


def test_topics_without_such_partitions_are_left_out() -> None:
    healthy = {"a": TopicDescription(name="a", topic_id=None, partitions=MIXED["a"].partitions[:1])}
    assert PartitionFilter(under_replicated=True).chosen(healthy, {}) == {}
