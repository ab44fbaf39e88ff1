"""Begin and list reassignments by Kafka's own requests, with our extension.

Kafka's brokers forward them. Kafka's controllers skip the extension: they know no moves or keys.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from admin.capabilities.reassignments import (
    AssignedPartition,
    BeginMove,
    BegunMove,
    ListReassignments,
    begun,
    command_of,
)
from admin.client.channels import Form, details_in
from admin.client.retrying_client import Call
from admin.faults import Incompatible
from controller.move_requests import MoveOptions, OngoingReassignment
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import error_name
from quorum.protocol.extension import Extension
from statemachine.commands import ReassignmentsAltered
from statemachine.vocabulary import NO_MOVE


def begin_move(asked: BeginMove) -> Call:
    """Move or redirect partitions; replicas of None cancel (KIP-455)."""
    command = command_of(asked)
    if not asked.dry_run:
        # Kafka's part of the request has them.
        command = replace(command, reassignments=())
    options = MoveOptions(command=command, key=asked.key)

    def fill(form: Form) -> Any:
        topics = tuple(
            {
                "name": topic,
                "partitions": tuple(
                    {"partition_index": one.partition, "replicas": one.replicas} for one in group
                ),
            }
            for topic, group in groupby(asked.assignments, key=lambda one: one.topic)
        )
        return form.request(
            topics=() if asked.dry_run else topics,
            allow_replication_factor_change=asked.may_change_factor,
        )

    return Call(
        api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        fill=fill,
        extension=Extension.with_details(options),
        failing=asked.failing(),
        status_command=None if asked.only_reads() else asked.STATUS_COMMAND,
    )


def read_begun(asked: BeginMove, response: Any) -> BegunMove:
    """Return the results, one for each partition; raises `Incompatible`."""
    details = details_in(response, ReassignmentsAltered)
    if details is not None:
        return begun(details)
    if asked.dry_run:
        raise Incompatible("nothing was tried: the active controller does not support dry runs")
    results = [
        _result(topic.name, partition)
        for topic in response.responses
        for partition in topic.partitions
    ]
    if asked.is_throttled and not all(each.kafka_error_code for each in results):
        raise Incompatible(
            "the active controller does not support throttles: the move has begun without one"
        )
    return BegunMove(move_id=NO_MOVE, results=results)


def _result(topic: str, found: Any) -> AssignedPartition:
    code = found.error_code.value
    return AssignedPartition(
        topic=topic,
        partition=found.partition_index,
        kafka_error=error_name(code),
        kafka_error_code=code,
        message=found.error_message,
    )


def list_reassignments(wanted: Mapping[str, Sequence[int]] | None) -> Call:
    """The partitions under way: all of them, or those of `wanted`, partitions by topic."""

    def fill(form: Form) -> Any:
        topics = None
        if wanted is not None:
            topics = tuple(
                {"name": name, "partition_indexes": tuple(wanted[name])} for name in sorted(wanted)
            )
        return form.request(topics=topics)

    return Call(
        api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        fill=fill,
        failing=ListReassignments.FAILING,
        status_command=None,
    )


def read_reassignments(response: Any) -> list[OngoingReassignment]:
    """The partitions under way, in order; raises `Incompatible`."""
    found = details_in(response, list[OngoingReassignment]) or [
        OngoingReassignment(
            topic=topic.name,
            partition=each.partition_index,
            replicas=each.replicas,
            adding=each.adding_replicas,
            removing=each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    ]
    return sorted(found, key=lambda one: one.id)
