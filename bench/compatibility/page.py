"""The table of compatibility as Markdown, made from the table of calls alone.

A run writes it only if every call had the expected result.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from bench.compatibility.model import Call, Client, Place

YES = "yes"
NOT_OFFERED = "—"


def as_markdown(clients: Sequence[Client]) -> str:
    """The tables of all clients, and the reasons below them."""
    reasons = _reasons(clients)
    lines: list[str] = []
    for name, versions in groupby(clients, key=lambda client: client.name):
        lines += _section(name, list(versions), reasons)
    lines += ["### Reasons", ""]
    lines += [f"{number}. {text}" for text, number in reasons.items()]
    return "\n".join(lines) + "\n"


def _reasons(clients: Sequence[Client]) -> dict[str, int]:
    """The number of each reason, in the order of their first mention."""
    found: dict[str, int] = {}
    for call in (call for client in clients for call in client.calls):
        for place in call.places:
            refusal = call.refusal(place)
            if refusal is not None:
                found.setdefault(refusal.text, len(found) + 1)
    return found


def _section(name: str, versions: Sequence[Client], reasons: dict[str, int]) -> Iterator[str]:
    """The table of one client; calls with the same results in several versions share a row."""
    yield from (f"### {name}", "")
    yield f"| client | version | call | {' | '.join(Place)} |"
    yield "| --- " * (3 + len(Place)) + "|"
    rows: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for client in versions:
        for call in client.calls:
            key = (call.program or client.name, call.operation.label, _cells(call, reasons))
            rows.setdefault(key, []).append(client.version)
    order = {key[:2]: number for number, key in reversed(list(enumerate(rows)))}
    for key in sorted(rows, key=lambda key: order[key[:2]]):
        program, label, cells = key
        yield f"| {program} | {', '.join(rows[key])} | {label} | {' | '.join(cells)} |"
    yield ""


def _cells(call: Call, reasons: dict[str, int]) -> tuple[str, ...]:
    return tuple(_cell(call, place, reasons) for place in Place)


def _cell(call: Call, place: Place, reasons: dict[str, int]) -> str:
    if place not in call.places:
        return NOT_OFFERED
    refusal = call.refusal(place)
    return YES if refusal is None else f"no ({reasons[refusal.text]})"
