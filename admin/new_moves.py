"""What a move is begun with, and what came of it: values that doors, client and commands share.

They know neither the wire nor the screen. What is done with moves that are there is `admin.moves`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from admin.model import Assignment, PartitionResult
from controller.move_requests import new_key, refusal_of
from statemachine.commands import AlterReassignments, Reassignment, ReassignmentsAltered
from statemachine.errors import Refusal
from statemachine.limits import THROTTLE_BYTES_PER_S_MAX

PRIORITY_MAX: Final = 2**31 - 1
THROTTLE_MAX: Final = THROTTLE_BYTES_PER_S_MAX
PRIORITY_MIN: Final = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMove:
    """What is asked for at one time, and how it is to be known."""

    assignments: Sequence[Assignment]
    """In the order in which they are wanted."""
    name: str = ""
    priority: int = 0
    """Moves with a higher one step before others."""
    throttle_bytes_per_s: int = 0
    """To and from each broker; 0 is no limit."""
    dry_run: bool = False
    """Only tell what would become of it."""
    may_change_factor: bool = True
    key: str = ""
    """Asked again with it, it is not carried out again; a dry run needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunMove:
    """What came of it; one bad partition does not stop the others."""

    move_id: int
    """The move that it is, or that brings already what was asked for; 0 for none."""
    results: Sequence[PartitionResult]
    """In the order asked."""
    is_repeated: bool = False
    """Whether it had been asked for before, with the same key."""

    @property
    def accepted(self) -> list[PartitionResult]:
        """What is done, or was so already."""
        return [each for each in self.results if not each.error_code]

    @property
    def refused(self) -> list[PartitionResult]:
        """What is not, each with its reason."""
        return [each for each in self.results if each.error_code]


def with_key(request: NewMove) -> NewMove:
    """The request with a key: its own, or one that nobody has."""
    return request if request.key else replace(request, key=new_key())


def command_of(asked: NewMove, who: str) -> AlterReassignments | Refusal:
    """What the state machine is asked for; or what is wrong with the request as a whole."""
    refusal = refusal_of(asked.name, asked.key)
    if refusal is not None:
        return refusal
    return AlterReassignments(
        reassignments=tuple(
            [
                Reassignment(topic=each.topic, partition=each.partition, replicas=each.replicas)
                for each in asked.assignments
            ]
        ),
        may_change_factor=asked.may_change_factor,
        who=who,
        name=asked.name,
        priority=asked.priority,
        throttle_bytes_per_s=asked.throttle_bytes_per_s,
        dry_run=asked.dry_run,
    )


def told(answer: ReassignmentsAltered) -> BegunMove:
    """What came of it, as the doors tell it."""
    return BegunMove(
        move_id=answer.move_id,
        results=[
            PartitionResult(
                topic=each.topic,
                partition=each.partition,
                error_code=each.error.code,
                error_name=each.error.name,
                message=each.message or None,
                replicas=each.replicas,
                steps=each.steps,
            )
            for each in answer.partitions
        ],
        is_repeated=answer.repeated,
    )
