"""The moves of metaquorum: the request of an operator and its outcome.

Kafka has no such concept; there each partition is reassigned by itself (`moves`). Plain values, no
Spark.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

TYPES: Final = ("MoveBegun", "MoveChanged", "MoveEnded", "MovesPaused")
"""The record types that are used."""
KINDS: Final = ("reassign", "drain", "rollback")
"""Names of the numbers in `kind`."""
OUTCOMES: Final = ("completed", "cancelled", "superseded", "gone")
"""Names of the numbers in `outcome`, and of the counts of partitions."""
RUNNING: Final = 0
"""The `state` of a move that is not paused."""


def operations(
    records: Iterable[Mapping[str, Any]],
    partitions: Mapping[int, tuple[int, bool]],
    end_ms: int,
) -> list[dict[str, Any]]:
    """The report `operations`.

    `records` are those of the quorum's log in order, with their fields in `said`; `partitions` has
    for each move the time of its slowest partition and whether one is stuck.
    """
    found: dict[int, _Operation] = {}
    all_paused, since_ms = False, 0
    for record in records:
        type_, said = record["type"], record["said"]
        if type_ == "MovesPaused":
            all_paused = said["paused"]
            since_ms = said["sinceMs"]
            for each in found.values():
                each.pause(since_ms, of_all=all_paused)
        elif type_ == "MoveBegun":
            begun = found[said["id"]] = _Operation(said, partitions.get(said["id"]))
            begun.pause(max(since_ms, said["askedAtMs"]), of_all=all_paused)
        elif type_ in TYPES and said["id"] in found:
            operation = found[said["id"]]
            if type_ == "MoveEnded":
                operation.end(said)
            else:
                operation.pause(said["sinceMs"], of_itself=said["state"] != RUNNING)
    return [found[move_id].row(end_ms) for move_id in sorted(found)]


class _Operation:
    """One move: its row, and its pauses."""

    def __init__(self, said: Mapping[str, Any], of_partitions: tuple[int, bool] | None) -> None:
        """`said` has the fields of its first record."""
        self._slowest_ms = None if of_partitions is None else of_partitions[0]
        self._is_stuck = of_partitions is not None and of_partitions[1]
        self._begun = said
        self._ended: Mapping[str, Any] | None = None
        self._of_itself = self._of_all = False
        self._since_ms: int | None = None
        self._paused_ms = 0

    def pause(
        self, at_ms: int, *, of_itself: bool | None = None, of_all: bool | None = None
    ) -> None:
        """Set or clear its own pause, or that of all moves."""
        self._of_itself = self._of_itself if of_itself is None else of_itself
        self._of_all = self._of_all if of_all is None else of_all
        is_paused = (self._of_itself or self._of_all) and self._ended is None
        if self._since_ms is not None and not is_paused:
            self._paused_ms += max(0, at_ms - self._since_ms)
            self._since_ms = None
        elif self._since_ms is None and is_paused:
            self._since_ms = at_ms

    def end(self, said: Mapping[str, Any]) -> None:
        """Its last partition has ended."""
        self._ended = said
        self.pause(said["atMs"])

    def row(self, end_ms: int) -> dict[str, Any]:
        """The row of a report that ends at `end_ms`."""
        said, ended, paused_ms = self._begun, self._ended, self._paused_ms
        if ended is not None:
            outcome = OUTCOMES[ended["outcome"]]
        elif self._since_ms is not None:
            outcome = "paused"
            paused_ms += max(0, end_ms - self._since_ms)
        else:
            outcome = "stuck" if self._is_stuck else "running"
        ended_ms = None if ended is None else ended["atMs"]
        until_ms = end_ms if ended_ms is None else ended_ms
        return {
            "move_id": said["id"],
            "kind": KINDS[said["kind"]],
            "name": said.get("name", ""),
            "who": said["who"],
            "asked_ms": said["askedAtMs"],
            "ended_ms": ended_ms,
            "duration_ms": max(0, until_ms - said["askedAtMs"]),
            "outcome": outcome,
            "partitions_planned": said["partitions"],
            "partitions_refused": said["refused"],
            **{f"partitions_{name}": None if ended is None else ended[name] for name in OUTCOMES},
            "paused_ms": paused_ms,
            "slowest_partition_ms": self._slowest_ms,
        }
