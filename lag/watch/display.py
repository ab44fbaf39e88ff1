"""The table of `metaquorum lag watch`: in place on a terminal, printed elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from lag.output.scales import columns
from lag.units import show_clock, show_count, show_span
from lag.watch.positions import Position

if TYPE_CHECKING:
    from rich.live import Live

TITLES: Final = ("replica", "status", "epoch", "log end", "behind", "lag", "records/s", "appended")
_STYLES: Final = {"OK": "green", "WARN": "yellow"}


def cells(standing: Position) -> tuple[str, ...]:
    """A row of the table."""
    return (
        standing.replica,
        standing.status,
        str(standing.epoch),
        str(standing.log_end),
        show_count(standing.behind),
        show_span(standing.lag_ms),
        show_count(round(standing.records_per_s, 1)),
        show_clock(standing.appended_ms),
    )


class Table:
    """A display, used as a context."""

    def __init__(self, *, live: bool) -> None:
        """With `live` it draws in place."""
        self._live: Live | None = _live() if live else None
        self._last = ""

    def __enter__(self) -> "Table":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def ready(self) -> None:
        """Say that Spark has started."""
        if self._live is not None:
            self._live.update("Reading the logs.")

    def show(self, standings: Sequence[Position]) -> None:
        """Draw the table; without a terminal print it if it changed."""
        rows = [cells(standing) for standing in standings]
        if self._live is not None:
            self._live.update(_drawn(rows), refresh=True)
            return
        text = columns(TITLES, rows)
        if text != self._last:
            self._last = text
            click.echo(f"{text}\n")


def _live() -> "Live":
    from rich.live import Live

    return Live("Starting Spark.", refresh_per_second=4, transient=False)


def _drawn(rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=None, header_style="bold")
    for title in TITLES:
        is_word = title in ("replica", "status")
        table.add_column(title, justify="left" if is_word else "right")
    for row in rows:
        status = Text(row[1], style=_STYLES.get(row[1], "red"))
        # As text, so that a name with brackets is no markup.
        table.add_row(Text(row[0]), status, *row[2:])
    return table
