"""The output of `metaquorum moves`. Pure functions from answers to text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from admin.capabilities.moves import (
    DescribedMove,
    Move,
    MoveProgress,
    Moves,
    MovesChanged,
    MovingPartition,
    NewMove,
    PartitionResult,
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
    """The output of `list`."""
    listed_moves = [each for each in found.moves if not (running and each.ended)]
    lines = all_paused(found)
    if listed_moves:
        lines.append(columns(_MOVES, [_row(each) for each in listed_moves]))
    else:
        lines.append("No moves are running." if running else "No moves are listed.")
    return "\n".join(lines)


def all_paused(found: Moves | DescribedMove) -> list[str]:
    """A line about a pause of all moves, if there is one."""
    if found.all_paused is None:
        return []
    who, since = found.all_paused.by or "an unknown user", _time(found.all_paused.since_ms)
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


def move_details(move: DescribedMove) -> str:
    """The output of `show`."""
    name = f" ({move.name})" if move.name else ""
    of = f" of move {move.rollback_of}" if move.rollback_of else ""
    by = f" by {move.changed_by}" if move.changed_by else ""
    why = f": {move.detail}" if move.detail else ""
    lines = [
        f"Move {move.move_id}{name}: {move.kind}{of}, requested by"
        f" {move.asked_by or 'an unknown user'} at {_time(move.asked_at_ms)},"
        f" priority {move.priority}.",
        f"It is {move.state}{by} since {_time(move.since_ms)}{why}.",
        f"Of {move.partitions_total} partition(s) {_counted(move)}.",
    ]
    if move.refused:
        lines.append(f"{move.refused} more partition(s) were requested and refused.")
    if move.throttle_bytes_per_s and not move.ended:
        rate = move.throttle_bytes_per_s
        lines.append(f"Throttle: {rate} bytes/s to and from each broker.")
    if move.throttle_lost:
        lost = ", ".join(move.throttle_lost)
        lines.append(f"Throttle configs changed by users since, and left alone: {lost}.")
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
        (move.stepping, "in progress"),
        (move.waiting, "waiting"),
        (move.cancelled, "cancelled"),
        (move.superseded, "superseded by another move"),
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
    """The output of `pause`, `resume` and `priority`."""
    ids = [each.move_id for each in found.moves if not each.kafka_error_code]
    if not ids:
        return ""
    several = "Moves" if len(ids) > 1 else "Move"
    return f"{several} {', '.join(map(str, ids))} {done}."


def cancelled(found: MovesChanged, *, dry_run: bool) -> str:
    """The output of `cancel`."""
    done = [each for each in found.partitions if not each.kafka_error_code]
    if not found.partitions_accepted:
        return "Nothing would be cancelled." if dry_run else "Nothing was cancelled."
    word = "would be cancelled, with these replicas" if dry_run else "cancelled; replicas now"
    lines = [f"{found.partitions_accepted} partition(s) {word}:"]
    lines.append(columns(_OUTCOMES, [(each.id, _brokers(each.replicas)) for each in done]))
    more = found.partitions_accepted - len(done)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def rolled_back(move_id: int, found: MovesChanged) -> str:
    """The output of `rollback`."""
    if not found.begun_move_id:
        if found.partitions_refused:
            return ""
        return f"Move {move_id}: nothing to roll back; the partitions have their previous replicas."
    if not found.partitions_accepted:
        return f"Move {found.begun_move_id} is already rolling back move {move_id}."
    count = found.partitions_accepted
    return f"Move {found.begun_move_id} rolls back move {move_id}: {count} partition(s)."


def would_roll_back(move_id: int, found: MovesChanged) -> str:
    """The output of `rollback --dry-run`."""
    if not found.partitions_accepted:
        return rolled_back(move_id, found)
    done = [each for each in found.partitions if not each.kafka_error_code]
    lines = [f"{found.partitions_accepted} partition(s) would be rolled back, to these replicas:"]
    lines.append(columns(_OUTCOMES, [(each.id, _brokers(each.replicas)) for each in done]))
    more = found.partitions_accepted - len(done)
    if more > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def refused(found: MovesChanged) -> str:
    """The errors of a request, one per line."""
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


def _place(outcome: PartitionResult) -> str:
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
"""Reasons to wait that need an operator, or a broker to come back."""


def progress(move: Move) -> str:
    """One line about the progress of a running move."""
    return f"Move {move.move_id}: of {move.partitions_total} partition(s) {_counted(move)}."


def hindered(move: DescribedMove) -> str:
    """One line about partitions that are stuck; empty if there are none."""
    stuck = [each for each in move.partitions if each.reason in STUCK]
    if not stuck:
        return ""
    first = stuck[0]
    more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    with_all = len(stuck) == move.waiting + move.stepping
    what = "is stuck" if with_all else f"is stuck with {len(stuck)} partition(s)"
    return f"Move {move.move_id} {what}: {first.id}{more}: {first.detail or first.reason}."


def ended(move: Move) -> str:
    """One line about the end of a move."""
    total = move.partitions_total
    return f"Move {move.move_id} is {move.state}: of {total} partition(s) {_counted(move)}."


NOT_KNOWN = "unknown"


def cells(partition: MovingPartition) -> tuple[str, str, str]:
    """The cells for bytes left, rate and time left of a partition."""
    return (_size(partition.bytes_left), _rate(partition.bytes_per_s), _time_left(partition))


def summary(move: MoveProgress) -> str:
    """One sentence about what a running move still has to copy."""
    if move.bytes_left is None:
        return "Bytes left to copy: unknown."
    more = (
        f" plus {move.partitions_bytes_unknown} partition(s) of unknown size"
        if move.partitions_bytes_unknown
        else ""
    )
    left, rate = _size(move.bytes_left), _rate(move.bytes_per_s)
    words = f"Left to copy: {left}{more}, at {rate}; time left: {_time_left(move)}."
    return f"{words} {_behind(move)}" if move.partitions_falling_behind else words


def _behind(move: MoveProgress) -> str:
    """A warning that a move cannot finish at its present rate."""
    count = move.partitions_falling_behind
    words = f"{count} partition(s) fall behind: writes exceed the copy rate."
    if not move.throttle_bytes_per_s:
        return words
    command = f"`metaquorum moves throttle {move.move_id} BYTES_PER_S`"
    return f"{words} Raise the limit with {command}; 0 removes it."


def throttled(move: Move, asked: NewMove[Any]) -> str:
    """One sentence about the throttle of a move; one that began earlier may have another one."""
    rate, wanted = move.throttle_bytes_per_s, asked.throttle_bytes_per_s
    if rate == wanted:
        return f"Move {move.move_id} is throttled to {rate} bytes/s to and from each broker."
    now = f"is throttled to {rate} bytes/s" if rate else "is not throttled"
    return (
        f"Move {move.move_id} was started earlier and {now};"
        f" `metaquorum moves throttle {move.move_id} {wanted}` changes this."
    )


def throttled_as_by_kafka(move: Move) -> str:
    """The throttle of a move, in the words of Kafka's script."""
    rate = move.throttle_bytes_per_s
    if not rate:
        return "The move was already running without a throttle; see metaquorum moves throttle"
    return f"The inter-broker throttle limit was set to {rate} B/s until the move has ended"


def _size(size_bytes: int | None) -> str:
    return NOT_KNOWN if size_bytes is None else show_size(size_bytes)


def _rate(bytes_per_s: int | None) -> str:
    return NOT_KNOWN if bytes_per_s is None else f"{show_size(bytes_per_s)}/s"


def _time_left(of: MoveProgress | MovingPartition) -> str:
    return NOT_KNOWN if of.time_left_ms is None else show_duration(of.time_left_ms)
