"""The statements of a report of damaged logs that the report of the sound logs does not make.

A value that is null, or "unknown", says nothing. What a replica's own files lack is its own matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]

KEYS: Final = {
    "replication_lag": ("replica", "window_start_ms"),
    "replica_lag": ("replica",),
    "leadership": ("epoch",),
    "commits": ("window_start_ms",),
    "voters": ("offset",),
    "operations": ("move_id",),
    "brokers": ("broker_id",),
    "broker_activity": ("broker_id", "window_start_ms"),
    "broker_events": ("broker_id", "offset", "event"),
    "topics": ("topic_id",),
    "topic_events": ("offset", "topic", "config"),
}
"""The tables whose rows have a name of their own. Status follows from others."""
OF_PARTITION: Final = ("topic_id", "partition")
IN_WORDS: Final = frozenset({"facts", "hole", "number", "step"})
"""Columns that are not compared: numbers are those that the log shows."""
AT_MOST: Final = frozenset({"samples", "majority_known"})
"""Counts of what is known."""
SURVIVED: Final = ("survived_2_ms", "survived_1_ms", "survived_0_ms", "no_majority_ms")
OF_CLOCKS: Final = frozenset({"gap_ms", "ended"})
"""Columns that rest on how well clocks are known."""
OF_FILES: Final = frozenset({"records_behind", "records_lost", "log_start", "clock_ms"})
"""Columns about what the files of a replica lack."""


def is_unknown(value: Any) -> bool:
    return value is None or value == "unknown"


def false_statements(told: Tables, true: Tables) -> Iterator[str]:
    """A line for each."""
    reclocked = {
        row["replica"]
        for one, other in ((told, true), (true, told))
        for row in one["clocks"]
        if row not in other["clocks"]
    }
    for table, key in KEYS.items():
        known = {tuple(row[name] for name in key): row for row in true[table]}
        for row in told[table]:
            name = tuple(row[each] for each in key)
            if name not in known:
                yield f"{table} {name}: there is no such row"
                continue
            skipped = _skipped(table, row, reclocked)
            yield from (f"{table} {name}: {each}" for each in _of_row(row, known[name], skipped))
    yield from _of_moves(told, true)
    yield from _of_clocks(told["clocks"], true["clocks"])


def _skipped(table: str, row: Row, reclocked: set[str]) -> frozenset[str]:
    """The columns of a row that are no statement about the quorum."""
    if table == "replica_lag":
        return OF_FILES if row["replica"] not in reclocked else frozenset(row)
    if table == "replication_lag" and row["replica"] in reclocked:
        return frozenset(row)
    if table in ("leadership", "commits", "voters") and reclocked:
        timed = {name for name in row if name.startswith(("majority", "survived", "no_major"))}
        return OF_CLOCKS | timed | {"unknown_ms"}
    return frozenset()


def _of_row(row: Row, true: Row, skipped: frozenset[str] = frozenset()) -> Iterator[str]:
    for name, value in row.items():
        if name in IN_WORDS or name in skipped or is_unknown(value):
            continue
        if name in AT_MOST or name in SURVIVED:
            if value > true[name]:
                yield f"{name} is {value}, and not {true[name]}"
        elif name == "unknown_ms":
            if value < true[name]:
                yield f"{name} is {value}, and not {true[name]}"
        elif value != true[name]:
            yield f"{name} is {value}, and not {true[name]}"


def _of_clocks(told: Iterable[Row], true: Sequence[Row]) -> Iterator[str]:
    """Fewer batches prove less of a clock, and nothing else."""
    known = {(row["replica"], row["relative_to"]): row for row in true}
    for row in told:
        pair = (row["replica"], row["relative_to"])
        if pair not in known:
            yield f"clocks {pair}: there is no such row"
            continue
        for name, sign in (("at_least_ms", 1), ("at_most_ms", -1)):
            ours, theirs = row[name], known[pair][name]
            if ours is not None and (theirs is None or sign * ours > sign * theirs):
                yield f"clocks {pair}: {name} is {ours}, and not {theirs}"


def _of_moves(told: Tables, true: Tables) -> Iterator[str]:
    """Each row has to be one of the sound logs', as far as it says something."""
    for table in ("moves", "move_steps", "move_replicas"):
        known: dict[tuple[Any, ...], list[Row]] = {}
        for row in true[table]:
            known.setdefault(tuple(row[name] for name in OF_PARTITION), []).append(row)
        for row in told[table]:
            same = known.get(tuple(row[name] for name in OF_PARTITION), [])
            wrong = [list(_of_row(row, each)) for each in same]
            if [] not in wrong:
                least = min(wrong, key=len, default=["there is no such partition"])
                yield f"{table} {row}: {least}"


def missing(told: Tables, true: Tables) -> Iterator[str]:
    """The omissions of a report although no record is lost, apart from what files lack."""
    for table, key in (*KEYS.items(), *((name, ()) for name in ("moves", "move_steps"))):
        rows = {_name(row, key): row for row in told[table]}
        for row in true[table]:
            name = _name(row, key)
            if name not in rows:
                yield f"{table} {name}: it is missing"
                continue
            if table in ("replication_lag", "replica_lag"):
                continue
            for column, value in row.items():
                is_of_files = column.startswith(("majority", "survived", "no_major", "unknown"))
                if column in OF_CLOCKS or is_of_files or column in IN_WORDS:
                    continue
                if is_unknown(rows[name][column]) and not is_unknown(value):
                    yield f"{table} {name}: {column} is unknown, and not {value}"


def _name(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    names = key or ("topic_id", "partition", "number", *(("step",) if "step" in row else ()))
    return tuple(row[name] for name in names)


def unnamed(told: Tables, true: Tables) -> Iterator[str]:
    """Rows with an unknown value that the sound logs have, and without the name of a hole."""
    for table in ("leadership", "commits", "operations", "brokers", "broker_activity", "voters"):
        key = KEYS[table]
        known = {tuple(row[name] for name in key): row for row in true[table]}
        for row in told[table]:
            name = tuple(row[each] for each in key)
            for column, value in row.items():
                is_of_files = column.startswith(("majority", "survived", "no_major"))
                if column in IN_WORDS or is_of_files or column in OF_CLOCKS:
                    continue
                if is_unknown(value) and not is_unknown(known[name][column]) and not row["hole"]:
                    yield f"{table} {name}: {column} is unknown, and no hole is named"
    for table in ("moves", "move_steps", "move_replicas"):
        for row in told[table]:
            if row.get("outcome") == "unknown" and not row["hole"]:
                yield f"{table} {row}: its outcome is unknown, and no hole is named"
