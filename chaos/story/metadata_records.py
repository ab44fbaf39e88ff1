"""Committed metadata records in words, with the names of Kafka's tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chaos.cluster.invariants.record_parser import ParsedRecord

IDS: Final = ("replicas", "adding", "removing", "target", "isr", "elr", "last_known_elr")
NAMES: Final = {"isr": "ISR", "elr": "ELR", "last_known_elr": "last known ELR"}
NO_LEADER: Final = -1


class MetadataWords:
    """The words for the records of one run; it remembers the names of topics."""

    def __init__(self) -> None:
        self._topics: dict[str, str] = {}

    def partition_of(self, record: ParsedRecord) -> str:
        """The partition that a record is about, as topic-number; empty for none."""
        row = record.fields
        if record.type not in ("Partition", "PartitionChange"):
            return ""
        return f"{self._topics.get(row['topic_id'], row['topic_id'])}-{row['partition_id']}"

    def text(self, record: ParsedRecord) -> str:
        """The record as a sentence; all of its fields if there are no words for its type."""
        row = record.fields
        match record.type:
            case "Topic":
                self._topics[row["topic_id"]] = row["name"]
                return f"topic {row['name']} is created"
            case "RemoveTopic":
                return f"topic {self._topics.get(row['topic_id'], row['topic_id'])} is deleted"
            case "Partition":
                return f"{self.partition_of(record)} is created: {_state(row)}"
            case "PartitionChange":
                return f"{self.partition_of(record)} changes: {_state(row)}"
            case "RegisterBroker":
                return (
                    f"broker {row['broker_id']} is registered, broker epoch {row['broker_epoch']}"
                )
            case "UnregisterBroker":
                return f"broker {row['broker_id']} is unregistered"
            case "FenceBroker" | "UnfenceBroker" | "BrokerRegistrationChange":
                return f"broker {row['broker_id']} {_standing(record)}"
            case "Config":
                value = "has no value of its own" if row["value"] is None else f"= {row['value']}"
                return f"configuration of {row['resource_name'] or 'all'}: {row['name']} {value}"
            case _:
                fields = ", ".join(f"{name} {value}" for name, value in row.items())
                return f"{record.type}: {fields}"


def _standing(record: ParsedRecord) -> str:
    """The state of a broker's registration after a change."""
    row = record.fields
    is_fenced = row.get("fenced", {"FenceBroker": 1, "UnfenceBroker": -1}.get(record.type, 0))
    found = {1: ["is fenced"], -1: ["is unfenced"]}.get(is_fenced, [])
    if row.get("in_controlled_shutdown"):
        found = [*found, "is in controlled shutdown"]
    return " and ".join(found) or "is as before"


def _state(row: Mapping[str | int, Any]) -> str:
    """The fields that a record sets for a partition."""
    found = [f"{NAMES.get(name, name)} {_ids(row[name])}" for name in IDS if row.get(name)]
    found += [f"{NAMES.get(name, name)} empty" for name in IDS[:5] if _is_emptied(row, name)]
    if "leader" in row:
        leader = row["leader"]
        found.append("no leader" if leader == NO_LEADER else f"leader {leader}")
    return ", ".join(found) or "nothing that is told here"


def _is_emptied(row: Mapping[str | int, Any], name: str) -> bool:
    """True if a change empties a list; a new partition has many empty ones."""
    return name in row and not row[name] and "partition_epoch" not in row


def _ids(these: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, these)) + "]"
