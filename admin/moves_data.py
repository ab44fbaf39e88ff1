"""What is told of moves as plain values: the JSON of the HTTP door and of commands alike."""

from collections.abc import Sequence
from typing import Any

from admin.model import UNKNOWN, PartitionResult, Reassignment
from admin.moves import (
    MovesChanged,
    MoveStanding,
    MoveStandings,
    MovingPartition,
    PartitionOutcome,
)
from admin.new_moves import BegunMove
from statemachine.limits import PLANNED_STEPS_SHOWN_MAX, REFUSED_SHOWN_MAX


def move_data(move: MoveStanding) -> dict[str, Any]:
    """One move, without its partitions."""
    return {
        "move_id": move.id,
        "kind": move.kind,
        "name": move.name or None,
        "state": move.state,
        "ended": move.ended,
        "since_ms": move.since_ms,
        "changed_by": move.changed_by or None,
        "detail": move.detail or None,
        "asked_by": move.asked_by,
        "asked_at_ms": move.asked_at_ms,
        "rollback_of": move.rollback_of or None,
        "priority": move.priority,
        "throttle_bytes_per_s": move.throttle_bytes_per_s or None,
        "throttle_lost": list(move.throttle_lost),
        "partitions_total": move.partition_count,
        "waiting": move.waiting,
        "stepping": move.stepping,
        "completed": move.completed,
        "cancelled": move.cancelled,
        "superseded": move.superseded,
        "gone": move.gone,
        "refused": move.refused,
    }


def moving_data(move: MoveStanding) -> dict[str, Any]:
    """One move that was asked for by its id, with what is left to copy; None is not known."""
    return {
        **move_data(move),
        "bytes_left": _known(move.bytes_left),
        "bytes_per_s": _known(move.bytes_per_s),
        "time_left_ms": _known(move.time_left_ms),
        "partitions_bytes_unknown": move.copies_unknown,
        "partitions_falling_behind": move.copies_behind,
    }


def whole_move_data(move: MoveStanding) -> dict[str, Any]:
    """One move with where its partitions stand; `partitions_not_shown` is how many more there are.

    Of partitions that are in it no more only the counts are told.
    """
    more = max(0, move.waiting + move.stepping - len(move.partitions))
    return {
        **moving_data(move),
        "partitions": [_partition(each) for each in move.partitions],
        "partitions_not_shown": more,
    }


def page_data(move: MoveStanding) -> dict[str, Any]:
    """A page of the partitions of a move."""
    return {
        "move_id": move.id,
        "total": move.waiting + move.stepping,
        "partitions": [_partition(each) for each in move.partitions],
    }


def pause_data(found: MoveStandings) -> dict[str, Any] | None:
    """Who has paused all moves, and since when; None while they are not."""
    if found.all_paused_by is None:
        return None
    return {"by": found.all_paused_by, "since_ms": found.all_paused_since_ms}


def standings_data(found: MoveStandings) -> dict[str, Any]:
    """All moves, in the order in which they began."""
    return {
        "as_of_offset": found.as_of,
        "all_paused": pause_data(found),
        "moves": [move_data(each) for each in found.moves],
    }


def changed_data(found: MovesChanged) -> dict[str, Any]:
    """What came of a request, part by part."""
    return {
        "begun_move_id": found.begun or None,
        "partitions_accepted": found.accepted,
        "partitions_refused": found.refused,
        "moves": [
            {
                "move_id": each.move_id,
                "kafka_error": each.error_name,
                "kafka_error_code": each.error_code,
                "message": each.message,
            }
            for each in found.moves
        ],
        "partitions": [_outcome(each) for each in found.partitions],
    }


def reassignment_data(one: Reassignment) -> dict[str, Any]:
    """A partition under way; where it goes and stands, as far as the node has said it."""
    data: dict[str, Any] = {
        "topic": one.topic,
        "partition": one.partition,
        "replicas": list(one.replicas),
        "adding_replicas": list(one.adding),
        "removing_replicas": list(one.removing),
    }
    if one.target:
        data |= {"target_replicas": list(one.target), "move_id": one.move_id or None}
    if one.step:
        data |= {
            "step": one.step,
            "steps": one.step_count,
            "state": one.state,
            "reason": one.reason,
            "detail": one.detail or None,
            "reason_brokers": list(one.reason_brokers),
            "since_ms": one.since_ms,
            "bytes_left": _known(one.bytes_left),
            "bytes_per_s": _known(one.bytes_per_s),
        }
    return data


def begun_data(found: BegunMove) -> dict[str, Any]:
    """What came of a request that begins a move: which it is, and which partitions are refused."""
    return {
        "move_id": found.move_id or None,
        "accepted": len(found.accepted),
        "refused": len(found.refused),
        "errors": refusals_data(found.refused),
    }


def foreseen_data(found: BegunMove) -> dict[str, Any]:
    """What would come of it, with the steps of the first partitions."""
    told = found.accepted[:PLANNED_STEPS_SHOWN_MAX]
    return {
        "dry_run": True,
        **begun_data(found),
        "planned": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "replicas": list(each.replicas),
                "steps": [list(step) for step in each.steps],
            }
            for each in told
        ],
        "planned_not_shown": len(found.accepted) - len(told),
    }


def refusals_data(refused: Sequence[PartitionResult]) -> list[dict[str, Any]]:
    """The first of the partitions that are refused, each with its reason; null is all of it."""
    return [
        {
            "topic": each.topic,
            "partition": None if each.partition < 0 else each.partition,
            "kafka_error": each.error_name,
            "kafka_error_code": each.error_code,
            "message": each.message,
        }
        for each in refused[:REFUSED_SHOWN_MAX]
    ]


def _outcome(outcome: PartitionOutcome) -> dict[str, Any]:
    whole = outcome.id.partition < 0
    return {
        "topic": outcome.id.topic,
        "partition": None if whole else outcome.id.partition,
        "replicas": list(outcome.replicas),
        "kafka_error": outcome.error_name,
        "kafka_error_code": outcome.error_code,
        "message": outcome.message,
    }


def _partition(partition: MovingPartition) -> dict[str, Any]:
    return {
        "topic": partition.id.topic,
        "partition": partition.id.partition,
        "step": partition.step,
        "steps": partition.step_count,
        "state": partition.state,
        "reason": partition.reason,
        "detail": partition.detail or None,
        "reason_brokers": list(partition.reason_brokers),
        "since_ms": partition.since_ms,
        "replicas": list(partition.replicas),
        "target_replicas": list(partition.target),
        "adding_replicas": list(partition.adding),
        "removing_replicas": list(partition.removing),
        "bytes_left": _known(partition.bytes_left),
        "bytes_per_s": _known(partition.bytes_per_s),
        "time_left_ms": _known(partition.time_left_ms),
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
