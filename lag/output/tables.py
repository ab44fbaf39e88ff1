"""Tables of the page: fields that turn the rows of a result into cells.

A cell is text or a number, or one of the values below that the templates draw.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lag.results import Results, Row, Rows
from lag.units import show_bytes, show_clock, show_count, show_span, show_time

ROWS_MAX: Final = 200
"""The rows of a table that the page shows; the files have all of them."""


class Badge(NamedTuple):
    """A word on a coloured ground."""

    tone: str
    """`good`, `warn`, `bad` or `grey`."""
    text: str
    kind: str = "badge"


class Chips(NamedTuple):
    """Ids in boxes, each with its CSS classes."""

    chips: Sequence[tuple[int, str]]
    kind: str = "chips"


class Hinted(NamedTuple):
    """A text with a longer one as its tooltip."""

    text: str
    hint: str
    kind: str = "hinted"


class Field(NamedTuple):
    """A column of a table on the page."""

    title: str
    show: Callable[[Row], object]
    kind: str = ""
    """A CSS class: `number`, `time`, `text` or none."""


class TableView(NamedTuple):
    """A table as the template takes it."""

    fields: Sequence[Field]
    rows: Sequence[Sequence[tuple[Field, object]]]
    left: int
    """The number of rows that are not shown."""
    name: str


def table(rows: Rows, fields: Sequence[Field], *, name: str) -> TableView:
    """The first rows as cells; `name` is that of the result."""
    shown = [[(field, field.show(row)) for field in fields] for row in rows[:ROWS_MAX]]
    return TableView(fields, shown, max(0, len(rows) - ROWS_MAX), name)


def count(title: str, name: str) -> Field:
    """A number."""
    return Field(title, lambda row: show_count(row[name]), "number")


def span(title: str, name: str) -> Field:
    """A duration."""
    return Field(title, lambda row: show_span(row[name]), "number")


def time(title: str, name: str, results: Results, without: str = "unknown") -> Field:
    """A moment, without its day if all are on one day; `without` stands for none."""
    show = show_clock if results.is_within_a_day else show_time
    return Field(title, lambda row: without if row[name] is None else show(row[name]), "time")


def size(title: str, name: str) -> Field:
    """A size in bytes."""
    return Field(title, lambda row: show_bytes(row[name]), "number")


def plain(title: str, name: str, kind: str = "") -> Field:
    """A text, or ids separated by commas."""
    return Field(title, lambda row: show_value(row[name]), kind)


def rests_on(results: Results) -> list[Field]:
    """The holes that a row rests on, if the log has any."""
    if not results.rows("holes"):
        return []
    return [Field("rests on hole", lambda row: row["hole"] or "–")]


def verdict(title: str, name: str) -> Field:
    """A word as a badge."""
    return Field(title, lambda row: badge(row[name]))


def show_value(value: Any) -> str:
    """A value as text; ids separated by commas, "unknown" for None."""
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(item) for item in value) or "none"
        case _:
            return str(value)


def log_range(row: Row) -> str:
    """The first offset of a log, and its end."""
    return f"{show_value(row['log_start'])} – {show_value(row['log_end'])}"


_TONES: Final = {
    **dict.fromkeys(("OK", "completed", "unfenced", "agree", "leading", "exists"), "good"),
    **dict.fromkeys(("WARN", "running", "paused", "stopping", "one-sided", "registered"), "warn"),
    **dict.fromkeys(("ERR", "STALLED", "STOPPED", "stuck", "fenced", "stepped"), "bad"),
    **dict.fromkeys(("ahead", "behind"), "warn"),
}


def badge(word: object, text: str | None = None) -> Badge:
    """A word, or a text about it, in the colour of the word."""
    return Badge(_TONES.get(str(word), "grey"), text or show_value(word))


def chips(before: Sequence[int], after: Sequence[int]) -> Chips:
    """The ids in `after`, new ones marked, then those that were only in `before`."""
    shown = [(id_, "chip" if id_ in before else "chip added") for id_ in after]
    return Chips([*shown, *((id_, "chip removed") for id_ in before if id_ not in after)])
