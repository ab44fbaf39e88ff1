"""Reassignments and leader elections, as Kafka's requests and as the service's functions.

AlterPartitionReassignments (45), ListPartitionReassignments (46), ElectLeaders (43).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from controller.apis.request import (
    Extended,
    KafkaRequest,
    encode_body,
    free_in_slices,
    offload,
    outcome,
    refuse,
)
from controller.move_requests import (
    MoveOptions,
    OngoingReassignment,
    with_idempotency_key,
)
from controller.service import AsOf, Service
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.extension import Extension, details_of
from quorum.protocol.refusals import bounded, error_fields
from quorum.records.varint import uvarint
from statemachine.commands import (
    AlterMove,
    AlterReassignments,
    BeginMove,
    CancelMoves,
    ElectionType,
    ElectLeaders,
    LeadersElected,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    PauseMoves,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
    RollBackMove,
)
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.copies import CopyLookup, no_report, partition_copies
from statemachine.reassignment.move_queries import reassigned
from statemachine.reassignment.progress import progress_of
from statemachine.slices import PASSED_US, Slices, whole

MoveCommand: TypeAlias = BeginMove | PauseMoves | CancelMoves | RollBackMove | AlterMove
MoveAnswer: TypeAlias = MovesAltered | MovesCancelled | MoveStarted

LISTED_AT_ONCE_MAX: Final = 500
"""Partitions that are listed without a pause; a longer list waits for its turn among decisions."""

PARTITIONS_SHOWN_MAX: Final = 200
"""Partitions of a list with their progress. Each holds up the controller's loop: by 50 µs, or on a
busy machine, if it waits behind limits, by 280 µs."""
_LISTED_US: Final = 10
"""Cost of listing one partition."""
PROGRESS_US: Final = 100
"""Cost of listing one with its progress."""


async def alter_reassignments(request: KafkaRequest, service: Service) -> Any:
    """KIP-455; a null list of replicas cancels."""
    message = request.message
    try:
        details = details_of(message, MoveOptions)
    except Malformed as error:
        words = f"the options of the move cannot be read: {error.reason}"
        return refuse(request, ErrorCode.INVALID_REQUEST, words)
    options = details or MoveOptions(command=AlterReassignments(reassignments=()))
    wrong = options.contradiction
    if wrong is None and message.topics and options.command.dry_run:
        wrong = "a dry run takes its partitions in the options, not in the request"
    if wrong is not None:
        return refuse(request, ErrorCode.INVALID_REQUEST, wrong)
    parts = sum(len(topic.partitions) for topic in message.topics)
    command = options.command
    if not command.dry_run:
        command = await offload(lambda: _command(message, options.command), parts)
    who = str(request.principal)
    keyed = with_idempotency_key(replace(command, who=who), options.key)
    answer = await service.carry_out(keyed, ReassignmentsAltered, who=who)
    empty = request.respond(
        **error_fields(0, "", responses=()),
        allow_replication_factor_change=command.may_change_factor,
    )
    response: bytes | Extended
    if details is not None:
        response = await offload(lambda: Extended(empty, _altered(answer)), parts)
    else:
        body = encode_body(request, empty)
        response = await offload(
            lambda: with_partitions(body, request.version, answer.partitions), parts
        )
    asked = [topic.partitions for topic in message.topics]
    free_in_slices(*asked, command.reassignments, answer.partitions)
    return response


def _altered(answer: ReassignmentsAltered) -> Extension:
    """Return the results for our clients, in place of Kafka's."""
    partitions = [replace(each, message=bounded(each.message)) for each in answer.partitions]
    return Extension.with_details(replace(answer, partitions=tuple(partitions)))


def _command(message: Any, options: AlterReassignments) -> AlterReassignments:
    return replace(
        options,
        reassignments=tuple(
            [
                Reassignment(
                    topic=topic.name, partition=each.partition_index, replicas=each.replicas
                )
                for topic in message.topics
                for each in topic.partitions
            ]
        ),
        may_change_factor=getattr(message, "allow_replication_factor_change", True),
    )


async def list_reassignments(request: KafkaRequest, service: Service) -> Any:
    """List partitions under reassignment; null topics ask for all."""
    wanted: dict[str, list[int]] | None = None
    if request.message.topics is not None:
        wanted = {}
        for topic in request.message.topics:
            wanted.setdefault(topic.name, []).extend(topic.partition_indexes)
    is_ours = request.extension is not None
    found = await read_reassignments(service, wanted, detailed=is_ours, stale=request.stale)
    response = await offload(lambda: _listed(request, found), len(found.value))
    free_in_slices(found.value)
    return response


def _listed(
    request: KafkaRequest, found: AsOf[tuple[OngoingReassignment, ...]]
) -> bytes | Extended:
    """Encode the list: for our clients in the extension, else in Kafka's form."""
    if request.extension is not None:
        empty = request.respond(**error_fields(0, "", topics=()))
        return Extended(empty, Extension.with_details(found.value, as_of=found.offset))
    topics = [
        {"name": name, "partitions": [_ongoing_fields(each) for each in partitions]}
        for name, partitions in groupby(found.value, key=attrgetter("topic"))
    ]
    return encode_body(request, request.respond(**error_fields(0, "", topics=topics)))


def _ongoing_fields(found: OngoingReassignment) -> Mapping[str, Any]:
    return {
        "partition_index": found.partition,
        "adding_replicas": found.adding,
        "removing_replicas": found.removing,
        "replicas": found.replicas,
    }


async def elect_leaders(request: KafkaRequest, service: Service) -> Any:
    """KIP-460; null partitions ask for every one that needs it."""
    try:
        election = ElectionType(getattr(request.message, "election_type", 0))
    except ValueError:
        return refuse(
            request,
            ErrorCode.INVALID_REQUEST,
            f"election type {request.message.election_type}, not 0 or 1",
        )
    partitions = None
    if request.message.topic_partitions is not None:
        partitions = tuple(
            (topic.topic, each)
            for topic in request.message.topic_partitions
            for each in topic.partitions
        )
    command = ElectLeaders(election=election, partitions=partitions)
    answer = await service.carry_out(command, LeadersElected, who=str(request.principal))
    return await offload(lambda: _elected(request, answer), len(answer.partitions))


def _elected(request: KafkaRequest, answer: LeadersElected) -> bytes:
    results = [
        {
            "topic": name,
            "partition_result": [outcome(each, partition_id=each.partition) for each in elected],
        }
        for name, elected in groupby(answer.partitions, key=attrgetter("topic"))
    ]
    return encode_body(request, request.respond(error_code=0, replica_election_results=results))


async def alter_moves(
    service: Service,
    who: str,
    command: MoveCommand,
    key: str = "",
    of_request: bytes | None = None,
) -> MoveAnswer:
    """Begin, pause, resume, cancel, roll back or alter moves.

    `of_request` is the fingerprint of the request that the command is a part of, if it is not all.
    """
    command_with_key = with_idempotency_key(command, key, of_request)
    answer = await service.carry_out(command_with_key, object, who=who)
    assert isinstance(answer, MovesAltered | MovesCancelled | MoveStarted), (
        f"{answer} answers {command}"
    )
    return answer


async def read_reassignments(
    service: Service,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool = True,
    stale: bool = False,
) -> AsOf[tuple[OngoingReassignment, ...]]:
    """List all partitions under reassignment or those wanted; `detailed` adds their progress."""
    report_of = service.controller.reported_copies()
    moving = service.controller.image.index.moving
    read = partial(listing, wanted=wanted, detailed=detailed, report_of=report_of)
    count = len(moving) if wanted is None else sum(map(len, wanted.values()))
    if count < LISTED_AT_ONCE_MAX:
        return await service.read(lambda image: whole(read(image)), stale=stale)
    return await service.read_long(read, stale=stale)


def listing(
    image: Image,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool,
    report_of: CopyLookup = no_report,
) -> Slices[tuple[OngoingReassignment, ...]]:
    """List all partitions under reassignment or those wanted, in order.

    With `detailed`, each has its current step, and the first ones have their progress, which costs
    the controller time. Without it, they are as Kafka's tools expect, which know of no steps.
    `report_of` looks up the brokers' copy reports.
    """
    named = None
    if wanted is not None:
        named = ((name, number) for name, numbers in wanted.items() for number in numbers)
    listed: list[OngoingReassignment] = []
    for each in (yield from reassigned(image, named)):
        if each is None:
            yield PASSED_US
            continue
        topic, number, partition = each
        if detailed and len(listed) < PARTITIONS_SHOWN_MAX:
            listed.append(described(image, topic, number, partition, report_of))
            yield PROGRESS_US
        else:
            listed.append(_ongoing(topic, number, partition if detailed else _whole(partition)))
            yield _LISTED_US
    return tuple(listed)


def _whole(partition: PartitionRegistration) -> PartitionRegistration:
    """Describe a reassignment as if all the rest of it were one step, as it is with Kafka.

    Kafka's `--cancel` takes back what adds or removes a replica (4.2.0), or what adds none or
    removes one (3.9.1): one of them would pass over a partition that waits or a step that only
    adds.
    """
    replicas, target = partition.replicas, partition.final
    coming = tuple([each for each in target if each not in replicas])
    return replace(
        partition,
        replicas=replicas + coming,
        adding=tuple([each for each in target if each in coming or each in partition.adding]),
        removing=tuple([each for each in replicas if each not in target]),
        target=target,
    )


def _ongoing(
    topic: Topic, number: int, partition: PartitionRegistration, **progress: Any
) -> OngoingReassignment:
    return OngoingReassignment(
        topic=topic.name,
        partition=number,
        replicas=partition.replicas,
        adding=partition.adding,
        removing=partition.removing,
        target=partition.final,
        move_id=partition.stage.move or None,
        **progress,
    )


def described(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration, report_of: CopyLookup
) -> OngoingReassignment:
    """Describe a partition under reassignment with its progress."""
    where = progress_of(image, topic, number, report_of)
    assert where is not None, f"{topic.name}-{number} is listed, and does not move"
    copies = partition_copies(image, topic, number, partition, report_of)
    return _ongoing(
        topic,
        number,
        partition,
        step=where.step,
        step_count=where.of,
        state=where.state.value,
        reason=None if where.reason is None else where.reason.value,
        detail=where.detail or None,
        reason_brokers=where.brokers,
        since_ms=where.since_ms,
        bytes_left=None if copies is None else copies.bytes_left,
        bytes_per_s=None if copies is None else copies.bytes_per_s,
    )


_MAY_CHANGE_FROM: Final = 1
"""The version that says whether the number of replicas may change."""
_PARTITION: Final = Struct(">ih")
_NO_TAGS: Final = b"\x00"
_NONE: Final = b"\x01"
"""A compact array of nothing."""
_NULL: Final = b"\x00"


def with_partitions(empty: bytes, version: int, partitions: Sequence[ReassignmentAltered]) -> bytes:
    """Insert the results of these partitions into a response without any."""
    # Throttle time, from version 1 on the permission, error code and no message stand before them.
    at = 4 + (version >= _MAY_CHANGE_FROM) + 2 + len(_NULL)
    assert empty[at : at + 1] == _NONE, "the answer has partitions already"
    topics = [
        _topic(name, list(group))
        for name, group in groupby(partitions, key=lambda each: each.topic)
    ]
    return b"".join((empty[:at], uvarint(len(topics) + 1), *topics, empty[at + 1 :]))


def _topic(name: str, partitions: Sequence[ReassignmentAltered]) -> bytes:
    fields = [
        b"".join(
            (
                _PARTITION.pack(each.partition, each.error.code),
                _string(bounded(each.message)) if each.message else _NULL,
                _NO_TAGS,
            )
        )
        for each in partitions
    ]
    return b"".join((_string(name), uvarint(len(fields) + 1), *fields, _NO_TAGS))


def _string(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw
