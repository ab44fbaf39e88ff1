"""Reassignments (KIP-455): begin a move of partitions, and list the partitions under way.

Kafka's own requests carry these two as well, so that they pass Kafka's brokers.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from admin.capabilities.moves import (
    BytesPerS,
    KnownBytes,
    NewMove,
    PartitionResult,
    Priority,
)
from admin.capabilities.schema import (
    Answer,
    AsOfOffset,
    Context,
    Request,
    known,
)
from admin.model import Assignment
from controller.apis.reassignments import read_reassignments
from controller.move_requests import OngoingReassignment, with_idempotency_key, wrong_name
from statemachine.commands import AlterReassignments, ReassignmentsAltered
from statemachine.commands import Reassignment as Wish


class AssignedPartition(PartitionResult, frozen=True, kw_only=True):
    """The replicas of a partition now or after a dry run; none if the node does not say."""

    steps: Annotated[
        tuple[tuple[int, ...], ...],
        Meta(description="Of a dry run: the replicas after each step, of the first partitions"),
    ] = ()


class BegunMove(Answer, frozen=True, kw_only=True):
    """The move that has begun; one bad partition does not stop the others."""

    move_id: Annotated[
        int, Meta(description="Also of a move that brings already what was asked for; 0: none")
    ]
    results: Annotated[Sequence[AssignedPartition], Meta(description="In the order asked")]
    repeated: Annotated[bool, Meta(description="It was carried out before, with this key")] = False

    @property
    def accepted(self) -> list[AssignedPartition]:
        """The partitions that were accepted."""
        return [each for each in self.results if not each.kafka_error_code]

    @property
    def refused(self) -> list[AssignedPartition]:
        """The partitions that were refused, each with its reason."""
        return [each for each in self.results if each.kafka_error_code]


class BeginMove(NewMove[BegunMove], frozen=True, kw_only=True):
    """Begin a move: give partitions other replicas, or cancel what is under way of them."""

    assignments: Annotated[Sequence[Assignment], Meta(description="In the order wanted")]
    name: Annotated[str, Meta(description="Of the move, for people")] = ""
    priority: Priority = 0
    may_change_factor: Annotated[
        bool, Meta(description="Whether partitions may get another number of replicas")
    ] = True

    NAME = "moves.begin"
    FAILING = "the partitions cannot be reassigned"

    def contradiction(self) -> str | None:
        return wrong_name(self.name)

    async def answer(self, context: Context) -> BegunMove:
        command = replace(command_of(self), who=context.who)
        keyed = with_idempotency_key(command, self.key)
        return begun(await context.service.carry_out(keyed, ReassignmentsAltered, who=context.who))


class PartitionReassignment(Answer, frozen=True, kw_only=True):
    """A partition under reassignment; fields that the node did not tell are absent."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    target_replicas: tuple[int, ...] | UnsetType = UNSET
    move_id: int | UnsetType | None = UNSET
    step: Annotated[int, Meta(description="Under way or next, from 1 on")] | UnsetType = UNSET
    steps: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    reason: (
        Annotated[str | None, Meta(description="What keeps it, as a word for programs")] | UnsetType
    ) = UNSET
    detail: str | UnsetType | None = UNSET
    reason_brokers: tuple[int, ...] | UnsetType = UNSET
    since_ms: int | UnsetType = UNSET
    bytes_left: KnownBytes | UnsetType = UNSET
    bytes_per_s: BytesPerS | UnsetType = UNSET


class Reassignments(Answer, frozen=True, kw_only=True):
    """The partitions under reassignment, in order."""

    as_of_offset: AsOfOffset
    reassignments: tuple[PartitionReassignment, ...]


class ListReassignments(Request[Reassignments], frozen=True, kw_only=True):
    """List the partitions under reassignment."""

    partitions: Annotated[
        dict[str, tuple[int, ...]] | None,
        Meta(description="Numbers of partitions by topic; null: all"),
    ] = None

    NAME = "reassignments.list"
    FAILING = "reassignments cannot be listed"

    async def answer(self, context: Context) -> Reassignments:
        found = await read_reassignments(context.service, self.partitions, stale=context.stale)
        return Reassignments(
            as_of_offset=found.offset,
            reassignments=tuple([reassignment_of(each) for each in found.value]),
        )


def command_of(request: BeginMove) -> AlterReassignments:
    """The command of the state machine."""
    return AlterReassignments(
        reassignments=tuple(
            [
                Wish(topic=each.topic, partition=each.partition, replicas=each.replicas)
                for each in request.assignments
            ]
        ),
        may_change_factor=request.may_change_factor,
        name=request.name,
        priority=request.priority,
        dry_run=request.dry_run,
        **request.limits,
    )


def begun(answer: ReassignmentsAltered) -> BegunMove:
    """The answer that tells what the state machine has done."""
    return BegunMove(
        move_id=answer.move_id,
        results=[
            AssignedPartition.of(
                each,
                topic=each.topic,
                partition=each.partition,
                replicas=each.replicas,
                steps=each.steps,
            )
            for each in answer.partitions
        ],
        repeated=answer.repeated,
    )


def reassignment_of(one: OngoingReassignment) -> PartitionReassignment:
    """The answer that describes a partition, with the fields that the node has sent."""
    there = bool(one.target)
    has_step = bool(one.step)
    return PartitionReassignment(
        topic=one.topic,
        partition=one.partition,
        replicas=tuple(one.replicas),
        adding_replicas=tuple(one.adding),
        removing_replicas=tuple(one.removing),
        target_replicas=tuple(one.target) if there else UNSET,
        move_id=(one.move_id or None) if there else UNSET,
        step=one.step if has_step else UNSET,
        steps=one.step_count if has_step else UNSET,
        state=one.state if has_step else UNSET,
        reason=one.reason if has_step else UNSET,
        detail=(one.detail or None) if has_step else UNSET,
        reason_brokers=tuple(one.reason_brokers) if has_step else UNSET,
        since_ms=one.since_ms if has_step else UNSET,
        bytes_left=known(one.bytes_left) if has_step else UNSET,
        bytes_per_s=known(one.bytes_per_s) if has_step else UNSET,
    )
