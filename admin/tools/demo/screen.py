"""The output of the demo: plain lines, and on a terminal a live progress bar."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from admin.model import PartitionId
from admin.tools.demo.observers import Copy
from admin.units import show_size
from quorum.clocks import monotonic_ms

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_EVERY_MS: Final = 1_000
INDENT: Final = "   "


class Screen:
    """The output of one demo. Steps are numbered as they come."""

    def __init__(self, *, live: bool) -> None:
        """`live` draws progress in place; otherwise a line is printed now and then."""
        self._live = live
        self._step = 0

    def step(self, title: str) -> None:
        """Begin the next part of the story."""
        self._step += 1
        click.echo(click.style(f"\n{self._step}. {title}", bold=True))

    def say(self, text: str) -> None:
        """Print lines that belong to the step."""
        for line in text.splitlines():
            click.echo(f"{INDENT}{line}" if line else "")

    def moving(self) -> "Moving":
        """The display of a move; use it as a context."""
        return Moving(self, live=self._live)


class Moving:
    """The progress of a move: a bar for each new replica, or a line a second."""

    def __init__(self, screen: Screen, *, live: bool) -> None:
        self._screen = screen
        self._bars: Progress | None = None
        self._tasks: dict[tuple[PartitionId, int], TaskID] = {}
        self._context: AbstractContextManager[object] = nullcontext()
        self._last_ms: int | None = None
        if live:
            self._bars = self._context = _bars()

    def __enter__(self) -> "Moving":
        self._context.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def show(self, copies: Sequence[Copy], active: int) -> None:
        """Show how far the copies are while `active` partitions are under way."""
        if self._bars is not None:
            self._draw(self._bars, copies)
            return
        now_ms = monotonic_ms()
        if self._last_ms is not None and now_ms - self._last_ms < LINE_EVERY_MS and active:
            return
        self._last_ms = now_ms
        copied = sum(copy.copied_bytes for copy in copies)
        whole = sum(max(copy.whole_bytes, copy.copied_bytes) for copy in copies)
        self._screen.say(
            f"{active} of {len(copies)} partitions are moving, "
            f"{show_size(copied)} of {show_size(whole)} copied"
        )

    def say(self, text: str) -> None:
        """Print a line beside the progress."""
        if self._bars is not None:
            self._bars.console.print(f"{INDENT}{text}", highlight=False)
        else:
            self._screen.say(text)

    def _draw(self, bars: "Progress", copies: Sequence[Copy]) -> None:
        for copy in copies:
            key = (copy.id, copy.broker)
            if key not in self._tasks:
                self._tasks[key] = bars.add_task(f"{copy.id} to broker {copy.broker}")
            # The old leader's log goes when the move is complete; the copy is then the whole.
            whole = max(copy.whole_bytes, copy.copied_bytes)
            bars.update(self._tasks[key], completed=copy.copied_bytes, total=whole)


def _bars() -> "Progress":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    name = TextColumn(INDENT + "{task.description}")
    return Progress(name, BarColumn(), DownloadColumn(binary_units=True))
