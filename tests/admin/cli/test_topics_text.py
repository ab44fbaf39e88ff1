"""The output of `metaquorum topics describe`, as a table and as data."""

from collections.abc import Mapping
from uuid import UUID

from admin.cli.topics import described, topics_data
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
    assert topics_data(Response({}, None)) == {"as_of_offset": None, "topics": []}
