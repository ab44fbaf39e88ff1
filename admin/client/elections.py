"""Elections of partition leaders by Kafka's own request (KIP-460)."""

from collections.abc import Mapping, Sequence
from typing import Any

from admin.capabilities.moves import PartitionError
from admin.client.channels import Form
from admin.client.retrying_client import Call, Verdict, verdict_of
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import error_name
from statemachine.commands import ElectionType


def elect_leaders(election: ElectionType, partitions: Mapping[str, Sequence[int]] | None) -> Call:
    """Elect leaders of these partitions, by topic, or of all that need such an election."""
    topics = None
    if partitions is not None:
        topics = [{"topic": name, "partitions": numbers} for name, numbers in partitions.items()]

    def fill(form: Form) -> Any:
        return form.request(election_type=election.value, topic_partitions=topics)

    def judge(response: Any) -> Verdict:
        # Version 0 has no error for all.
        return verdict_of(response) if hasattr(response, "error_code") else Verdict()

    return Call(
        api_key=ApiKey.ELECT_LEADERS,
        fill=fill,
        judge=judge,
        failing="the leaders cannot be elected",
        status_command="metaquorum topics describe",
    )


def read_elected(response: Any) -> Sequence[PartitionError]:
    """Return the result for each partition, by topic and number."""
    found = (
        PartitionError(
            topic=topic.topic,
            partition=each.partition_id,
            kafka_error=error_name(int(each.error_code)),
            kafka_error_code=int(each.error_code),
            message=each.error_message,
        )
        for topic in response.replica_election_results
        for each in topic.partition_result
    )
    return sorted(found, key=lambda each: each.id)
