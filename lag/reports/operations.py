"""The moves of metaquorum: the request of an operator and its outcome.

Kafka has no such concept; there each partition is reassigned by itself (`moves`). Plain values, no
Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lag.reports.holes import NONE, Holes, names
from lag.reports.quorum_log import Hole

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
    partitions: Mapping[int, tuple[int | None, bool]],
    end_ms: int,
    holes: Holes = NONE,
) -> list[dict[str, Any]]:
    """The report `operations`.

    `records` are those of the quorum's log in order, with their fields in `said`; `partitions` has
    for each move the time of its slowest partition and whether one is stuck. What a hole may hide
    of a move that was in progress is unknown.
    """
    moves = _Operations(partitions)
    left = list(holes.holes)
    for record in records:
        while left and left[0].first <= record["offset"]:
            moves.hide(left.pop(0))
        moves.take(record)
    for hole in left:
        moves.hide(hole)
    return [moves.found[move_id].row(end_ms) for move_id in sorted(moves.found)]


class _Operations:
    """All moves so far."""

    def __init__(self, partitions: Mapping[int, tuple[int | None, bool]]) -> None:
        self.found: dict[int, _Operation] = {}
        self._partitions = partitions
        self._all_paused, self._since_ms = False, 0
        self._hidden: list[Hole] = []
        """The holes since it was last said whether all moves are paused,"""
        self._earlier: list[Hole] = []
        """and all."""

    def take(self, record: Mapping[str, Any]) -> None:
        """The next record."""
        type_, said = record["type"], record["said"]
        if type_ == "MovesPaused":
            self._all_paused, self._since_ms, self._hidden = said["paused"], said["sinceMs"], []
            for each in self.found.values():
                each.pause(self._since_ms, of_all=self._all_paused)
        elif type_ == "MoveBegun":
            of_partitions = self._partitions.get(said["id"])
            is_unsure = of_partitions is not None and of_partitions[0] is None
            hidden = self._earlier if is_unsure else self._hidden
            begun = _Operation(said, of_partitions, hidden, is_paused_known=not self._hidden)
            begun.pause(max(self._since_ms, said["askedAtMs"]), of_all=self._all_paused)
            self.found[said["id"]] = begun
        elif type_ in TYPES and said["id"] in self.found:
            operation = self.found[said["id"]]
            if type_ == "MoveEnded":
                operation.end(said)
            else:
                operation.pause(said["sinceMs"], of_itself=said["state"] != RUNNING)

    def hide(self, hole: Hole) -> None:
        """The next records are lost."""
        self._hidden.append(hole)
        self._earlier.append(hole)
        for each in self.found.values():
            each.hide(hole)


class _Operation:
    """One move: its row, and its pauses."""

    def __init__(
        self,
        said: Mapping[str, Any],
        of_partitions: tuple[int | None, bool] | None,
        hidden: Sequence[Hole],
        *,
        is_paused_known: bool,
    ) -> None:
        """`said` has the fields of its first record; `hidden` are the holes before that it rests
        on. `is_paused_known` is false if they may hide a pause of all moves."""
        self._holes = list(hidden)
        self._is_paused_known = is_paused_known
        self._within: list[Hole] = []
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

    def hide(self, hole: Hole) -> None:
        """Note a hole in which it may have gone on."""
        if self._ended is None:
            self._within.append(hole)

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
        row = {
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
            "hole": names((*self._holes, *self._within)),
        }
        if self._within or not self._is_paused_known:
            row["paused_ms"] = None
            if ended is None:
                row["outcome"] = "unknown"
        if self._within:
            row["slowest_partition_ms"] = None
            if ended is None:
                row["duration_ms"] = None
        return row
