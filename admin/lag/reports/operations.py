"""The moves of metaquorum: what an operator asked for, and what has become of it.

Kafka has no such thing: there each partition is reassigned for itself (`moves`). Plain values, no
Spark.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from statemachine.vocabulary import MoveKind, MoveOutcome, MoveState

_LEFT: Final = ("completed", "cancelled", "superseded", "gone")
_TYPES: Final = ("MoveBegun", "MoveChanged", "MoveEnded")


def operations(
    records: Iterable[Mapping[str, Any]],
    partitions: Mapping[int, tuple[int, bool]],
    end_ms: int,
) -> list[dict[str, Any]]:
    """The report `operations`.

    `records` are those of the quorum's log in order, with their fields in `said`; `partitions` of
    each move how long its slowest partition took, and whether one is stuck.
    """
    found: dict[int, dict[str, Any]] = {}
    paused_since: dict[int, int] = {}
    for record in records:
        if record["type"] not in _TYPES:
            continue
        said, at_ms = record["said"], record["append_ms"]
        if record["type"] == "MoveBegun":
            found[said["id"]] = _begun(said, partitions.get(said["id"]))
        row = found.get(said["id"])
        if row is None:
            continue
        since_ms = paused_since.pop(said["id"], None)
        row["paused_ms"] += 0 if since_ms is None else at_ms - since_ms
        if record["type"] == "MoveChanged" and said["state"] != MoveState.RUNNING:
            paused_since[said["id"]] = at_ms
        if record["type"] == "MoveEnded":
            row["ended_ms"] = said["atMs"]
            row["outcome"] = MoveOutcome(said["outcome"]).name.lower()
            row |= {f"partitions_{name}": said[name] for name in _LEFT}
    for move_id, row in found.items():
        if move_id in paused_since:
            row["paused_ms"] += end_ms - paused_since[move_id]
            row["outcome"] = "paused"
        until_ms = end_ms if row["ended_ms"] is None else row["ended_ms"]
        row["duration_ms"] = max(0, until_ms - row["asked_ms"])
    return [found[move_id] for move_id in sorted(found)]


def _begun(said: Mapping[str, Any], of_partitions: tuple[int, bool] | None) -> dict[str, Any]:
    """A move of which no more is known than that it was asked for."""
    slowest_ms, is_stuck = (None, False) if of_partitions is None else of_partitions
    return {
        "move_id": said["id"],
        "kind": MoveKind(said["kind"]).name.lower(),
        "name": said.get("name", ""),
        "who": said["who"],
        "asked_ms": said["askedAtMs"],
        "ended_ms": None,
        "outcome": "stuck" if is_stuck else "running",
        "partitions_planned": said["partitions"],
        "partitions_refused": said["refused"],
        **{f"partitions_{name}": None for name in _LEFT},
        "paused_ms": 0,
        "slowest_partition_ms": slowest_ms,
    }
