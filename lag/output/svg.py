"""Elements of SVG and HTML as text, with everything that comes from outside escaped.

`Markup` is text that is safe as it stands; a plain `str` is not, and `el` escapes it. So a name out
of a log cannot become an element, wherever it is put.
"""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is already HTML. Only `el`, `join` and this package's own constants make it."""

    __slots__ = ()


def text(value: object) -> Markup:
    """`value` as text, escaped for content and for attributes alike; `Markup` as it is."""
    if isinstance(value, Markup):
        return value
    # Characters that XML forbids would end the page for a strict reader.
    shown = "".join(c if c >= " " or c in "\n\t" else "�" for c in str(value))
    return Markup(html.escape(shown, quote=True))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """The parts one after the other, each escaped if it has to be."""
    return Markup(between.join(text(part) for part in parts))


def el(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element: `el("text", "a<b", x=3, class_="small")`.

    An underscore at the end of an attribute's name is dropped, others become hyphens; an attribute
    of None is left out.
    """
    assert name.replace("-", "").isalnum()
    head = [name]
    for key, value in attributes.items():
        if value is not None:
            head.append(f'{key.rstrip("_").replace("_", "-")}="{text(value)}"')
    if not content and name in _EMPTY:
        return Markup(f"<{' '.join(head)}/>")
    return Markup(f"<{' '.join(head)}>{join(content)}</{name}>")


_EMPTY = frozenset({"line", "rect", "path", "circle", "polyline", "meta", "br"})
