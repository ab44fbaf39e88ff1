"""The questions of those who look after moves, and how their answers are read."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Final

from admin.client.asking import Answer, Question
from admin.client.channels import Form
from admin.faults import error_name
from admin.model import PartitionId
from admin.move_plans import MovePlan
from admin.moves import (
    MoveResult,
    MovesChanged,
    MovesRequest,
    MoveStanding,
    MoveStandings,
    MovingPartition,
    Operation,
    Page,
    PartitionOutcome,
)
from admin.reassignment_questions import LOOK
from quorum.protocol.apis import ApiKey

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
    Operation.THROTTLE: "throttled",
    Operation.ALTER: "altered",
}


def alter_moves(request: MovesRequest) -> Question:
    """Pause, resume, cancel, roll back, order or throttle moves."""

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
            throttle=request.throttle_bytes_per_s,
            key=request.key,
        )

    return Question(
        api_key=ApiKey.ALTER_MOVES,
        fill=fill,
        failing=f"{_named(request)} cannot be {_DONE[request.operation]}",
        look=None if request.dry_run else LOOK,
    )


def read_change(answer: Answer) -> MovesChanged:
    """What came of it."""
    response = answer.response
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
        partitions=[_outcome(each) for each in response.partitions],
        accepted=response.accepted_count,
        refused=response.refused_count,
        begun=response.begun_move_id,
        is_repeated=response.repeated,
    )


def _outcome(partition: Any) -> PartitionOutcome:
    error = int(partition.error_code)
    return PartitionOutcome(
        id=PartitionId(partition.topic_name, partition.partition_index),
        replicas=partition.replicas,
        error_code=error,
        error_name=error_name(error),
        message=partition.error_message,
    )


def describe_moves(move_ids: Sequence[int] | None, page: Page | None = None) -> Question:
    """All moves that are listed, or these with their first partitions, or those of a page."""
    wanted, shown = None if move_ids is None else tuple(move_ids), page or Page()
    topic, number = shown.after or (None, -1)
    return Question(
        api_key=ApiKey.DESCRIBE_MOVES,
        fill=lambda form: form.request(
            move_ids=wanted,
            partitions_max=shown.size,
            after_topic=topic,
            after_partition=number,
        ),
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


def describe_plan(move_id: int, part: int) -> Question:
    """A part of what a move asked for."""
    return Question(
        api_key=ApiKey.DESCRIBE_MOVE_PLAN,
        fill=lambda form: form.request(move_id=move_id, part=part),
        failing=f"the plan of move {move_id} cannot be had",
    )


def read_plan(response: Any) -> MovePlan:
    """The part of the plan."""
    found = {
        PartitionId(each.topic_name, each.partition_index): each for each in response.partitions
    }
    return MovePlan(
        targets={id: each.target for id, each in found.items()},
        originals={id: each.original for id, each in found.items()},
        gone=response.gone_count,
        part_count=response.part_count,
    )


def _named(request: MovesRequest) -> str:
    if request.everything:
        return "the moves"
    if not request.move_ids:
        return "what is under way of these topics and partitions"
    several = "moves" if len(request.move_ids) > 1 else "move"
    return f"{several} {', '.join(map(str, request.move_ids))}"
