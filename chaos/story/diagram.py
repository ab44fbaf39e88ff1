"""A sequence diagram of a story, as SVG: one lane a replica, time downwards.

It needs no font, script or style sheet of its own, and all text is escaped.
"""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final
from xml.sax.saxutils import escape

from chaos.story.promises import PROMISES
from chaos.story.recorder import FAULT, Event
from chaos.story.story import Story, seconds

LEFT: Final = 110
LANE: Final = 230
HEAD: Final = 34
LINE: Final = 16
ROW: Final = 14
"""The space around the text of a row."""
CHARACTERS: Final = 36
"""So many fit beside a lane."""
MARGIN: Final = 24

STYLE: Final = (
    "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}"
    ".time{fill:#57606a;text-anchor:end}.head{font-weight:600;text-anchor:middle}"
    ".title{font-size:15px;font-weight:600}.note{fill:#f6f8fa;stroke:#8c959f}"
    ".fault{fill:#fff1e5;stroke:#bc4c00}.broken{fill:#ffebe9;stroke:#cf222e}"
    ".lane{stroke:#d0d7de;stroke-dasharray:4 4}.arrow{stroke:#0550ae;stroke-width:1.5}"
)


def svg(story: Story) -> str:
    """The diagram of a story."""
    lanes = {replica: LEFT + LANE // 2 + at * LANE for at, replica in enumerate(_lanes(story))}
    width = LEFT + LANE * max(2, len(lanes)) + MARGIN
    title = _title(story, (width - 2 * MARGIN) // 8)
    top = MARGIN + LINE * (len(title) + 1)
    body: list[str] = []
    y = top + HEAD
    for event in story.events:
        shapes, y = _row(event, lanes, width, y)
        body += shapes
    body += _band("broken", width, y, [f"{story.rule} VIOLATED"], seconds(story.at_ms))
    height = y + 2 * LINE + ROW + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(f'{story.rule} is violated')}</title><style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#0550ae"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for at, line in enumerate(title):
        style = ' class="title"' if at == 0 else ""
        out.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * at}"{style}>{escape(line)}</text>')
    for replica, x in lanes.items():
        out.append(f'<text x="{x}" y="{top + LINE}" class="head">replica {replica}</text>')
        out.append(f'<path class="lane" d="M{x} {top + HEAD - 8}V{y}"/>')
    return "\n".join([*out, *body, "</svg>", ""])


def _title(story: Story, characters: int) -> list[str]:
    promise = PROMISES.get(story.rule)
    lines = wrap(story.headline, characters)
    if promise is not None:
        name = f" ({promise.name})" if promise.name else ""
        lines += wrap(f"promise{name}: {promise.text}", characters)
    return lines


def _lanes(story: Story) -> Sequence[int]:
    """The replicas that do something in the story, in the order of the cluster."""
    seen = {each.who for each in story.events} | {each.to for each in story.events}
    return [each for each in story.replicas if each in seen] or list(story.replicas)


def _row(event: Event, lanes: dict[int, int], width: int, y: int) -> tuple[list[str], int]:
    """The shapes of one event, and the place of the next row."""
    time = seconds(event.at_ms)
    here = lanes.get(event.who) if event.who is not None else None
    there = lanes.get(event.to) if event.to is not None else None
    if here is None:
        lines = wrap(str(event), (width - LEFT - MARGIN) // 8) or [""]
        kind = "fault" if event.weight == FAULT else "note"
        return _band(kind, width, y, lines, time), y + LINE * len(lines) + ROW
    if there is None or there == here:
        lines = wrap(str(event), CHARACTERS - 8) or [""]
        return [*_note(here, y, lines, time)], y + LINE * len(lines) + ROW
    lines = wrap(str(event), max(CHARACTERS, abs(there - here) // 8)) or [""]
    return [*_arrow(here, there, y, lines, time)], y + LINE * (len(lines) + 1) + ROW


def _time(y: int, time: str) -> str:
    return f'<text x="{LEFT - 8}" y="{y + LINE}" class="time">{escape(time.strip())}</text>'


def _band(kind: str, width: int, y: int, lines: list[str], time: str) -> list[str]:
    height = LINE * len(lines) + 8
    size = f'width="{width - LEFT - MARGIN}" height="{height}"'
    box = f'<rect class="{kind}" x="{LEFT}" y="{y}" {size}/>'
    texts = [
        f'<text x="{LEFT + 8}" y="{y + LINE * (at + 1)}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    ]
    return [_time(y, time), box, *texts]


def _note(x: int, y: int, lines: list[str], time: str) -> Iterator[str]:
    yield _time(y, time)
    yield (
        f'<rect class="note" rx="4" x="{x - LANE // 2 + 4}" y="{y}" width="{LANE - 8}" '
        f'height="{LINE * len(lines) + 8}"/>'
    )
    for at, line in enumerate(lines):
        yield f'<text x="{x - LANE // 2 + 10}" y="{y + LINE * (at + 1)}">{escape(line)}</text>'


def _arrow(here: int, there: int, y: int, lines: list[str], time: str) -> Iterator[str]:
    yield _time(y, time)
    middle = (here + there) // 2
    for at, line in enumerate(lines):
        yield (
            f'<text x="{middle}" y="{y + LINE * (at + 1) - 4}" text-anchor="middle" '
            f'paint-order="stroke" stroke="#ffffff" stroke-width="4">{escape(line)}</text>'
        )
    at = y + LINE * len(lines) + 6
    yield f'<path class="arrow" d="M{here} {at}H{there}" marker-end="url(#tip)"/>'
