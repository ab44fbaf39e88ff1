"""Charts as SVG: lines over time, spans over time, and a map of heat.

Each is a pure function of values and a width in pixels. A page shows one of two drawings, for wide
and for narrow screens (`responsive`), so that text keeps its size. Colours are classes of the
page's style, which has them for light, dark and paper.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lag.output.scales import Scale, decade_ticks, number_ticks, show_count, time_ticks
from lag.output.svg import Markup, el, join

WIDE_PX: Final = 940
NARROW_PX: Final = 340
SERIES_COLOURS: Final = 8
_GUTTER_PX: Final = 58
_CHARACTER_PX: Final = 6.6
"""About as wide as a character of the charts' text is."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line. None is what is not known: the line has a gap there, it is not zero."""

    name: str
    points: Sequence[tuple[int, float | None]]
    colour: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that is marked by a line from top to bottom."""

    at_ms: int
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted; `end_ms` of None goes on beyond the end of what is shown."""

    start_ms: int
    end_ms: int | None
    kind: str
    """The class of its colour."""
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A named row of spans."""

    name: str
    spans: Sequence[Span]
    note: str = ""


def responsive(draw: Callable[[int], Markup]) -> Markup:
    """The drawing for wide screens and paper, and the one for narrow screens."""
    return join(
        [
            el("div", draw(WIDE_PX), class_="wide"),
            el("div", draw(NARROW_PX), class_="narrow", aria_hidden="true"),
        ]
    )


def lines(
    width: int,
    span: tuple[int, int],
    series: Sequence[Series],
    *,
    marks: Sequence[Mark] = (),
    bands: Sequence[Span] = (),
    show: Callable[[float], str] = show_count,
    label: str,
    is_log: bool = False,
) -> Markup:
    """Lines over time, with marked moments above and bands behind them."""
    height, top, bottom = 240, 22, 24
    values = [value for one in series for _, value in one.points if value is not None]
    most = max(values, default=0.0)
    ticks = decade_ticks(most) if is_log else number_ticks(most, 4)
    x = Scale(span[0], span[1], _GUTTER_PX, width - 12)
    y = Scale(0, ticks[-1], height - bottom, top, is_log)
    parts = [
        *(_band(band, x, top, height - bottom) for band in bands),
        *_y_axis(y, ticks, width, show),
        *_time_axis(x, span, width, height - bottom),
        *_marks(marks, x, top, height - bottom),
        *(_line(one, x, y, show) for one in series),
    ]
    return _picture(width, height, label, parts)


def _band(band: Span, x: Scale, top: int, bottom: int) -> Markup:
    start = x.at(band.start_ms)
    end = x.end if band.end_ms is None else x.at(band.end_ms)
    return el(
        "rect",
        el("title", band.title),
        x=start,
        y=top,
        width=round(max(2.0, end - start), 1),
        height=bottom - top,
        class_=f"band {band.kind}",
    )


def _y_axis(
    y: Scale, ticks: Sequence[float], width: int, show: Callable[[float], str]
) -> list[Markup]:
    parts = []
    for tick in ticks:
        at = y.at(tick)
        parts.append(el("line", x1=_GUTTER_PX, x2=width - 12, y1=at, y2=at, class_="grid"))
        parts.append(el("text", show(tick), x=_GUTTER_PX - 6, y=at + 4, class_="end"))
    return parts


def _time_axis(x: Scale, span: tuple[int, int], width: int, at: float) -> list[Markup]:
    parts = []
    for moment, label in time_ticks(*span, max(2, width // 130)):
        left = x.at(moment)
        # The label of the last tick would leave the picture.
        anchor = "end" if left > width - 30 else "mid"
        parts.append(el("line", x1=left, x2=left, y1=at, y2=at + 4, class_="tick"))
        parts.append(el("text", label, x=left, y=at + 17, class_=anchor))
    return parts


def _marks(marks: Sequence[Mark], x: Scale, top: int, bottom: int) -> list[Markup]:
    parts, free = [], 0.0
    for mark in sorted(marks, key=lambda mark: mark.at_ms):
        at = x.at(mark.at_ms)
        content = [
            el("title", mark.title),
            el("line", x1=at, x2=at, y1=top - 4, y2=bottom, class_="mark"),
        ]
        # A label that would lie upon the one before is left out; its title is still there.
        half = len(mark.label) * _CHARACTER_PX / 2
        if at - half >= free:
            content.append(el("text", mark.label, x=at, y=top - 8, class_="mid marked"))
            free = at + half + 4
        parts.append(el("g", *content))
    return parts


def _line(series: Series, x: Scale, y: Scale, show: Callable[[float], str]) -> Markup:
    """The line in as many pieces as there are gaps; a point alone is a dot."""
    pieces: list[list[tuple[float, float]]] = [[]]
    worst: tuple[float, int] | None = None
    for at_ms, value in series.points:
        if value is None:
            pieces.append([])
            continue
        pieces[-1].append((x.at(at_ms), y.at(value)))
        worst = max(worst or (value, -at_ms), (value, -at_ms))
    colour = f"s{series.colour % SERIES_COLOURS}"
    drawn: list[Markup] = []
    for piece in pieces:
        if len(piece) == 1:
            drawn.append(
                el("circle", cx=piece[0][0], cy=piece[0][1], r=2.5, class_=f"{colour} dot")
            )
        elif piece:
            path = " ".join(f"{left:g},{up:g}" for left, up in piece)
            drawn.append(el("polyline", points=path, class_=f"{colour} line"))
    most = "unknown" if worst is None else f"at most {show(worst[0])}"
    return el("g", el("title", f"{series.name}: {most}"), *drawn)


def spans(
    width: int, span: tuple[int, int], rows: Sequence[Row], *, label: str, is_time: bool = True
) -> Markup:
    """Rows of spans over time: a waterfall, or who led when."""
    is_narrow = width < 600
    gutter = 8 if is_narrow else min(220, 16 + _width_of(row.name for row in rows))
    # Notes stand beside the bars, or above them where there is no room.
    end = width - 12 - (0 if is_narrow else _width_of(row.note for row in rows))
    each = 36 if is_narrow else 24
    bottom = len(rows) * each + 8
    x = Scale(span[0], span[1], gutter, end)
    parts: list[Markup] = _time_axis(x, span, width, bottom) if is_time else []
    for place, row in enumerate(rows):
        up = place * each + 4
        bar = up + 14 if is_narrow else up
        name = (el("title", row.name), _cut(row.name, 34))
        if is_narrow:
            parts.append(el("text", *name, x=gutter, y=up + 10))
            parts.append(el("text", row.note, x=end, y=up + 10, class_="end note"))
        else:
            parts.append(el("text", *name, x=gutter - 8, y=up + 13, class_="end"))
            parts.append(el("text", row.note, x=end + 6, y=up + 12, class_="note"))
        parts.append(el("rect", x=gutter, y=bar, width=end - gutter, height=16, class_="lane"))
        parts.extend(_bar(one, x, bar) for one in row.spans)
    return _picture(width, bottom + (24 if is_time else 4), label, parts)


def _width_of(names: Iterable[str]) -> int:
    return int(max((len(name) for name in names), default=0) * _CHARACTER_PX)


def _bar(span: Span, x: Scale, up: float) -> Markup:
    start = x.at(span.start_ms)
    end = x.end if span.end_ms is None else x.at(span.end_ms)
    size = round(max(2.0, end - start), 1)
    parts = [
        el("title", span.title),
        el("rect", x=start, y=up, width=size, height=16, rx=2, class_=f"bar {span.kind}"),
    ]
    if span.label and len(span.label) * _CHARACTER_PX + 6 < size:
        parts.append(el("text", span.label, x=start + 4, y=up + 12, class_="in-bar"))
    return el("g", *parts)


@dataclass(frozen=True, slots=True)
class Heat:
    """A row of a map of heat: a value for each window, None where nothing is known."""

    name: str
    values: Sequence[float | None]
    titles: Sequence[str]


def heat(width: int, span: tuple[int, int], rows: Sequence[Heat], *, label: str) -> Markup:
    """A row for each name and a cell for each window; the darker, the more. Zero is left blank."""
    is_narrow = width < 600
    gutter = 16 + min(120, _width_of(row.name for row in rows))
    each = 18 if is_narrow else 20
    most = max((v for row in rows for v in row.values if v is not None), default=0.0)
    bottom = len(rows) * each + 6
    x = Scale(span[0], span[1], gutter, width - 12)
    parts: list[Markup] = list(_time_axis(x, span, width, bottom))
    for place, row in enumerate(rows):
        up = place * each + 3
        title = el("title", row.name)
        parts.append(el("text", title, _cut(row.name, 18), x=gutter - 8, y=up + 13, class_="end"))
        parts.append(
            el("rect", x=gutter, y=up, width=width - 12 - gutter, height=each - 2, class_="lane")
        )
        parts.extend(_cells(row, most, (gutter, width - 12), up, each - 2))
    return _picture(width, bottom + 24, label, parts)


def _cells(row: Heat, most: float, between: tuple[int, int], up: int, height: int) -> list[Markup]:
    size = (between[1] - between[0]) / max(1, len(row.values))
    cells = []
    for place, (value, title) in enumerate(zip(row.values, row.titles, strict=True)):
        if value is None or value <= 0:
            continue
        # Even a single event among thousands is to be seen.
        depth = min(4, int(4 * value / most)) if most else 0
        cells.append(
            el(
                "rect",
                el("title", title),
                x=round(between[0] + place * size, 1),
                y=up,
                width=round(max(1.5, size - 0.5), 1),
                height=height,
                class_=f"heat h{depth}",
            )
        )
    return cells


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


def _picture(width: int, height: float, label: str, parts: Sequence[Markup]) -> Markup:
    return el(
        "svg",
        el("title", label),
        *parts,
        viewBox=f"0 0 {width} {height:g}",
        width=width,
        height=f"{height:g}",
        role="img",
        aria_label=label,
    )


def counted(width: int, rows: Sequence[Row], *, label: str) -> Markup:
    """Rows of spans that stand for numbers: `start_ms` and `end_ms` count, and begin at 0."""
    most = max((span.end_ms or 0 for row in rows for span in row.spans), default=1)
    return spans(width, (0, max(1, most)), rows, label=label, is_time=False)
