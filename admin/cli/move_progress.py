"""The progress of a move, as the commands that begin, show and await moves print it."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import Exit, say, show
from admin.units import show_duration, show_size

if TYPE_CHECKING:
    from msgspec import UnsetType

    from admin.capabilities.moves import DescribedMove, Move, MoveProgress, NewMove
    from admin.client.admin_client import AdminClient


POLL_SECONDS: Final = 0.5
"""The interval of a command that waits."""
LINE_SECONDS: Final = 5.0
"""The interval of its lines where there is no terminal."""


async def wait_for(
    client: "AdminClient",
    move_id: int,
    *,
    is_begun: bool = False,
    within_ms: int | None = None,
    output: str = "table",
) -> Exit:
    """Show the progress of a move on stderr until it has ended, or until `within_ms` is over.

    The wait outlives elections and outages. But if no node answers the first request, and the move
    is not known to have begun (`is_begun`), the command fails with `Unreachable`.
    """
    import asyncio

    from admin.capabilities.moves import DescribeMove
    from admin.client.admin_client import Unreachable

    now = asyncio.get_running_loop().time
    deadline = None if within_ms is None else now() + within_ms / 1_000
    display = _Progress(is_terminal=sys.stderr.isatty(), now=now)
    move: DescribedMove | None = None
    then = (
        f"`metaquorum moves show {move_id}` shows it, "
        f"`metaquorum moves wait {move_id}` waits again, "
        f"`metaquorum moves cancel {move_id}` cancels it."
    )
    try:
        # The first request has the time of the client, whose error names the nodes.
        bound = asyncio.timeout(None)
        async with bound:
            while move is None or not move.ended:
                try:
                    move = await client.ask(DescribeMove(move_id=move_id))
                except Unreachable as error:
                    if not is_begun:
                        raise
                    display.say(str(error))
                else:
                    if not move.ended:
                        display.show(move)
                is_begun = True
                bound.reschedule(deadline)
                if move is None or not move.ended:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        assert within_ms is not None
        waits_for = "" if move is None else display.unsaid(move)
        display.end()
        time = show_duration(within_ms)
        waits_for = waits_for and f" {waits_for}"
        say(f"Move {move_id} has not ended within {time}.{waits_for} It goes on: {then}")
        return Exit.NOT_FINISHED
    except asyncio.CancelledError:
        display.end()
        say(f"Move {move_id} goes on: {then}")
        raise
    display.end()
    show(move, output, lambda move: _sentence(move, f" is {move.state}"))
    return Exit.DONE if move.state == "completed" else Exit.FAILED


class _Progress:
    """The progress of a move: on a terminal one line that is overwritten, elsewhere a line every
    few seconds, if there is something new. A new reason why the move is stuck is shown at once."""

    def __init__(self, *, is_terminal: bool, now: Callable[[], float]) -> None:
        self._is_terminal = is_terminal
        self._now = now
        self._shown = ""
        self._next_line = now()
        self._said = ""
        self._is_open = False

    def show(self, move: "DescribedMove") -> None:
        """Show what is new about the move."""
        self.say(stuck(move))
        progress = _progress(move)
        if progress == self._shown:
            return
        if self._is_terminal:
            self._shown = progress
            click.echo(f"\r\x1b[K{progress}", err=True, nl=False)
            self._is_open = True
        elif self._now() >= self._next_line:
            self._next_line = self._now() + LINE_SECONDS
            self._shown = progress
            say(progress)

    def unsaid(self, move: "DescribedMove") -> str:
        """The reason why the move is stuck, or its progress; empty if it was shown last."""
        words = stuck(move) or _progress(move)
        return "" if words in (self._said, self._shown) else words

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
            self._is_open, self._shown = False, ""


def _progress(move: "DescribedMove") -> str:
    return f"{_sentence(move)} {left_to_copy(move)}"


def _sentence(move: "Move", state: str = "") -> str:
    return f"Move {move.move_id}{state}: of {move.partitions_total} partition(s) {counts(move)}."


def counts(move: "Move") -> str:
    """The partitions of a move by state, as part of a sentence."""
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
    rate, time_left = known(move.bytes_per_s, show_rate), known(move.time_left_ms, show_duration)
    words = f"Left to copy: {bytes_left(move)}{more}, at {rate}; time left: {time_left}."
    if not move.partitions_falling_behind:
        return words
    words += f" {move.partitions_falling_behind} partition(s) fall behind: writes exceed the copy"
    words += " rate."
    if not move.throttle_bytes_per_s:
        return words
    command = f"`metaquorum moves throttle {move.move_id} BYTES_PER_S`"
    return f"{words} Raise the limit with {command}; 0 removes it."


def bytes_left(move: "Move") -> str:
    """The bytes that a running move still has to copy, as far as they are known."""
    left = known(getattr(move, "bytes_left", None), show_size)
    return f"at least {left}" if getattr(move, "bytes_left_is_partial", False) else left


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


def known(value: "int | UnsetType | None", show: Callable[[int], str]) -> str:
    """The size, rate or time of a copy, as `show` writes it; "unknown" if there is none."""
    return show(value) if isinstance(value, int) else "unknown"


def show_rate(bytes_per_s: int) -> str:
    """The rate of a copy."""
    return f"{show_size(bytes_per_s)}/s"
