"""The rows of a report's tables, as the outputs take them, and their order.

A row maps the columns of `reports.schemas` to plain values; None is an unknown value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lag.source.problems import HARMLESS

if TYPE_CHECKING:
    import pyarrow as pa

DAY_MS: Final = 86_400_000
SEVERITY: Final = ("ERR", "STALLED", "STOPPED", "UNKNOWN", "WARN", "OK")
"""The states of replicas, the worst first."""

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The tables of a report, and its scope."""

    paths: tuple[str, ...]
    """The folders as named in the request."""
    since_ms: int
    """Start of the report, in ms since 1970."""
    until_ms: int
    """End of the report."""
    window_ms: int
    """Length of a window."""
    tables: Mapping[str, Rows]
    """Rows by table: those of `reports.schemas`, and `replicas` and `problems` of the source."""

    def rows(self, name: str) -> Rows:
        """The rows of a table; none if it was not made."""
        return self.tables.get(name, ())

    @property
    def faults(self) -> Rows:
        """The rows of `problems` that mean that something is missing or damaged."""
        return [row for row in self.rows("problems") if row["kind"] not in HARMLESS]

    @property
    def is_within_a_day(self) -> bool:
        """True if all moments are on the same day, in UTC."""
        return self.since_ms // DAY_MS == self.until_ms // DAY_MS

    @property
    def not_ok(self) -> Rows:
        """The rows of `status` that are not OK; a replica of which nothing is known is not."""
        return [row for row in self.rows("status") if row["status"] != "OK"]


def sort_rows(rows: "pa.Table", columns: Sequence[str]) -> list[dict[str, Any]]:
    """Sort the rows by these columns: null first, and numbers within names by value (2 before 10).

    There may be a million rows but only a few distinct names, and each name is parsed once.
    """
    import numpy as np

    # numpy's lexsort takes the last key as the primary one.
    ranks = [_ranks(rows[column].combine_chunks()) for column in reversed(columns)]
    found: list[dict[str, Any]] = rows.take(np.lexsort(ranks)).to_pylist()
    return found


def _ranks(values: Any) -> Any:
    """Numbers that sort as the values do."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_string(values.type):
        places = np.unique(values.fill_null(0).to_numpy(), return_inverse=True)[1]
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), places, -1)
    coded = values.dictionary_encode()
    names = coded.dictionary.to_pylist()
    rank_of = np.empty(len(names) + 1, np.int64)
    rank_of[sorted(range(len(names)), key=lambda at: _by_numbers(names[at]))] = range(len(names))
    rank_of[len(names)] = -1
    return rank_of[coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]


def _by_numbers(name: str) -> tuple[Any, ...]:
    pieces = re.split(r"([0-9]+)", name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces if p], name
