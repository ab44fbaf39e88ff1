"""The history of each broker: registrations, fencings, ISR changes, moves.

Plain values, no Spark; counts that Spark computes (`moves.partition_counts`) are passed in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

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

Row = dict[str, Any]


class Count(NamedTuple):
    """The number of times that something happened to a broker in a window."""

    broker_id: int
    window: int
    what: str
    """The name of a count column."""
    times: int


def broker_events(records: Iterable[Mapping[str, Any]], end_ms: int) -> list[Row]:
    """The report `broker_events`, from the records of the quorum's log in order, up to the end of
    the report."""
    found: list[Row] = []
    last: dict[int, Row] = {}
    for record in records:
        is_later = record["append_ms"] > end_ms
        if is_later or _says_more(record, last.get(record["broker_id"])):
            continue
        for event in _events(record):
            row = {
                "broker_id": record["broker_id"],
                "offset": record["offset"],
                "at_ms": record["append_ms"],
                "event": event,
                "broker_epoch": record["broker_epoch"],
                "until_ms": end_ms,
            }
            if row["broker_id"] in last:
                last[row["broker_id"]]["until_ms"] = row["at_ms"]
            last[row["broker_id"]] = row
            found.append(row)
    return found


def _says_more(record: Mapping[str, Any], last: Row | None) -> bool:
    """True for a registration without a restart, as when the broker's directories change; it does
    not change whether the broker is fenced."""
    if record["type"] != "RegisterBrokerRecord" or last is None:
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


def broker_activity(counts: Iterable[Count], scope: Scope) -> list[Row]:
    """The report `broker_activity`, from all counts."""
    found: dict[tuple[int, int], Row] = {}
    for each in counts:
        if 0 <= each.window < scope.windows and each.what in BROKER_ACTIVITY.names:
            row = found.setdefault((each.broker_id, each.window), dict.fromkeys(_COUNTS, 0))
            row[each.what] += each.times
    return [
        {name: {**row, "broker_id": broker, **scope.bounds_of(window)}[name] for name in columns}
        for columns in (BROKER_ACTIVITY.names,)
        for (broker, window), row in sorted(found.items())
    ]


def brokers(events: Sequence[Row], counts: Iterable[Count]) -> list[Row]:
    """The report `brokers`; `counts` include those of events."""
    found: dict[int, Row] = {}
    for each in counts:
        row = found.setdefault(each.broker_id, dict.fromkeys(_COUNTS, 0))
        row[each.what] += each.times
    of_broker: dict[int, list[Row]] = {}
    for event in events:
        of_broker.setdefault(event["broker_id"], []).append(event)
        found.setdefault(event["broker_id"], dict.fromkeys(_COUNTS, 0))
    return [
        {
            name: {**row, "broker_id": broker, **_history(of_broker.get(broker, []))}.get(name)
            for name in BROKERS.names
        }
        for broker, row in sorted(found.items())
    ]


def _history(events: Sequence[Row]) -> Row:
    """The columns that come from the events of one broker."""
    if not events:
        return {}
    registered = [event["at_ms"] for event in events if event["event"] == "registered"]
    stretches = [0]
    is_fenced = False
    for event in events:
        was_fenced, is_fenced = is_fenced, _IS_FENCED.get(event["event"], is_fenced)
        if is_fenced and not was_fenced:
            stretches.append(0)
        if is_fenced:
            stretches[-1] += event["until_ms"] - event["at_ms"]
    return {
        "state": _STATES[events[-1]["event"]],
        "state_since_ms": events[-1]["at_ms"],
        "first_registered_ms": min(registered, default=None),
        "last_registered_ms": max(registered, default=None),
        "fenced_ms": sum(stretches),
        "longest_fenced_ms": max(stretches),
    }
