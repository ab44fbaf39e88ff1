"""A second account of brokers: the image before and after every record."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from statemachine.image.image import Image
from statemachine.replay import replay
from tests.lag.twins.slow_moves import SlowPartition
from tests.lag.twins.slow_quorum import SlowTime
from tests.lag.twins.slow_reading import SlowRecord

COUNTED: Final = {
    "registered": "registrations",
    "fenced": "fencings",
    "unfenced": "unfencings",
    "stopping": "shutdowns",
}
COUNTS: Final = (*COUNTED.values(), "isr_shrinks", "isr_expands", "moves_in", "moves_out")

_OF_EVENTS: Final = (
    "state", "state_since_ms", "first_registered_ms", "last_registered_ms", "fenced_ms",
    "longest_fenced_ms",
)  # fmt: skip

Row = dict[str, Any]
Happened = tuple[int, str, int]
"""To which broker, what, and when."""


def events(log: Sequence[SlowRecord], end_ms: int) -> list[Row]:
    """The table `broker_events`."""
    image = Image()
    found: list[Row] = []
    for each in log:
        broker_id = getattr(each.said, "broker_id", None)
        before = _state(image, broker_id)
        replay(image, each.said, each.offset)
        for event in _events(before, _state(image, broker_id)):
            found.append(
                {
                    "broker_id": broker_id,
                    "offset": each.offset,
                    "at_ms": each.at_ms,
                    "event": event,
                    "broker_epoch": getattr(each.said, "broker_epoch", None),
                }
            )
    found = [row for row in found if row["at_ms"] <= end_ms]
    for number, row in enumerate(found):
        later = [other for other in found[number + 1 :] if other["broker_id"] == row["broker_id"]]
        row["until_ms"] = later[0]["at_ms"] if later else end_ms
    return found


class _State(NamedTuple):
    """The facts about a registered broker."""

    epoch: int
    """The broker epoch of its incarnation: each start has a new one."""
    is_fenced: bool
    stops: bool


def _state(image: Image, broker_id: int | None) -> _State | None:
    broker = None if broker_id is None else image.brokers.get(broker_id)
    if broker is None:
        return None
    return _State(broker.broker_epoch, broker.fenced, broker.stopping_at is not None)


def _events(before: _State | None, after: _State | None) -> list[str]:
    if after is None:
        return [] if before is None else ["unregistered"]
    if before is None or after.epoch != before.epoch:
        return ["registered"] if after.is_fenced else ["registered", "unfenced"]
    found = []
    if before.is_fenced != after.is_fenced:
        found.append("fenced" if after.is_fenced else "unfenced")
    if after.stops and not before.stops:
        found.append("stopping")
    return found


def happened(
    events_: Iterable[Row],
    partitions: Iterable[SlowPartition],
    moves: Iterable[Mapping[str, Any]],
    end_ms: int,
) -> list[Happened]:
    """All that is counted, up to the end of the report."""
    found = [
        (row["broker_id"], COUNTED[row["event"]], row["at_ms"])
        for row in events_
        if row["event"] in COUNTED
    ]
    for partition in partitions:
        for change in partition.changes:
            if change.before is not None:
                was, is_ = set(change.before.isr), set(change.after.isr)
                found += [(each, "isr_expands", change.at_ms) for each in is_ - was]
                found += [(each, "isr_shrinks", change.at_ms) for each in was - is_]
    for move in moves:
        found += [(each, "moves_in", move["started_ms"]) for each in move["added"]]
        found += [(each, "moves_out", move["started_ms"]) for each in move["removed"]]
    return [each for each in found if each[2] <= end_ms]


def activity(found: Sequence[Happened], time: SlowTime) -> list[Row]:
    """The table `broker_activity`."""
    rows: dict[tuple[int, int, int], Row] = {}
    for broker_id, what, at_ms in found:
        for low, high in time.windows:
            if low < at_ms <= high and what != "shutdowns":
                empty = {name: 0 for name in COUNTS if name != "shutdowns"}
                rows.setdefault((broker_id, low, high), empty)[what] += 1
    return [
        {"broker_id": broker_id, "window_start_ms": low, "window_end_ms": high, **row}
        for (broker_id, low, high), row in sorted(rows.items())
    ]


def brokers(events_: Sequence[Row], found: Sequence[Happened], end_ms: int) -> list[Row]:
    """The table `brokers`."""
    ids = sorted({row["broker_id"] for row in events_} | {each[0] for each in found})
    return [
        {
            "broker_id": broker_id,
            **{name: sum(each[:2] == (broker_id, name) for each in found) for name in COUNTS},
            **_told([row for row in events_ if row["broker_id"] == broker_id], end_ms),
        }
        for broker_id in ids
    ]


def _told(own: Sequence[Row], end_ms: int) -> Row:
    if not own:
        return dict.fromkeys(_OF_EVENTS)
    registered = [row["at_ms"] for row in own if row["event"] == "registered"]
    last = own[-1]
    states = {"registered": "fenced"}
    fenced: list[int] = []
    since_ms: int | None = None
    for row in own:
        if row["event"] in ("registered", "fenced") and since_ms is None:
            since_ms = row["at_ms"]
        if row["event"] in ("unfenced", "unregistered") and since_ms is not None:
            fenced.append(row["at_ms"] - since_ms)
            since_ms = None
    if since_ms is not None:
        fenced.append(end_ms - since_ms)
    return {
        "state": states.get(last["event"], last["event"]),
        "state_since_ms": last["at_ms"],
        "first_registered_ms": min(registered, default=None),
        "last_registered_ms": max(registered, default=None),
        "fenced_ms": sum(fenced),
        "longest_fenced_ms": max(fenced, default=0),
    }
