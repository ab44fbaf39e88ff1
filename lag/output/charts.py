"""Charts: lines over time, spans over time, and a heat map.

Each function turns values and a width in pixels into a `Picture`, which a template writes as SVG.
Colours are CSS classes of the page, so that one picture serves light, dark and paper. A page has
two pictures of each chart, for wide and for narrow screens, so that text keeps its size.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lag.output.scales import Scale, decade_ticks, number_ticks, time_ticks
from lag.units import show_count

WIDE_PX: Final = 940
NARROW_PX: Final = 340
NARROW_BELOW_PX: Final = 600
SERIES_COLOURS: Final = 8
_GUTTER_PX: Final = 58
_MARGIN_PX: Final = 12
_CHARACTER_PX: Final = 6.6
"""The approximate width of a character in a chart."""


class Shape(NamedTuple):
    """An element of SVG."""

    name: str
    attributes: Mapping[str, object]
    text: str = ""
    children: Sequence["Shape"] = ()


class Picture(NamedTuple):
    """A drawing; `label` describes it to a screen reader."""

    width: int
    height: int
    label: str
    shapes: Sequence[Shape]


class Chart(NamedTuple):
    """The pictures of one chart."""

    wide: Picture
    narrow: Picture


class Series(NamedTuple):
    """A line. None is an unknown value: the line has a gap there."""

    name: str
    points: Sequence[tuple[int, float | None]]
    colour: int


class Mark(NamedTuple):
    """A moment that a vertical line marks."""

    at_ms: int
    label: str
    title: str


class Span(NamedTuple):
    """A stretch of time; without `end_ms` it goes on beyond the end of the chart."""

    start_ms: int
    end_ms: int | None
    kind: str
    """The CSS class of its colour."""
    title: str
    label: str = ""


class Row(NamedTuple):
    """A named row of spans."""

    name: str
    spans: Sequence[Span]
    note: str = ""


class Heat(NamedTuple):
    """A row of a heat map: a value for each window, None where it is unknown."""

    name: str
    values: Sequence[float | None]
    titles: Sequence[str]


def responsive(draw: Callable[[int], Picture]) -> Chart:
    """The chart for wide screens and paper, and for narrow screens."""
    return Chart(draw(WIDE_PX), draw(NARROW_PX))


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
    gutter: int = _GUTTER_PX,
) -> Picture:
    """Lines over time, with marked moments above and bands behind them.

    `gutter` is the width of the values on the left: that of `spans` puts both on one time line.
    """
    height, top, bottom = 240, 22, 216
    values = [value for one in series for _, value in one.points if value is not None]
    most = max(values, default=0.0)
    ticks = decade_ticks(most) if is_log else number_ticks(most, 4)
    x = Scale(span[0], span[1], gutter, width - _MARGIN_PX)
    y = Scale(0, ticks[-1], bottom, top, is_log)
    shapes = [
        *(_bar(band, x, top, bottom - top, f"band {band.kind}") for band in bands),
        *_y_axis(y, ticks, (gutter, width - _MARGIN_PX), show),
        *_time_axis(x, span, width, bottom),
        *_marks(marks, x, top, bottom),
        *(_line(one, x, y, show) for one in series),
    ]
    return Picture(width, height, label, shapes)


def _text(text: str, x: float, y: float, style: str = "", title: str = "") -> Shape:
    children = (Shape("title", {}, title),) if title else ()
    return Shape("text", {"x": x, "y": y, "class": style or None}, text, children)


def _rect(x: float, y: float, width: float, height: float, style: str) -> Shape:
    size = {"width": round(width, 1), "height": height}
    return Shape("rect", {"x": x, "y": y, **size, "class": style})


def _vertical(x: float, top: float, bottom: float, style: str) -> Shape:
    return Shape("line", {"x1": x, "x2": x, "y1": top, "y2": bottom, "class": style})


def _group(title: str, shapes: Sequence[Shape]) -> Shape:
    return Shape("g", {}, children=(Shape("title", {}, title), *shapes))


def _y_axis(
    y: Scale, ticks: Sequence[float], ends_px: tuple[int, int], show: Callable[[float], str]
) -> list[Shape]:
    shapes = []
    for tick in ticks:
        at = y.at(tick)
        ends = {"x1": ends_px[0], "x2": ends_px[1], "y1": at, "y2": at}
        shapes.append(Shape("line", {**ends, "class": "grid"}))
        shapes.append(_text(show(tick), ends_px[0] - 6, at + 4, "end"))
    return shapes


def _time_axis(x: Scale, span: tuple[int, int], width: int, at: float) -> list[Shape]:
    shapes = []
    for moment, label in time_ticks(*span, max(2, width // 130)):
        left = x.at(moment)
        # The label of the last tick would exceed the picture.
        anchor = "end" if left > width - 30 else "mid"
        shapes.append(_vertical(left, at, at + 4, "tick"))
        shapes.append(_text(label, left, at + 17, anchor))
    return shapes


def _marks(marks: Sequence[Mark], x: Scale, top: int, bottom: int) -> list[Shape]:
    shapes, free = [], 0.0
    for mark in sorted(marks, key=lambda mark: mark.at_ms):
        at = x.at(mark.at_ms)
        parts = [_vertical(at, top - 4, bottom, "mark")]
        # A label that would overlap the previous one is omitted; its title remains.
        half = len(mark.label) * _CHARACTER_PX / 2
        if at - half >= free:
            parts.append(_text(mark.label, at, top - 8, "mid marked"))
            free = at + half + 4
        shapes.append(_group(mark.title, parts))
    return shapes


def _line(series: Series, x: Scale, y: Scale, show: Callable[[float], str]) -> Shape:
    """The line in as many pieces as its gaps make; a point alone is a dot."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for at_ms, value in series.points:
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x.at(at_ms), y.at(value)))
    colour = f"s{series.colour % SERIES_COLOURS}"
    shapes: list[Shape] = []
    for piece in pieces:
        if len(piece) == 1:
            centre = {"cx": piece[0][0], "cy": piece[0][1], "r": 2.5}
            shapes.append(Shape("circle", {**centre, "class": f"{colour} dot"}))
        elif piece:
            points = " ".join(f"{left:g},{up:g}" for left, up in piece)
            shapes.append(Shape("polyline", {"points": points, "class": f"{colour} line"}))
    known = [value for _, value in series.points if value is not None]
    most = f"at most {show(max(known))}" if known else "unknown"
    return _group(f"{series.name}: {most}", shapes)


def spans(
    width: int, span: tuple[int, int], rows: Sequence[Row], *, label: str, is_time: bool = True
) -> Picture:
    """Rows of spans over time: the steps of moves, or the terms of leaders."""
    is_narrow = width < NARROW_BELOW_PX
    gutter = 8 if is_narrow else gutter_of(rows)
    # Notes stand beside the bars, or above them on a narrow screen.
    end = width - _MARGIN_PX - (0 if is_narrow else _width_of(row.note for row in rows))
    each = 36 if is_narrow else 24
    bottom = len(rows) * each + 8
    x = Scale(span[0], span[1], gutter, end)
    shapes: list[Shape] = _time_axis(x, span, width, bottom) if is_time else []
    for place, row in enumerate(rows):
        up = place * each + 4
        bar = up + 14 if is_narrow else up
        name = _cut(row.name, 34)
        if is_narrow:
            shapes.append(_text(name, gutter, up + 10, title=row.name))
            shapes.append(_text(row.note, end, up + 10, "end note"))
        else:
            shapes.append(_text(name, gutter - 8, up + 13, "end", row.name))
            shapes.append(_text(row.note, end + 6, up + 12, "note"))
        shapes.append(_rect(gutter, bar, end - gutter, 16, "lane"))
        shapes.extend(_bar(one, x, bar, 16, f"bar {one.kind}") for one in row.spans)
    return Picture(width, bottom + (24 if is_time else 4), label, shapes)


def gutter_of(rows: Sequence[Row]) -> int:
    """The width of the names of rows, left of their spans in a wide picture."""
    return min(220, 16 + _width_of(row.name for row in rows))


def counted(width: int, rows: Sequence[Row], *, label: str) -> Picture:
    """Rows of spans that stand for numbers: `start_ms` and `end_ms` are counts from 0."""
    most = max((span.end_ms or 0 for row in rows for span in row.spans), default=1)
    return spans(width, (0, max(1, most)), rows, label=label, is_time=False)


def _bar(span: Span, x: Scale, up: float, height: float, style: str) -> Shape:
    start = x.at(span.start_ms)
    end = x.end if span.end_ms is None else x.at(span.end_ms)
    size = round(max(2.0, end - start), 1)
    parts = [_rect(start, up, size, height, style)]
    if span.label and len(span.label) * _CHARACTER_PX + 6 < size:
        parts.append(_text(span.label, start + 4, up + 12, "in-bar"))
    return _group(span.title, parts)


def heat(width: int, span: tuple[int, int], rows: Sequence[Heat], *, label: str) -> Picture:
    """A row for each name and a cell for each window; the darker, the more. Zero stays blank."""
    gutter = 16 + min(120, _width_of(row.name for row in rows))
    end = width - _MARGIN_PX
    each = 18 if width < NARROW_BELOW_PX else 20
    most = max((v for row in rows for v in row.values if v is not None), default=0.0)
    bottom = len(rows) * each + 6
    x = Scale(span[0], span[1], gutter, end)
    shapes: list[Shape] = _time_axis(x, span, width, bottom)
    for place, row in enumerate(rows):
        up = place * each + 3
        shapes.append(_text(_cut(row.name, 18), gutter - 8, up + 13, "end", row.name))
        shapes.append(_rect(gutter, up, end - gutter, each - 2, "lane"))
        cell_px = (end - gutter) / max(1, len(row.values))
        for number, (value, title) in enumerate(zip(row.values, row.titles, strict=True)):
            if value:
                # A single event among thousands has to be visible.
                depth = min(4, int(4 * value / most))
                left = round(gutter + number * cell_px, 1)
                style = f"heat h{depth}"
                cell = _rect(left, up, max(1.5, cell_px - 0.5), each - 2, style)
                shapes.append(cell._replace(children=(Shape("title", {}, title),)))
    return Picture(width, bottom + 24, label, shapes)


def _width_of(names: Iterable[str]) -> int:
    return int(max((len(name) for name in names), default=0) * _CHARACTER_PX)


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
