"""The output of `reassign-partitions`: the sentences of Kafka's script, verbatim, and data.

Pure functions from requests and answers to text or plain values.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import UNSET

from admin.capabilities.moves import PartitionResult
from admin.capabilities.plan_steps import PLAN_FILE_VERSION, PlannedPartition
from admin.capabilities.reassignments import BegunMove
from admin.capabilities.schema import Answer, json_of
from admin.cli.output import and_more, as_of_offset, ids
from admin.client.channels import Response
from admin.model import Assignment, PartitionId
from admin.plan_file import render_plan
from controller.move_requests import OngoingReassignment

EXISTING_REASSIGNMENT = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one."
)
NOTHING_ACTIVE = "None of the specified partition reassignments are active."
NOTHING_FOUND = "No partition reassignments found."


class MoveStatus(StrEnum):
    """The status of a planned partition."""

    COMPLETED = "completed"
    IN_PROGRESS = "in_progress"
    NOT_AS_PLANNED = "not_as_planned"


class MoveState(Answer, frozen=True, kw_only=True):
    """A planned partition with its current and its target replicas."""

    topic: str
    partition: int
    status: MoveStatus
    replicas: tuple[int, ...]
    target_replicas: tuple[int, ...]

    def __str__(self) -> str:
        id = PartitionId(self.topic, self.partition)
        match self.status:
            case MoveStatus.IN_PROGRESS:
                return f"Reassignment of partition {id} is still in progress."
            case MoveStatus.COMPLETED:
                return f"Reassignment of partition {id} is completed."
            case MoveStatus.NOT_AS_PLANNED:
                why = (
                    f"but replica set is {ids(self.replicas)} rather than"
                    f" {ids(self.target_replicas)}"
                    if self.replicas
                    else "for there is no such partition"
                )
                return f"There is no active reassignment of partition {id}, {why}."


def move_states(
    plan: Iterable[Assignment],
    active: Collection[PartitionId],
    replicas: Mapping[PartitionId, Sequence[int]],
) -> list[MoveState]:
    """The states of the planned partitions, sorted; a missing partition has no replicas."""
    states = []
    for one in sorted(plan, key=lambda one: one.id):
        current, target = tuple(replicas.get(one.id, ())), one.replicas or ()
        status = MoveStatus.COMPLETED if current == target else MoveStatus.NOT_AS_PLANNED
        states.append(
            MoveState(
                topic=one.topic,
                partition=one.partition,
                status=MoveStatus.IN_PROGRESS if one.id in active else status,
                replicas=current,
                target_replicas=target,
            )
        )
    return states


def verified(states: Sequence[MoveState]) -> str:
    """The output of `--verify`."""
    return "\n".join(["Status of partition reassignment:", *map(str, states)])


def verified_data(states: Sequence[MoveState]) -> dict[str, Any]:
    """The same as plain values."""
    return {"partitions": [json_of(state) for state in states]}


def rollback(replicas: Mapping[PartitionId, Sequence[int]]) -> str:
    """The first output of `--execute`: the plan that restores the present state."""
    return (
        f"Current partition replica assignment\n\n{render_plan(replicas)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def proposed(
    current: Mapping[PartitionId, Sequence[int]], plan: Mapping[PartitionId, Sequence[int]]
) -> str:
    """The output of `--generate`: the present assignment and the plan."""
    return (
        f"Current partition replica assignment\n{render_plan(current)}\n\n"
        f"Proposed partition reassignment configuration\n{render_plan(plan)}"
    )


def started(partitions: Sequence[PartitionId]) -> str:
    """The message about partitions whose reassignment was started."""
    named = _partitions(partitions)
    return f"Successfully started partition reassignment{_s(partitions)} for {named}"


def original(move_id: int) -> str:
    """The command that prints the assignment before a move that a repeated request found."""
    return (
        "The assignment printed above is the present one; for the one before the move: "
        f"metaquorum moves rollback-plan {move_id}"
    )


NOTHING_BEGUN = (
    "No move was begun: the partitions have the replicas of the plan, or are moving there."
)
NAMED_MAX = 20
"""Partitions that a message lists one by one."""


def planned(tried: BegunMove) -> str:
    """The steps that the controller would take now."""
    several = [one for one in tried.accepted if len(one.steps) > 1]
    if not several:
        return "Every partition takes one step."
    lines = [
        f"{one.id}: {' -> '.join(ids(step) for step in one.steps)}" for one in several[:NAMED_MAX]
    ]
    more, at_once = len(several) - len(lines), len(tried.accepted) - len(several)
    rest = [f"and {more} more, in several steps"] if more else []
    rest += [f"and {at_once} more, in one step each"] if at_once else []
    return "\n".join(["Steps, with the replicas after each step:", *lines, *rest])


def replicas(partitions: Sequence[PartitionResult] | Sequence[PlannedPartition], total: int) -> str:
    """The replicas of partitions one by one, as far as they are named."""
    lines = [f"{one.id}: {ids(one.replicas)}" for one in partitions[:NAMED_MAX]]
    return "\n".join([*lines, *and_more(total - len(lines))])


def not_started(refused: Sequence[PartitionResult]) -> list[str]:
    """The errors of `--execute`, if any."""
    return _refused("Error reassigning partition(s):", refused)


def cancelled(partitions: Sequence[PartitionId]) -> str:
    """The message about cancelled reassignments."""
    named = _partitions(partitions)
    return f"Successfully cancelled partition reassignment{_s(partitions)} for: {named}"


def not_cancelled(refused: Sequence[PartitionResult]) -> list[str]:
    """The errors of `--cancel`, if any."""
    return _refused(f"Error cancelling partition reassignment{_s(refused)} for:", refused)


def listed(active: Iterable[OngoingReassignment]) -> str:
    """The output of `--list`."""
    lines = [_listed(one) for one in sorted(active, key=lambda one: one.id)]
    return "\n".join(["Current partition reassignments:", *lines]) if lines else NOTHING_FOUND


def listed_data(active: Response[Sequence[OngoingReassignment]]) -> dict[str, Any]:
    """The same as plain values, in the shape of a plan."""
    return {
        "version": PLAN_FILE_VERSION,
        **as_of_offset(active),
        "partitions": [json_of(one) for one in sorted(active.value, key=lambda one: one.id)],
    }


def _listed(one: OngoingReassignment) -> str:
    adding = f" adding: {ids(one.adding)}." if one.adding else ""
    removing = f" removing: {ids(one.removing)}." if one.removing else ""
    return f"{one.id}: replicas: {ids(one.replicas)}.{adding}{removing}{_waiting(one)}"


def _waiting(one: OngoingReassignment) -> str:
    """The next step of a partition that waits; Kafka's script does not know this state."""
    if one.adding or one.removing or one.target is UNSET:
        return ""
    goes = f" waiting for: {ids(one.target)}."
    if one.step is UNSET:
        return goes
    why = one.detail or one.reason
    return f"{goes} step {one.step} of {one.step_count}, {one.state}{f': {why}' if why else ''}."


def _refused(opening: str, refused: Sequence[PartitionResult]) -> list[str]:
    reasons = [
        f"{one.id}: {one.message or one.kafka_error}"
        for one in sorted(refused, key=lambda one: one.id)
    ]
    return [opening, *reasons] if reasons else []


def _partitions(named: Iterable[PartitionId]) -> str:
    return ",".join(map(str, sorted(named)))


def _s(several: Sequence[object]) -> str:
    return "" if len(several) == 1 else "s"
