"""What `metaquorum moves` prints. Pure functions from answers to text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from admin.capabilities.moves import (
    DescribedMove,
    Move,
    MoveProgress,
    Moves,
    MovesChanged,
    MovingPartition,
    PartitionOutcome,
)
from admin.cli.output import columns
from admin.units import show_duration, show_size

_MOVES: Final = (
    "Move",
    "Kind",
    "State",
    "Partitions",
    "Done",
    "Stepping",
    "Waiting",
    "Priority",
    "Since",
    "AskedBy",
)
_PARTITIONS: Final = (
    "Partition",
    "Step",
    "State",
    "Since",
    "Replicas",
    "Target",
    "Left",
    "Rate",
    "TimeLeft",
    "Reason",
)
_OUTCOMES: Final = ("Partition", "Replicas")


def listed(found: Moves, *, running: bool) -> str:
    """What `list` prints."""
    shown = [each for each in found.moves if not (running and each.ended)]
    lines = all_paused(found)
    if shown:
        lines.append(columns(_MOVES, [_row(each) for each in shown]))
    else:
        lines.append("No moves are running." if running else "No moves are listed.")
    return "\n".join(lines)


def all_paused(found: Moves | DescribedMove) -> list[str]:
    """Who has paused all moves, which no move says of itself."""
    if found.all_paused is None:
        return []
    who, since = found.all_paused.by or "somebody", _time(found.all_paused.since_ms)
    return [f"All moves are paused by {who} since {since}."]


def _row(move: Move) -> tuple[object, ...]:
    return (
        move.move_id,
        move.kind,
        move.state,
        move.partitions_total,
        move.completed,
        move.stepping,
        move.waiting,
        move.priority,
        _time(move.since_ms),
        move.asked_by or "-",
    )


def shown(move: DescribedMove) -> str:
    """What `show` prints."""
    name = f" ({move.name})" if move.name else ""
    of = f" of move {move.rollback_of}" if move.rollback_of else ""
    by = f" by {move.changed_by}" if move.changed_by else ""
    why = f": {move.detail}" if move.detail else ""
    lines = [
        f"Move {move.move_id}{name}: {move.kind}{of}, asked for by {move.asked_by or 'somebody'} at"
        f" {_time(move.asked_at_ms)}, priority {move.priority}.",
        f"It is {move.state}{by} since {_time(move.since_ms)}{why}.",
        f"Of {move.partitions_total} partition(s) {_counted(move)}.",
    ]
    if move.refused:
        lines.append(f"{move.refused} more had been asked for, and were refused.")
    if move.throttle_bytes_per_s and not move.ended:
        rate = move.throttle_bytes_per_s
        lines.append(f"It copies at most {rate} bytes/s to each broker, and from each.")
    if move.throttle_lost:
        lost = ", ".join(move.throttle_lost)
        lines.append(f"Set by users since, and theirs: {lost}.")
    if not move.ended:
        lines.append(summary(move))
    if move.partitions:
        lines.append(columns(_PARTITIONS, [_partition(each) for each in move.partitions]))
    more = move.waiting + move.stepping - len(move.partitions)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def _counted(move: Move) -> str:
    words = [f"{move.completed} done"]
    for count, what in (
        (move.stepping, "with a step under way"),
        (move.waiting, "waiting"),
        (move.cancelled, "cancelled"),
        (move.superseded, "taken over by another move"),
        (move.gone, "deleted"),
    ):
        words += [f"{count} {what}"] if count else []
    return ", ".join(words)


def _partition(partition: MovingPartition) -> tuple[object, ...]:
    return (
        partition.id,
        f"{partition.step} of {partition.steps}",
        partition.state,
        _time(partition.since_ms),
        _brokers(partition.replicas),
        _brokers(partition.target_replicas),
        *cells(partition),
        partition.detail or partition.reason or "-",
    )


def altered(found: MovesChanged, done: str) -> str:
    """What `pause`, `resume` and `priority` print of the moves that it was done with."""
    ids = [each.move_id for each in found.moves if not each.kafka_error_code]
    if not ids:
        return ""
    several = "Moves" if len(ids) > 1 else "Move"
    return f"{several} {', '.join(map(str, ids))} {done}."


def cancelled(found: MovesChanged, *, dry_run: bool) -> str:
    """What `cancel` prints of the partitions that go back."""
    done = [each for each in found.partitions if not each.kafka_error_code]
    if not found.partitions_accepted:
        return "Nothing would be cancelled." if dry_run else "Nothing was cancelled."
    word = "would be cancelled; they would have" if dry_run else "are cancelled; they have now"
    lines = [f"{found.partitions_accepted} partition(s) {word}:"]
    lines.append(columns(_OUTCOMES, [(each.id, _brokers(each.replicas)) for each in done]))
    more = found.partitions_accepted - len(done)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def rolled_back(move_id: int, found: MovesChanged) -> str:
    """What `rollback` prints."""
    if not found.begun_move_id:
        if found.partitions_refused:
            return ""
        return f"Move {move_id}: its partitions have what they had before; nothing to roll back."
    if not found.partitions_accepted:
        return f"Move {move_id} is being rolled back by move {found.begun_move_id} already."
    count = found.partitions_accepted
    return f"Move {found.begun_move_id} rolls back move {move_id}: {count} partition(s)."


def would_roll_back(move_id: int, found: MovesChanged) -> str:
    """What `rollback --dry-run` prints of the partitions that would go back."""
    if not found.partitions_accepted:
        return rolled_back(move_id, found)
    done = [each for each in found.partitions if not each.kafka_error_code]
    lines = [
        f"{found.partitions_accepted} partition(s) would be rolled back;"
        " they would have in the end:"
    ]
    lines.append(columns(_OUTCOMES, [(each.id, _brokers(each.replicas)) for each in done]))
    more = found.partitions_accepted - len(done)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def refused(found: MovesChanged) -> str:
    """Every part of a request that was refused, a line each."""
    lines = [
        f"Error: {each.message or each.kafka_error}"
        for each in found.moves
        if each.kafka_error_code
    ]
    told = [each for each in found.partitions if each.kafka_error_code]
    lines += [f"Error: {_place(each)}{each.message or each.kafka_error}" for each in told]
    more = found.partitions_refused - len(told)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def _place(outcome: PartitionOutcome) -> str:
    return "" if outcome.partition is None else f"{outcome.id}: "


def _brokers(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def _time(at_ms: int) -> str:
    if not at_ms:
        return "-"
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


STUCK: Final = frozenset(
    {
        "all-paused",
        "move-paused",
        "hurt",
        "no-leader",
        "no-live-target",
        "not-registered",
        "falling-behind",
    }
)
"""Reasons that do not pass by themselves: somebody has to do something, or to come back."""


def progress(move: Move) -> str:
    """How far a move is that has not ended, in one line."""
    return f"Move {move.move_id}: of {move.partitions_total} partition(s) {_counted(move)}."


def hindered(move: DescribedMove) -> str:
    """Why a move does not go on with some of the partitions that are told of; empty if it does."""
    stuck = [each for each in move.partitions if each.reason in STUCK]
    if not stuck:
        return ""
    first = stuck[0]
    more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    with_all = len(stuck) == move.waiting + move.stepping
    what = "cannot go on" if with_all else f"cannot go on with {len(stuck)} partition(s)"
    return f"Move {move.move_id} {what}: {first.id}{more}: {first.detail or first.reason}."


def ended(move: Move) -> str:
    """How a move has ended, in one line."""
    total = move.partitions_total
    return f"Move {move.move_id} is {move.state}: of {total} partition(s) {_counted(move)}."


NOT_KNOWN = "unknown"


def cells(partition: MovingPartition) -> tuple[str, str, str]:
    """Bytes, rate and time of the step of a partition."""
    return (_size(partition.bytes_left), _rate(partition.bytes_per_s), _time_left(partition))


def summary(move: MoveProgress) -> str:
    """What is left of a whole move that runs, in a sentence."""
    if move.bytes_left is None:
        return "How much is left to copy is unknown."
    more = (
        f" and what {move.partitions_bytes_unknown} more partition(s) need"
        if move.partitions_bytes_unknown
        else ""
    )
    left, rate = _size(move.bytes_left), _rate(move.bytes_per_s)
    words = f"To be copied: {left}{more}, now at {rate}; time left: {_time_left(move)}."
    return f"{words} {_behind(move)}" if move.partitions_falling_behind else words


def _behind(move: MoveProgress) -> str:
    """What an operator has to know: it never ends by itself."""
    count = move.partitions_falling_behind
    words = f"{count} partition(s) fall behind: more is written than is copied."
    if not move.throttle_bytes_per_s:
        return words
    command = f"`metaquorum moves throttle {move.move_id} BYTES_PER_S`"
    return f"{words} Give it more: {command}, or 0 for no limit."


def _size(size_bytes: int | None) -> str:
    return NOT_KNOWN if size_bytes is None else show_size(size_bytes)


def _rate(bytes_per_s: int | None) -> str:
    return NOT_KNOWN if bytes_per_s is None else f"{show_size(bytes_per_s)}/s"


def _time_left(of: MoveProgress | MovingPartition) -> str:
    return NOT_KNOWN if of.time_left_ms is None else show_duration(of.time_left_ms)
