"""What is told of plans as plain values: the JSON of the HTTP door and of commands alike."""

from typing import Any, Final

from admin.client.log_sizes import BytesMoved
from admin.model import UNKNOWN, PartitionId
from admin.plan_file import VERSION
from admin.plans import Foreseen, PlanResult

UNTRIED: Final = BytesMoved(None, "brokers are asked for it when a plan is tried (dry run)")
"""Of what begins at once: what is left to copy is told with its moves."""


def plan_data(found: PlanResult, moved: BytesMoved = UNTRIED) -> dict[str, Any]:
    """A plan in the form of `reassign-partitions`, the one that leads back, and what it does."""
    return {
        "partitions_planned": found.planned,
        "plan": _file([(each.id, each.target) for each in found.partitions]),
        "rollback_plan": _file([(each.id, each.replicas) for each in found.partitions]),
        "outcome": {**_foreseen(found.foreseen), **bytes_data(moved)},
    }


def begun_data(found: PlanResult) -> dict[str, Any]:
    """What was begun, and what could not be."""
    return {
        "move_ids": list(found.moves),
        "partitions_accepted": found.accepted,
        "partitions_refused": found.refused_count,
        "errors": [
            {
                "topic": each.id.topic,
                "partition": each.id.partition,
                "kafka_error": each.error_name,
                "kafka_error_code": each.error_code,
                "message": each.message,
            }
            for each in found.refused
        ],
    }


def replicas_data(found: PlanResult) -> list[dict[str, Any]]:
    """What partitions have, or would have, of which a move is cancelled."""
    return [
        {"topic": each.id.topic, "partition": each.id.partition, "replicas": list(each.replicas)}
        for each in found.partitions
    ]


def emptying_data(found: PlanResult) -> dict[str, Any]:
    """How far brokers are from having no replicas."""
    emptying = found.emptying
    return {
        "state": _state(found),
        "reason": found.reason,
        "registered": not emptying.strange,
        "alive": bool(emptying.alive),
        "to_be_unregistered": bool(emptying.to_be_unregistered),
        "partitions_held": emptying.held,
        "partitions_leaving": _leaving(found),
        "partitions_leaderless": _named(emptying.leaderless),
        "partitions_busy": _named(emptying.busy),
    }


def _state(found: PlanResult) -> str:
    """empty; moving while all is on its way; waiting where something cannot be, or is not asked."""
    if not found.emptying.held:
        return "empty"
    return "moving" if found.emptying.held <= _leaving(found) else "waiting"


def _leaving(found: PlanResult) -> int:
    """Partitions on their way; of what had begun before, those that are so still."""
    return found.emptying.leaving + (0 if found.is_repeated else found.accepted)


def bytes_data(moved: BytesMoved) -> dict[str, Any]:
    """What a plan copies, or why that is not known."""
    return {"bytes_moved": moved.size_bytes, "bytes_moved_unknown": moved.reason}


def _foreseen(foreseen: Foreseen) -> dict[str, Any]:
    return {
        "replicas_added": foreseen.replicas_added,
        "replicas_removed": foreseen.replicas_removed,
        "leaders_moved": foreseen.leaders_moved,
        "racks_shared_before": _known(foreseen.crowded_before),
        "racks_shared_after": _known(foreseen.crowded_after),
        "brokers": [
            {
                "broker_id": each.broker,
                "replicas_before": each.replicas_before,
                "replicas_after": each.replicas_after,
                "leaders_before": each.leaders_before,
                "leaders_after": each.leaders_after,
            }
            for each in foreseen.shares
        ],
    }


def _file(assigned: list[tuple[PartitionId, Any]]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "partitions": [
            {"topic": id.topic, "partition": id.partition, "replicas": list(replicas)}
            for id, replicas in assigned
        ],
    }


def _named(ids: Any) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in ids]


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
