"""Tables, badges and legends of the page, out of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lag.output.scales import show_bytes, show_clock, show_count, show_span, show_time
from lag.output.svg import Markup, el, join
from lag.results import Results, Row, Rows

ROWS_MAX: Final = 200
"""How many rows of a table the page shows; the files have all of them."""

Shown = Callable[[Row], object]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table on the page."""

    title: str
    show: Shown
    kind: str = ""


def count(title: str, name: str) -> Field:
    """A number."""
    return Field(title, lambda row: show_count(row[name]), "number")


def span(title: str, name: str) -> Field:
    """A duration."""
    return Field(title, lambda row: show_span(row[name]), "number")


def time(title: str, name: str, results: Results, without: str = "unknown") -> Field:
    """A moment, without its day where the head of the page says that; `without` for none."""
    show = show_clock if results.is_within_a_day else show_time
    return Field(title, lambda row: without if row[name] is None else show(row[name]), "time")


def size(title: str, name: str) -> Field:
    """A size."""
    return Field(title, lambda row: show_bytes(row[name]), "number")


def plain(title: str, name: str, kind: str = "") -> Field:
    """A text, or ids with commas."""
    return Field(title, lambda row: show_value(row[name]), kind)


def show_value(value: Any) -> str:
    """A value as text; ids with commas, "unknown" for None."""
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(item) for item in value) or "none"
        case _:
            return str(value)


def table(rows: Rows, columns: Sequence[Field], *, name: str) -> Markup:
    """The rows, as many as the page shows; on a narrow screen a row is a small list."""
    head = el("tr", *(el("th", c.title, class_=c.kind or None, scope="col") for c in columns))
    body = [el("tr", *(_cell(column, row) for column in columns)) for row in rows[:ROWS_MAX]]
    parts = [
        el(
            "div",
            el("table", el("thead", head), el("tbody", *body), class_="stack"),
            class_="scroll",
        )
    ]
    if len(rows) > ROWS_MAX:
        left = len(rows) - ROWS_MAX
        parts.append(
            el("p", f"And {left} more: --format csv writes them all, in {name}.csv.", class_="soft")
        )
    return join(parts)


def _cell(column: Field, row: Row) -> Markup:
    value = column.show(row)
    kind = f"{column.kind} unknown".strip() if value == "unknown" else column.kind
    return el("td", value, class_=kind or None, data_title=column.title)


_BADGES: Final = {
    **dict.fromkeys(("OK", "completed", "unfenced", "agree", "leading"), "good"),
    **dict.fromkeys(("WARN", "running", "paused", "stopping", "one-sided", "registered"), "warn"),
    **dict.fromkeys(("ERR", "STALLED", "STOPPED", "stuck", "fenced", "stepped"), "bad"),
    **dict.fromkeys(("ahead", "behind"), "warn"),
}


def badge(word: object, shown: str | None = None) -> Markup:
    """A word in its colour, or a text about it; the word itself says what the colour says."""
    return el("span", shown or show_value(word), class_=f"badge {_BADGES.get(str(word), 'grey')}")


def chips(before: Sequence[int], after: Sequence[int]) -> Markup:
    """The ids of `after`, those that are new marked, and then those that went."""
    shown = [el("span", id_, class_="chip" if id_ in before else "chip added") for id_ in after]
    gone = [el("span", id_, class_="chip removed") for id_ in before if id_ not in after]
    return join([*shown, *gone])


def legend(entries: Sequence[tuple[Markup, str]]) -> Markup:
    """What the colours of a chart mean."""
    return el("ul", *(el("li", sign, text) for sign, text in entries), class_="legend")


def line_sign(colour: int) -> Markup:
    """How a line of this colour looks."""
    return el(
        "svg",
        el("line", x1=0, x2=26, y1=6, y2=6, class_=f"s{colour} line"),
        width=26,
        height=12,
        viewBox="0 0 26 12",
        aria_hidden="true",
    )


def bar_sign(kind: str) -> Markup:
    """How a bar of this kind looks."""
    return el(
        "svg",
        el("rect", x=0, y=0, width=12, height=12, rx=2, class_=kind),
        width=12,
        height=12,
        viewBox="0 0 12 12",
        aria_hidden="true",
    )
