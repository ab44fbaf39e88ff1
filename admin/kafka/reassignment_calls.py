"""AlterPartitionReassignments (45), ListPartitionReassignments (46), ElectLeaders (43)."""

from itertools import groupby
from typing import Any

from admin.kafka.call import Call, code
from admin.service import AsOf, Service
from statemachine.commands import AlterReassignments, ElectionType, ElectLeaders, Reassignment


async def alter_reassignments(call: Call, service: Service) -> Any:
    """KIP-455; a null list of replicas cancels."""
    command = AlterReassignments(
        reassignments=tuple(
            Reassignment(topic=topic.name, partition=each.partition_index, replicas=each.replicas)
            for topic in call.message.topics
            for each in topic.partitions
        ),
        may_change_factor=getattr(call.message, "allow_replication_factor_change", True),
    )
    answer = await service.alter_reassignments(call.principal, command)
    responses = tuple(
        call.part(
            "ReassignableTopicResponse",
            name=name,
            partitions=tuple(
                call.part(
                    "ReassignablePartitionResponse",
                    partition_index=each.partition,
                    error_code=code(each.error.code),
                    error_message=each.message or None,
                )
                for each in partitions
            ),
        )
        for name, partitions in groupby(answer.partitions, key=lambda each: each.topic)
    )
    return call.respond(
        allow_replication_factor_change=command.may_change_factor,
        error_code=code(0),
        error_message=None,
        responses=responses,
    )


def refuse_alter(call: Call, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message, responses=())


async def list_reassignments(call: Call, service: Service) -> Any:
    """What is under way; null topics ask for all."""
    wanted = None
    if call.message.topics is not None:
        wanted = {topic.name: topic.partition_indexes for topic in call.message.topics}
    found = await service.list_reassignments(wanted, stale=call.stale)
    topics = tuple(
        call.part(
            "OngoingTopicReassignment",
            name=name,
            partitions=tuple(
                call.part(
                    "OngoingPartitionReassignment",
                    partition_index=each.partition,
                    replicas=tuple(each.replicas),
                    adding_replicas=tuple(each.adding),
                    removing_replicas=tuple(each.removing),
                )
                for each in partitions
            ),
        )
        for name, partitions in groupby(found.value, key=lambda each: each.topic)
    )
    payload = call.respond(error_code=code(0), error_message=None, topics=topics)
    return AsOf(payload, found.offset)


def refuse_list(call: Call, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message, topics=())


async def elect_leaders(call: Call, service: Service) -> Any:
    """KIP-460; null partitions ask for every one that needs it."""
    try:
        election = ElectionType(getattr(call.message, "election_type", 0))
    except ValueError:
        return refuse_elect(call, 42, f"election type {call.message.election_type}, not 0 or 1")
    partitions = None
    if call.message.topic_partitions is not None:
        partitions = tuple(
            (topic.topic, each)
            for topic in call.message.topic_partitions
            for each in topic.partitions
        )
    command = ElectLeaders(election=election, partitions=partitions)
    answer = await service.elect_leaders(call.principal, command)
    results = tuple(
        call.part(
            "ReplicaElectionResult",
            topic=name,
            partition_result=tuple(
                call.part(
                    "PartitionResult",
                    partition_id=each.partition,
                    error_code=code(each.error.code),
                    error_message=each.message or None,
                )
                for each in elected
            ),
        )
        for name, elected in groupby(answer.partitions, key=lambda each: each.topic)
    )
    return call.respond(error_code=code(0), replica_election_results=results)


def refuse_elect(call: Call, error: int, message: str) -> Any:
    """Version 0 has no place for an error of the whole; it then names each partition."""
    results = tuple(
        call.part(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=tuple(
                call.part(
                    "PartitionResult",
                    partition_id=each,
                    error_code=code(error),
                    error_message=message,
                )
                for each in topic.partitions
            ),
        )
        for topic in call.message.topic_partitions or ()
    )
    return call.respond(error_code=code(error), replica_election_results=results)
