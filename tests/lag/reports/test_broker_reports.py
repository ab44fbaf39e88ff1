"""The reports about brokers: small logs with known answers."""

from typing import Any

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.brokers import broker_events, brokers, event_counts
from lag.reports.scope import Scope

END_MS = 10_000


def record(at_ms: int, type_: str, broker_epoch: int, *, fenced: bool | None) -> dict[str, Any]:
    """A record about broker 1."""
    return {
        "type": f"{type_}Record",
        "broker_id": 1,
        "broker_epoch": broker_epoch,
        "offset": at_ms // 1_000,
        "append_ms": at_ms,
        "fenced": fenced,
        "in_controlled_shutdown": None,
    }


def test_a_broker_that_registers_again_without_a_start_has_not_been_away() -> None:
    """It is let in at 2,000 ms, and at 3,000 ms tells of another directory; it dies at 5,000 ms,
    tells of a third one before it is let in, and is started anew at 8,000 ms."""
    log = [
        record(1_000, "RegisterBroker", 7, fenced=True),
        record(2_000, "BrokerRegistrationChange", 7, fenced=False),
        record(3_000, "RegisterBroker", 7, fenced=False),
        record(5_000, "BrokerRegistrationChange", 7, fenced=True),
        record(6_000, "RegisterBroker", 7, fenced=True),
        record(8_000, "RegisterBroker", 20, fenced=True),
    ]
    events = broker_events(log, END_MS)
    assert [(row["event"], row["at_ms"], row["until_ms"]) for row in events] == [
        ("registered", 1_000, 2_000),
        ("unfenced", 2_000, 5_000),
        ("fenced", 5_000, 8_000),
        ("registered", 8_000, END_MS),
    ]
    (row,) = brokers(events, event_counts(events, Scope(1, END_MS, 1_000)))
    assert (row["registrations"], row["unfencings"], row["fencings"]) == (2, 1, 1)
    assert (row["fenced_ms"], row["longest_fenced_ms"]) == (6_000, 5_000)


def test_one_that_was_unregistered_registers_anew() -> None:
    log = [
        record(1_000, "RegisterBroker", 7, fenced=True),
        record(2_000, "UnregisterBroker", 7, fenced=None),
        record(3_000, "RegisterBroker", 7, fenced=True),
    ]
    events = [row["event"] for row in broker_events(log, END_MS)]
    assert events == ["registered", "unregistered", "registered"]


def test_events_after_the_end_of_a_report_are_left_out() -> None:
    """It ends at 4,500 ms; the broker is fenced at 4,000 ms, let in again at 6,000 ms."""
    log = [
        record(1_000, "RegisterBroker", 7, fenced=True),
        record(2_000, "BrokerRegistrationChange", 7, fenced=False),
        record(4_000, "BrokerRegistrationChange", 7, fenced=True),
        record(6_000, "BrokerRegistrationChange", 7, fenced=False),
    ]
    scope = Scope(1, 4_500, 1_000)
    events = broker_events(log, scope.end_ms)
    assert [(row["event"], row["until_ms"]) for row in events] == [
        ("registered", 2_000),
        ("unfenced", 4_000),
        ("fenced", 4_500),
    ]
    (row,) = brokers(events, event_counts(events, scope))
    assert (row["state"], row["state_since_ms"]) == ("fenced", 4_000)
    assert (row["fenced_ms"], row["longest_fenced_ms"]) == (1_500, 1_000)
    assert row["unfencings"] == 1
