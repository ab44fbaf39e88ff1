"""What all the reports of one run say, as plain rows: what the outputs are made of.

A row is a mapping from the columns of `reports.schemas` to plain values; a value of None is what
nobody knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

DAY_MS: Final = 86_400_000

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The tables of a report, and what it was asked about."""

    paths: tuple[str, ...]
    """The folders as they were named."""
    since_ms: int
    """Where the time of the report begins, in ms since 1970."""
    until_ms: int
    """Where it ends."""
    window_ms: int
    """How wide its windows are."""
    tables: Mapping[str, Rows]
    """By the names in `reports.schemas`, and `replicas` and `problems` of the source."""

    def rows(self, name: str) -> Rows:
        """The rows of a table; none for one that was not made."""
        return self.tables.get(name, ())

    @property
    def is_within_a_day(self) -> bool:
        """Whether all its moments are on the same day, in UTC."""
        return self.since_ms // DAY_MS == self.until_ms // DAY_MS

    @property
    def not_ok(self) -> tuple[str, ...]:
        """The replicas whose status is not OK."""
        return tuple(str(row["replica"]) for row in self.rows("status") if row["status"] != "OK")
