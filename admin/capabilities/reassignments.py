"""Reassignments (KIP-455): begin a move of partitions, and list the partitions under way.

Kafka's own requests carry these two as well, so that Kafka's brokers forward them.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace
from pyroaring import BitMap

from admin.capabilities.moves import (
    BASE,
    NewMove,
    PartitionResult,
    PartitionsRequest,
    Priority,
)
from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.paging import Page
from admin.capabilities.schema import Answer, Context, Repeated, Route
from admin.model import Assignment
from controller.move_requests import OngoingReassignment, with_idempotency_key, wrong_name
from statemachine.commands import AlterReassignments, ReassignmentsAltered
from statemachine.image.image import Image
from statemachine.image.partition_index import keys_of
from statemachine.reassignment.copies import CopyLookup
from statemachine.slices import Slices


class AssignedPartition(PartitionResult, frozen=True, kw_only=True):
    """The replicas of a partition now or after a dry run; none if the node does not say."""

    steps: Annotated[
        tuple[tuple[int, ...], ...],
        Meta(description="Of a dry run: the replicas after each step, of the first partitions"),
    ] = ()


class BegunMove(Answer, frozen=True, kw_only=True):
    """The move that has begun; one bad partition does not stop the others."""

    move_id: Annotated[
        int, Meta(description="Also of an earlier move to the same replicas; 0: none")
    ]
    results: Annotated[Sequence[AssignedPartition], Meta(description="In the order of the request")]
    repeated: Repeated = False

    @property
    def accepted(self) -> list[AssignedPartition]:
        """The partitions that were accepted."""
        return [each for each in self.results if not each.kafka_error_code]

    @property
    def refused(self) -> list[AssignedPartition]:
        """The partitions that were refused, each with its reason."""
        return [each for each in self.results if each.kafka_error_code]


class BeginMove(NewMove[BegunMove], frozen=True, kw_only=True):
    """Begin a move: give partitions other replicas, or cancel their reassignments."""

    assignments: Annotated[Sequence[Assignment], Meta(description="In the order to carry them out")]
    name: Annotated[str, Meta(description="A name for the move")] = ""
    priority: Priority = 0
    may_change_factor: Annotated[bool, Meta(description="Allow another number of replicas")] = True

    NAME = "moves.begin"
    NEEDS = ALTER_CLUSTER
    FAILING = "the partitions cannot be reassigned"

    def contradiction(self) -> str | None:
        return wrong_name(self.name)

    async def answer(self, context: Context) -> BegunMove:
        command = replace(command_of(self), who=context.who)
        keyed = with_idempotency_key(command, self.key)
        return begun(await context.service.carry_out(keyed, ReassignmentsAltered, who=context.who))


class Reassignments(Page, frozen=True, kw_only=True):
    """The partitions under reassignment, in the order of topic and number."""

    partitions: tuple[OngoingReassignment, ...]


class ListReassignments(PartitionsRequest[Reassignments], frozen=True, kw_only=True):
    """List the partitions under reassignment, in moves or not."""

    topic: Annotated[str | None, Meta(description="Of this topic")] = None

    NAME = "reassignments.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", f"{BASE}/partitions"),)
    FAILING = "reassignments cannot be listed"

    async def answer(self, context: Context) -> Reassignments:
        report_of = context.service.controller.reported_copies()
        return await context.read_long(lambda image: self._page(image, report_of))

    def _page(self, image: Image, report_of: CopyLookup) -> Slices[Reassignments]:
        keys = image.index.moving
        if self.topic is not None:
            topic = image.topic_named(self.topic)
            keys = keys & (BitMap() if topic is None else (yield from keys_of(topic)))
        partitions, cut = yield from self.listed(image, keys, report_of)
        return Reassignments(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            partitions=partitions,
        )


def command_of(request: BeginMove) -> AlterReassignments:
    """The command of the state machine."""
    command = AlterReassignments(
        reassignments=tuple(request.assignments),
        may_change_factor=request.may_change_factor,
        name=request.name,
        priority=request.priority,
        dry_run=request.dry_run,
    )
    return request.limited(command)


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
