"""The output of `metaquorum moves`: progress while it waits, tables and sentences."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import Exit, say, write
from admin.cli.output import Columns, and_more, columns, ids
from admin.units import show_duration, show_size, show_time

if TYPE_CHECKING:
    from admin.capabilities.moves import (
        DescribedMove,
        Move,
        MoveProgress,
        Moves,
        MovesChanged,
        MovingPartition,
        NewMove,
        PartitionError,
        PartitionResult,
    )
    from admin.capabilities.schema import Result
    from admin.client.admin_client import AdminClient


POLL_SECONDS: Final = 0.5
"""The interval of a command that waits."""


async def wait_for(client: "AdminClient", move_id: int) -> Exit:
    """Show the progress of a move on stderr until it has ended, elections included."""
    import asyncio

    from admin.capabilities.moves import DescribeMove
    from admin.client.admin_client import Unreachable

    display = _Progress(is_terminal=sys.stderr.isatty())
    while True:
        try:
            move = await client.ask(DescribeMove(move_id=move_id))
        except Unreachable as error:
            display.say(str(error))
        else:
            if move.ended:
                display.end()
                write(_sentence(move, f" is {move.state}"))
                return Exit.DONE if move.state == "completed" else Exit.FAILED
            display.show(move)
        await asyncio.sleep(POLL_SECONDS)


class _Progress:
    """The progress of a move: on a terminal one line that is overwritten, elsewhere a line for
    every tenth. A new reason why the move is stuck is shown at once; nothing is repeated."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._progress = ""
        self._tenth = -1
        self._said = ""
        self._is_open = False

    def show(self, move: "DescribedMove") -> None:
        """Show what is new about the move."""
        self.say(stuck(move))
        progress = _sentence(move)
        tenth = 10 * (move.partitions_total - move.waiting - move.stepping) // move.partitions_total
        if self._is_terminal and progress != self._progress:
            click.echo(f"\r\x1b[K{progress}", err=True, nl=False)
            self._is_open = True
        elif not self._is_terminal and tenth != self._tenth:
            say(progress)
        self._progress, self._tenth = progress, tenth

    def say(self, words: str) -> None:
        """Print a line, unless it repeats the last one."""
        if words and words != self._said:
            self.end()
            say(words)
        self._said = words

    def end(self) -> None:
        """End the line that is being overwritten."""
        if self._is_open:
            say("")
        self._is_open = False
        self._progress = ""


_MOVES: Final["Columns[Move]"] = {
    "Move": lambda move: move.move_id,
    "Kind": lambda move: move.kind,
    "State": lambda move: move.state,
    "Partitions": lambda move: move.partitions_total,
    "Done": lambda move: move.completed,
    "Stepping": lambda move: move.stepping,
    "Waiting": lambda move: move.waiting,
    "Priority": lambda move: move.priority,
    "Since": lambda move: _time(move.since_ms),
    "AskedBy": lambda move: move.asked_by or "-",
}
_PARTITIONS: Final["Columns[MovingPartition]"] = {
    "Partition": lambda each: each.id,
    "Step": lambda each: f"{each.step} of {each.steps}",
    "State": lambda each: each.state,
    "Since": lambda each: _time(each.since_ms),
    "Replicas": lambda each: ids(each.replicas),
    "Target": lambda each: ids(each.target_replicas),
    "Left": lambda each: _size(each.bytes_left),
    "Rate": lambda each: _rate(each.bytes_per_s),
    "TimeLeft": lambda each: _time_left(each),
    "Reason": lambda each: each.detail or each.reason or "-",
}
_OUTCOMES: Final["Columns[PartitionResult]"] = {
    "Partition": lambda each: each.id,
    "Replicas": lambda each: ids(each.replicas),
}


def listed(found: "Moves", *, running: bool) -> str:
    """The output of `list`."""
    none = "No moves are running." if running else "No moves are listed."
    table = columns(found.moves, _MOVES) if found.moves else none
    return "\n".join([*_all_paused(found), table])


def _all_paused(found: "Moves | DescribedMove") -> list[str]:
    """A line about a pause of all moves, if there is one."""
    if found.all_paused is None:
        return []
    user, since = found.all_paused.by or "an unknown user", _time(found.all_paused.since_ms)
    return [f"All moves are paused by {user} since {since}."]


def move_details(move: "DescribedMove") -> str:
    """The output of `show`."""
    name = f" ({move.name})" if move.name else ""
    of = f" of move {move.rollback_of}" if move.rollback_of else ""
    by = f" by {move.changed_by}" if move.changed_by else ""
    why = f": {move.detail}" if move.detail else ""
    lines = [] if move.ended else _all_paused(move)
    lines += [
        f"Move {move.move_id}{name}: {move.kind}{of}, requested by"
        f" {move.asked_by or 'an unknown user'} at {_time(move.asked_at_ms)},"
        f" priority {move.priority}.",
        f"It is {move.state}{by} since {_time(move.since_ms)}{why}.",
        f"Of {move.partitions_total} partition(s) {_counts(move)}.",
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
        lines.append(left_to_copy(move))
    if move.partitions:
        lines.append(columns(move.partitions, _PARTITIONS))
    return "\n".join([*lines, *and_more(move.waiting + move.stepping - len(move.partitions))])


def _sentence(move: "Move", state: str = "") -> str:
    return f"Move {move.move_id}{state}: of {move.partitions_total} partition(s) {_counts(move)}."


def _counts(move: "Move") -> str:
    counts = (
        (move.stepping, "in progress"),
        (move.waiting, "waiting"),
        (move.cancelled, "cancelled"),
        (move.superseded, "superseded by another move"),
        (move.gone, "deleted"),
    )
    return ", ".join(
        [f"{move.completed} done", *(f"{count} {state}" for count, state in counts if count)]
    )


def altered(found: "MovesChanged", done: str) -> str:
    """The output of `pause`, `resume`, `priority` and `throttle`."""
    changed = [str(each.move_id) for each in found.moves if not each.kafka_error_code]
    if not changed:
        return ""
    return f"{'Moves' if len(changed) > 1 else 'Move'} {', '.join(changed)} {done}."


def cancelled(found: "MovesChanged", *, dry_run: bool) -> str:
    """The output of `cancel`."""
    if not found.partitions_accepted:
        return "Nothing would be cancelled." if dry_run else "Nothing was cancelled."
    done = "would be cancelled, with these replicas" if dry_run else "cancelled; replicas now"
    return outcomes(found, done)


def rolled_back(move_id: int, found: "MovesChanged") -> str:
    """The output of `rollback`."""
    if not found.begun_move_id:
        if found.partitions_refused:
            return ""
        return f"Move {move_id}: nothing to roll back; the partitions have their previous replicas."
    if not found.partitions_accepted:
        return f"Move {found.begun_move_id} is already rolling back move {move_id}."
    count = found.partitions_accepted
    return f"Move {found.begun_move_id} rolls back move {move_id}: {count} partition(s)."


def outcomes(found: "MovesChanged", done: str) -> str:
    """The accepted partitions with their replicas."""
    named = [each for each in found.partitions if not each.kafka_error_code]
    lines = [f"{found.partitions_accepted} partition(s) {done}:", columns(named, _OUTCOMES)]
    return "\n".join([*lines, *and_more(found.partitions_accepted - len(named))])


def refused(found: "MovesChanged") -> Iterator[str]:
    """The errors of a request, one per line."""
    yield from refused_parts(found.moves)
    partitions = [each for each in found.partitions if each.kafka_error_code]
    yield from refused_partitions(partitions, found.partitions_refused)


def refused_parts(results: "Iterable[Result]") -> Iterator[str]:
    """The errors of the parts of a request that were refused."""
    for each in results:
        if each.kafka_error_code:
            yield f"Error: {each.message or each.kafka_error}"


def refused_partitions(named: "Sequence[PartitionError]", total: int) -> Iterator[str]:
    """The errors of partitions, of which the answer names some."""
    for each in named:
        partition = "" if each.partition is None else f"{each.id}: "
        yield f"Error: {partition}{each.message or each.kafka_error}"
    yield from and_more(total - len(named))


def _time(at_ms: int) -> str:
    return show_time(at_ms) if at_ms else "-"


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


def stuck(move: "DescribedMove") -> str:
    """One line about partitions that are stuck; empty if there are none."""
    found = [each for each in move.partitions if each.reason in STUCK]
    if not found:
        return ""
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    is_all = len(found) == move.waiting + move.stepping
    what = "is stuck" if is_all else f"is stuck with {len(found)} partition(s)"
    return f"Move {move.move_id} {what}: {first.id}{more}: {first.detail or first.reason}."


def left_to_copy(move: "MoveProgress") -> str:
    """One sentence about the bytes that a running move still has to copy."""
    if move.bytes_left is None:
        return "Bytes left to copy: unknown."
    unknown = move.partitions_bytes_unknown
    more = f" plus {unknown} partition(s) of unknown size" if unknown else ""
    left, rate = _size(move.bytes_left), _rate(move.bytes_per_s)
    words = f"Left to copy: {left}{more}, at {rate}; time left: {_time_left(move)}."
    if not move.partitions_falling_behind:
        return words
    words += f" {move.partitions_falling_behind} partition(s) fall behind: writes exceed the copy"
    words += " rate."
    if not move.throttle_bytes_per_s:
        return words
    command = f"`metaquorum moves throttle {move.move_id} BYTES_PER_S`"
    return f"{words} Raise the limit with {command}; 0 removes it."


def throttled(move: "Move", asked: "NewMove[Any]") -> str:
    """One sentence about the throttle of a move; one that began earlier may have another one."""
    rate, wanted = move.throttle_bytes_per_s, asked.throttle_bytes_per_s
    if rate == wanted:
        return f"Move {move.move_id} is throttled to {rate} bytes/s to and from each broker."
    now = f"is throttled to {rate} bytes/s" if rate else "is not throttled"
    return (
        f"Move {move.move_id} was started earlier and {now};"
        f" `metaquorum moves throttle {move.move_id} {wanted}` changes this."
    )


def throttled_as_by_kafka(move: "Move") -> str:
    """The throttle of a move, in the words of Kafka's script."""
    rate = move.throttle_bytes_per_s
    if not rate:
        return "The move was already running without a throttle; see metaquorum moves throttle"
    return f"The inter-broker throttle limit was set to {rate} B/s until the move has ended"


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else show_size(size_bytes)


def _rate(bytes_per_s: int | None) -> str:
    return "unknown" if bytes_per_s is None else f"{show_size(bytes_per_s)}/s"


def _time_left(of: "MoveProgress | MovingPartition") -> str:
    return "unknown" if of.time_left_ms is None else show_duration(of.time_left_ms)
