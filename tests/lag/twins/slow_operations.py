"""A second account of our moves: each pause as a range of time, counted in ms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from statemachine.records import own_records
from tests.lag.twins.slow_reading import SlowRecord

KINDS: Final = ("reassign", "drain", "rollback")
OUTCOMES: Final = ("completed", "cancelled", "superseded", "gone")
RUNNING: Final = 0


def told(
    log: Sequence[SlowRecord], moves: Iterable[Mapping[str, Any]], end_ms: int
) -> list[dict[str, Any]]:
    """The table `operations`; `moves` is that table, as the twin has it."""
    of_move: dict[int, list[Mapping[str, Any]]] = {}
    for row in moves:
        of_move.setdefault(row["move_id"], []).append(row)
    begun = [each.said for each in log if isinstance(each.said, own_records.MoveBegun)]
    return [
        _told(log, said, of_move.get(said.id, []), end_ms)
        for said in sorted(begun, key=lambda said: said.id)
    ]


def _told(
    log: Sequence[SlowRecord],
    said: own_records.MoveBegun,
    parts: Sequence[Mapping[str, Any]],
    end_ms: int,
) -> dict[str, Any]:
    ended = next(
        (
            each.said
            for each in log
            if isinstance(each.said, own_records.MoveEnded) and each.said.id == said.id
        ),
        None,
    )
    until_ms = end_ms if ended is None else ended.at_ms
    own = _stretches(_said_of(log, said.id), until_ms)
    of_all = _stretches(_said_of_all(log), until_ms)
    paused = {
        t_ms for low, high in (*own, *of_all) for t_ms in range(max(low, said.asked_at_ms), high)
    }
    is_paused = any(high == until_ms for _, high in (*own, *of_all))
    if ended is not None:
        outcome = OUTCOMES[ended.outcome]
    elif is_paused:
        outcome = "paused"
    else:
        outcome = "stuck" if any(row["outcome"] == "stuck" for row in parts) else "running"
    return {
        "move_id": said.id,
        "kind": KINDS[said.kind],
        "name": said.name,
        "who": said.who,
        "asked_ms": said.asked_at_ms,
        "ended_ms": None if ended is None else ended.at_ms,
        "duration_ms": until_ms - said.asked_at_ms,
        "outcome": outcome,
        "partitions_planned": said.partitions,
        "partitions_refused": said.refused,
        "partitions_completed": None if ended is None else ended.completed,
        "partitions_cancelled": None if ended is None else ended.cancelled,
        "partitions_superseded": None if ended is None else ended.superseded,
        "partitions_gone": None if ended is None else ended.gone,
        "paused_ms": len(paused),
        "slowest_partition_ms": max((row["duration_ms"] for row in parts), default=None),
    }


def _said_of(log: Sequence[SlowRecord], move_id: int) -> list[tuple[int, bool]]:
    """Since when the move has been paused by itself, or not any more."""
    return [
        (each.said.since_ms, each.said.state != RUNNING)
        for each in log
        if isinstance(each.said, own_records.MoveChanged) and each.said.id == move_id
    ]


def _said_of_all(log: Sequence[SlowRecord]) -> list[tuple[int, bool]]:
    return [
        (each.said.since_ms, each.said.paused)
        for each in log
        if isinstance(each.said, own_records.MovesPaused)
    ]


def _stretches(said: Sequence[tuple[int, bool]], until_ms: int) -> list[tuple[int, int]]:
    """The times of pauses, each up to what was said next, or to the end of the move."""
    ends = [*(at_ms for at_ms, _ in said[1:]), until_ms]
    return [
        (at_ms, min(end_ms, until_ms))
        for (at_ms, is_paused), end_ms in zip(said, ends, strict=False)
        if is_paused and at_ms < until_ms
    ]
