"""The page: one HTML file that needs nothing else, not even a script."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from lag.output import cluster_sections, quorum_sections
from lag.output.scales import show_span, show_time
from lag.output.style import STYLE
from lag.output.svg import Markup, el, join
from lag.output.tables import badge
from lag.results import Results

SECTIONS: Final[tuple[tuple[str, str, Callable[[Results], Markup]], ...]] = (
    ("status", "Status", quorum_sections.status),
    ("lag", "Replication lag", quorum_sections.lag),
    ("leadership", "Leadership", quorum_sections.leadership),
    ("voters", "Voters", quorum_sections.voters),
    ("commits", "Commits", quorum_sections.commits),
    ("moves", "Moves", cluster_sections.moves),
    ("brokers", "Brokers", cluster_sections.brokers),
    ("clocks", "Clocks", quorum_sections.clocks),
    ("problems", "Problems", cluster_sections.problems),
    ("files", "Logs that were read", cluster_sections.files),
)
PATHS_MAX: Final = 12
"""How many folders the head of the page names."""


def page(results: Results) -> str:
    """The whole page. Everything that comes out of a log, or from the command line, is escaped."""
    sections = (
        el("section", el("h2", title), draw(results), id=key) for key, title, draw in SECTIONS
    )
    links = (el("a", title, href=f"#{key}") for key, title, _ in SECTIONS)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Should an escape ever be forgotten, nothing of it runs and nothing is fetched.
        el(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        el("title", f"Lag report, {show_time(results.until_ms)} UTC"),
        el("style", Markup(STYLE)),
    )
    body = el("body", _opening(results), el("nav", join(links, " ")), *sections)
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _opening(results: Results) -> Markup:
    named = [str(path) for path in results.paths[:PATHS_MAX]]
    if len(results.paths) > PATHS_MAX:
        named.append(f"and {len(results.paths) - PATHS_MAX} more")
    span_ms = results.until_ms - results.since_ms
    return el(
        "header",
        el("h1", "Lag report"),
        el(
            "p",
            f"{show_time(results.since_ms)} to {show_time(results.until_ms)} UTC "
            f"({show_span(span_ms)}), in windows of {show_span(results.window_ms)}",
        ),
        el("p", ", ".join(named), class_="soft small"),
        el("div", *(_card(*card) for card in cards(results)), class_="cards"),
    )


def _card(number: object, meaning: str) -> Markup:
    return el("div", el("b", number), meaning, class_="card")


SEVERITY: Final = ("ERR", "STALLED", "STOPPED", "WARN", "OK")


def states(results: Results) -> list[tuple[int, str]]:
    """How many replicas are in which state, the worst first."""
    counts = Counter(str(row["status"]) for row in results.rows("status"))
    order = [*SEVERITY, *sorted(set(counts) - set(SEVERITY))]
    return [(counts[state], state) for state in order if counts[state]]


def cards(results: Results) -> list[tuple[object, str]]:
    """The answers in a few words: who is not well, who leads, how the moves went."""
    lags = results.rows("replica_lag")
    known = [row for row in lags if row["max_ms"] is not None]
    worst = max(known, key=lambda row: row["max_ms"], default=None)
    epochs = results.rows("leadership")
    moves = results.rows("moves")
    return [
        (
            join([badge(state, f"{number} {state}") for number, state in states(results)]),
            "replicas",
        ),
        ("unknown", "greatest lag")
        if worst is None
        else (show_span(worst["max_ms"]), f"greatest lag, of replica {worst['replica']}"),
        (str(epochs[-1]["leader"]), f"leads last, in epoch {epochs[-1]['epoch']}")
        if epochs
        else ("unknown", "leader"),
        (
            f"{sum(1 for row in moves if row['as_planned'])} of {len(moves)}",
            "moves ended as planned",
        ),
        (str(len(results.rows("problems"))), "problems in the files"),
    ]
