"""The history of each broker: registrations, fencings, ISR changes, moves.

Plain values, no Spark; counts that Spark computes (`moves.partition_counts`) are passed in. What a
hole of the log may hide is unknown: every count of the whole time, the counts of its windows, and
what comes after the last event before it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.holes import NONE, Holes, names
from lag.reports.quorum_log import Hole
from lag.reports.schemas import BROKER_ACTIVITY, BROKERS
from lag.reports.scope import Scope

_STATES: Final = {
    "registered": "fenced",
    "fenced": "fenced",
    "unfenced": "unfenced",
    "stopping": "stopping",
    "unregistered": "unregistered",
}
"""The state of a broker after each event; a broker that registers is fenced until it catches up."""
_IS_FENCED: Final = {"registered": True, "fenced": True, "unfenced": False, "unregistered": False}
_COUNTED_AS: Final = {
    "registered": "registrations",
    "fenced": "fencings",
    "unfenced": "unfencings",
    "stopping": "shutdowns",
}
_COUNTS: Final = (
    "registrations", "fencings", "unfencings", "shutdowns", "isr_shrinks", "isr_expands",
    "moves_in", "moves_out",
)  # fmt: skip

NOBODY: Final = -1
"""In place of a broker, in counts of changes whose brokers are unknown."""
_UNCERTAIN: Final[Mapping[str, Sequence[str]]] = {
    "isr_changes": ("isr_shrinks", "isr_expands"),
    "moves": ("moves_in", "moves_out"),
}
"""What is counted for nobody, and the counts that are unknown in its window."""

Row = dict[str, Any]


class Count(NamedTuple):
    """The number of times that something happened to a broker in a window."""

    broker_id: int
    window: int
    what: str
    """The name of a count column."""
    times: int


def broker_events(
    records: Iterable[Mapping[str, Any]], end_ms: int, holes: Holes = NONE
) -> list[Row]:
    """The report `broker_events`, from the records of the quorum's log in order, up to the end of
    the report."""
    found: list[Row] = []
    last: dict[int, Row] = {}
    for record in records:
        is_later = record["append_ms"] > end_ms
        if is_later or _says_more(record, last.get(record["broker_id"]), holes):
            continue
        for event in _events(record):
            row = {
                "broker_id": record["broker_id"],
                "offset": record["offset"],
                "at_ms": record["append_ms"],
                "event": event,
                "broker_epoch": record["broker_epoch"],
            }
            before = last.get(row["broker_id"])
            if before is not None:
                _end(before, row["at_ms"], holes.between(before["offset"], row["offset"]))
            last[row["broker_id"]] = row
            found.append(row)
    for row in last.values():
        _end(row, end_ms, holes.after(row["offset"]))
    return found


def _end(event: Row, at_ms: int, hidden: Sequence[Hole]) -> None:
    """The next event of the broker, if no hole may hide another one before it."""
    event["until_ms"] = None if hidden else at_ms
    event["hole"] = names(hidden)


def _says_more(record: Mapping[str, Any], last: Row | None, holes: Holes) -> bool:
    """True for a registration without a restart, as when the broker's directories change; it does
    not change whether the broker is fenced."""
    if record["type"] != "RegisterBrokerRecord":
        return False
    # The epoch of a broker is the offset of its registration, which may be lost.
    epoch = record["broker_epoch"]
    if epoch is not None and any(hole.first <= epoch < hole.end for hole in holes.holes):
        return True
    if last is None:
        return False
    is_known: bool = last["broker_epoch"] == record["broker_epoch"]
    return is_known and last["event"] != "unregistered"


def _events(record: Mapping[str, Any]) -> Iterator[str]:
    """The events in a record; unchanged fields are None."""
    match record["type"]:
        case "RegisterBrokerRecord":
            yield "registered"
            if record["fenced"] is False:
                yield "unfenced"
        case "UnregisterBrokerRecord":
            yield "unregistered"
        case "FenceBrokerRecord":
            yield "fenced"
        case "UnfenceBrokerRecord":
            yield "unfenced"
        case "BrokerRegistrationChangeRecord":
            if record["fenced"] is not None:
                yield "fenced" if record["fenced"] else "unfenced"
            if record["in_controlled_shutdown"]:
                yield "stopping"
        case _:
            return


def event_counts(events: Iterable[Row], scope: Scope) -> list[Count]:
    """The events as counts."""
    return [
        Count(row["broker_id"], scope.window_at(row["at_ms"]), _COUNTED_AS[row["event"]], 1)
        for row in events
        if row["event"] in _COUNTED_AS
    ]


def broker_activity(counts: Iterable[Count], scope: Scope, holes: Holes = NONE) -> list[Row]:
    """The report `broker_activity`, from all counts."""
    found: dict[tuple[int, int], Row] = {}
    uncertain: dict[int, set[str]] = {}
    for each in counts:
        if each.broker_id == NOBODY:
            uncertain.setdefault(each.window, set()).update(_UNCERTAIN[each.what])
            continue
        if 0 <= each.window < scope.windows and each.what in BROKER_ACTIVITY.names:
            row = found.setdefault((each.broker_id, each.window), dict.fromkeys(_COUNTS, 0))
            row[each.what] += each.times
    of_windows = holes.of_windows(scope)
    rows = []
    for (broker, window), row in sorted(found.items()):
        lost = [*of_windows.get(window, ())]
        hidden = _COUNTS if lost else uncertain.get(window, ())
        if hidden and not lost:
            lost = [hole for hole in holes.holes if _is_before(hole, window, scope)]
        whole = {**row, **dict.fromkeys(hidden), "broker_id": broker, "hole": names(lost)}
        whole |= scope.bounds_of(window)
        rows.append({name: whole[name] for name in BROKER_ACTIVITY.names})
    return rows


def _is_before(hole: Hole, window: int, scope: Scope) -> bool:
    return hole.before_ms is None or scope.window_at(hole.before_ms) <= window


def brokers(events: Sequence[Row], counts: Iterable[Count], holes: Holes = NONE) -> list[Row]:
    """The report `brokers`; `counts` include those of events."""
    found: dict[int, Row] = {}
    for each in (each for each in counts if each.broker_id != NOBODY):
        row = found.setdefault(each.broker_id, dict.fromkeys(_COUNTS, 0))
        row[each.what] += each.times
    of_broker: dict[int, list[Row]] = {}
    for event in events:
        of_broker.setdefault(event["broker_id"], []).append(event)
        found.setdefault(event["broker_id"], dict.fromkeys(_COUNTS, 0))
    rows = []
    for broker, row in sorted(found.items()):
        counted = dict.fromkeys(row) if holes else row
        history = _history(of_broker.get(broker, []), holes)
        whole = {**counted, "broker_id": broker, "hole": names(holes.holes), **history}
        rows.append({name: whole.get(name) for name in BROKERS.names})
    return rows


def _history(events: Sequence[Row], holes: Holes) -> Row:
    """The columns that come from the events of one broker."""
    if not events:
        return {}
    registered = [event for event in events if event["event"] == "registered"]
    first, last = (registered[0], registered[-1]) if registered else (None, None)
    # Whatever a hole before the first or after the last may hide would count instead.
    is_first = first is not None and not holes.before(first["offset"])
    is_last = last is not None and not holes.after(last["offset"])
    is_now = not holes.after(events[-1]["offset"])
    times = [event["at_ms"] for event in registered]
    found = {
        "state": _STATES[events[-1]["event"]] if is_now else None,
        "state_since_ms": events[-1]["at_ms"] if is_now else None,
        # Clocks of leaders differ.
        "first_registered_ms": min(times) if is_first else None,
        "last_registered_ms": max(times) if is_last else None,
    }
    if holes:
        return found
    stretches = [0]
    is_fenced = False
    for event in events:
        was_fenced, is_fenced = is_fenced, _IS_FENCED.get(event["event"], is_fenced)
        if is_fenced and not was_fenced:
            stretches.append(0)
        if is_fenced:
            stretches[-1] += event["until_ms"] - event["at_ms"]
    return {**found, "fenced_ms": sum(stretches), "longest_fenced_ms": max(stretches)}
