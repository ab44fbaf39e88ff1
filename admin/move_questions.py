"""The questions of those who look after moves, and how their answers are read."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Final

from admin.asking import Answer, Question
from admin.channels import Form
from admin.faults import error_name
from admin.model import PartitionId
from admin.moves import (
    MoveResult,
    MovesChanged,
    MovesRequest,
    MoveStanding,
    MoveStandings,
    MovingPartition,
    Operation,
    PartitionOutcome,
)
from quorum.wire.apis import ApiKey

NO_REASSIGNMENT_IN_PROGRESS: Final = 85
LOOK: Final = "metaquorum moves list"
"""What shows which moves there are, and what became of them."""

_PLAIN: Final = tuple(
    each.name for each in fields(MoveStanding) if each.name not in ("id", "partitions")
)
_PARTITION_PLAIN: Final = tuple(each.name for each in fields(MovingPartition) if each.name != "id")

_DONE: Final = {
    Operation.PAUSE: "paused",
    Operation.RESUME: "resumed",
    Operation.CANCEL: "cancelled",
    Operation.ROLL_BACK: "rolled back",
    Operation.PRIORITY: "put before or behind others",
}


def alter_moves(request: MovesRequest) -> Question:
    """Pause, resume, cancel, roll back or order moves."""

    def fill(form: Form) -> Any:
        parts = groupby(sorted(request.partitions), key=lambda each: each.topic)
        topics = [(name, tuple(each.partition for each in found)) for name, found in parts]
        return form.request(
            timeout=form.patience,
            operation=request.operation.value,
            move_ids=request.move_ids,
            topics=tuple(
                form.part("NamedTopic", name=name, partition_indexes=numbers)
                for name, numbers in [*((each, None) for each in request.topics), *topics]
            ),
            everything=request.everything,
            dry_run=request.dry_run,
            priority=request.priority,
        )

    return Question(
        api_key=ApiKey.ALTER_MOVES,
        fill=fill,
        failing=f"{_named(request)} cannot be {_DONE[request.operation]}",
        look=None if request.dry_run else LOOK,
    )


def read_change(answer: Answer) -> MovesChanged:
    """What came of it.

    Where an attempt before may have cancelled a partition, not to find it any more is success.
    """
    response = answer.response
    partitions = [_outcome(each, repeated=answer.repeated) for each in response.partitions]
    forgiven = sum(bool(each.error_code) for each in response.partitions) - sum(
        bool(each.error_code) for each in partitions
    )
    return MovesChanged(
        moves=[
            MoveResult(
                move_id=each.move_id,
                error_code=int(each.error_code),
                error_name=error_name(int(each.error_code)),
                message=each.error_message,
            )
            for each in response.moves
        ],
        partitions=partitions,
        accepted=response.accepted_count + forgiven,
        refused=response.refused_count - forgiven,
        begun=response.begun_move_id,
    )


def _outcome(partition: Any, *, repeated: bool) -> PartitionOutcome:
    id = PartitionId(partition.topic_name, partition.partition_index)
    error = int(partition.error_code)
    if repeated and error == NO_REASSIGNMENT_IN_PROGRESS:
        return PartitionOutcome(id=id)
    return PartitionOutcome(
        id=id,
        replicas=partition.replicas,
        error_code=error,
        error_name=error_name(error),
        message=partition.error_message,
    )


def describe_moves(move_ids: Sequence[int] | None) -> Question:
    """All moves that are listed, or these with their partitions."""
    wanted = None if move_ids is None else tuple(move_ids)
    return Question(
        api_key=ApiKey.DESCRIBE_MOVES,
        fill=lambda form: form.request(move_ids=wanted),
        failing="the moves cannot be described",
    )


def read_moves(answer: Answer) -> MoveStandings:
    """The moves, and whether all of them are paused."""
    response = answer.response
    return MoveStandings(
        moves=[_move(each) for each in response.moves],
        all_paused_by=response.all_paused_by,
        all_paused_since_ms=response.all_paused_since_ms,
        as_of=answer.as_of,
    )


def _move(move: Any) -> MoveStanding:
    return MoveStanding(
        id=move.move_id,
        partitions=[
            MovingPartition(
                id=PartitionId(each.topic_name, each.partition_index),
                **{name: getattr(each, name) for name in _PARTITION_PLAIN},
            )
            for each in move.partitions
        ],
        **{name: getattr(move, name) for name in _PLAIN},
    )


def _named(request: MovesRequest) -> str:
    if request.everything:
        return "the moves"
    if not request.move_ids:
        return "what is under way of these topics and partitions"
    several = "moves" if len(request.move_ids) > 1 else "move"
    return f"{several} {', '.join(map(str, request.move_ids))}"
