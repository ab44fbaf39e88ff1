"""What a plan is about: its topics, and where its partitions are now. Pure."""

from collections.abc import Mapping, Sequence

from admin.model import Assignment, PartitionId, TopicDescription


def topics_of(plan: Sequence[Assignment]) -> list[str]:
    """The topics of the plan, in order."""
    return sorted({one.topic for one in plan})


def replicas_of(
    topics: Mapping[str, TopicDescription], plan: Sequence[Assignment]
) -> dict[PartitionId, Sequence[int]]:
    """Where the planned partitions are now; those that do not exist are left out."""
    planned = {one.id for one in plan}
    return {
        id: partition.replicas
        for topic in topics.values()
        for partition in topic.partitions
        if (id := PartitionId(topic.name, partition.partition)) in planned
    }
