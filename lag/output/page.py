"""The report as one HTML file without scripts or external resources.

The templates escape every value, so that a name in a log cannot become an element. Values are also
free of the control characters that XML forbids.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from lag.output import cluster_sections, quorum_sections
from lag.output.charts import Picture
from lag.output.tables import badge, show_value
from lag.results import SEVERITY, Results, Row
from lag.units import show_span, show_time

View = Mapping[str, Any]
"""The values that the template of a section shows."""
SECTIONS: Final[tuple[tuple[str, str, Callable[[Results], View]], ...]] = (
    ("status", "Status", quorum_sections.status),
    ("lag", "Replication lag", quorum_sections.lag),
    ("leadership", "Leadership", quorum_sections.leadership),
    ("voters", "Voters", quorum_sections.voters),
    ("commits", "Commits", quorum_sections.commits),
    ("moves", "Moves", cluster_sections.moves),
    ("topics", "Topics", cluster_sections.topics),
    ("brokers", "Brokers", cluster_sections.brokers),
    ("clocks", "Clocks", quorum_sections.clocks),
    ("problems", "Problems", cluster_sections.problems),
    ("files", "Logs that were read", cluster_sections.files),
)
"""Key, title and view of each section; the key names its macro in `templates/sections.html`."""
PATHS_MAX: Final = 12
"""The number of folders that the head of the page names."""

_FORBIDDEN: Final = {code: "\N{REPLACEMENT CHARACTER}" for code in range(32) if code not in (9, 10)}


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value.translate(_FORBIDDEN) if isinstance(value, str) else value,
    )


def page(results: Results) -> str:
    """The whole page."""
    paths = [str(path) for path in results.paths[:PATHS_MAX]]
    if len(results.paths) > PATHS_MAX:
        paths.append(f"and {len(results.paths) - PATHS_MAX} more")
    template = _templates().get_template("page.html")
    html: str = template.render(
        since=show_time(results.since_ms),
        until=show_time(results.until_ms),
        duration=show_span(results.until_ms - results.since_ms),
        window=show_span(results.window_ms),
        paths=paths,
        cards=cards(results),
        views=[(key, title, view(results)) for key, title, view in SECTIONS],
    )
    return f"{html}\n"


def draw(picture: Picture) -> str:
    """One picture as SVG."""
    return str(_templates().get_template("elements.html").module.picture(picture))


def states(results: Results) -> list[tuple[int, str]]:
    """The number of replicas in each state, the worst state first."""
    counts = Counter(str(row["status"]) for row in results.rows("status"))
    order = [*SEVERITY, *sorted(set(counts) - set(SEVERITY))]
    return [(counts[state], state) for state in order if counts[state]]


def cards(results: Results) -> list[tuple[list[object], str]]:
    """The key figures at the top: states, greatest lag, leader, moves, problems."""
    known = [row for row in results.rows("replica_lag") if row["max_ms"] is not None]
    worst = max(known, key=lambda row: row["max_ms"], default=None)
    epochs = results.rows("leadership")
    moves = results.rows("moves")
    replicas, faults = len(results.rows("status")), len(results.faults)
    return [
        (
            [badge(state, f"{number} {state}") for number, state in states(results)],
            "replica" if replicas == 1 else "replicas",
        ),
        (["unknown"], "greatest lag")
        if worst is None
        else ([show_span(worst["max_ms"])], f"greatest lag, of replica {worst['replica']}"),
        ([show_value(epochs[-1]["leader"])], f"leads last, in epoch {epochs[-1]['epoch']}")
        if epochs
        else (["unknown"], "leader"),
        (
            [_ended_as_planned(moves)],
            "moves ended as planned",
        ),
        ([faults], "problem in the files" if faults == 1 else "problems in the files"),
    ]


def _ended_as_planned(moves: Sequence[Row]) -> str:
    """The number of moves that ended as planned, of all; unknown if it is of every one."""
    if moves and all(row["as_planned"] is None for row in moves):
        return "unknown"
    return f"{sum(1 for row in moves if row['as_planned'])} of {len(moves)}"
