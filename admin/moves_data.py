"""What is told of moves as plain values: the JSON of the HTTP door and of commands alike."""

from collections.abc import Sequence
from typing import Any

from admin.model import PartitionResult, Reassignment
from admin.new_moves import BegunMove
from controller.quorum_description import UNKNOWN
from statemachine.limits import PLANNED_STEPS_SHOWN_MAX, REFUSED_SHOWN_MAX


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


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
