"""The expected reports about broker 104 of the real Kafka cluster: fenced, and unfenced again."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

T: Final = 1_795_236_000_000
"""The time from which times of that cluster are counted, in ms since 1970."""
BROKER: Final = 104
FENCED_MS: Final = 591_247
BACK_MS: Final = 723_473
EVENTS: Final = [
    ("registered", 543_382),
    ("unfenced", 543_918),
    ("fenced", FENCED_MS),
    ("registered", 722_981),
    ("unfenced", BACK_MS),
    ("stopping", 750_848),
    ("fenced", 750_930),
]


def check_fenced_broker(
    brokers: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> None:
    """Fails unless the reports `brokers` and `broker_events` tell its story."""
    (row,) = (row for row in brokers if row["broker_id"] == BROKER)
    assert (row["registrations"], row["fencings"], row["shutdowns"]) == (2, 2, 1)
    assert row["longest_fenced_ms"] == BACK_MS - FENCED_MS
    told = [(row["event"], row["at_ms"] - T) for row in events if row["broker_id"] == BROKER]
    assert told == EVENTS
