"""What is told of brokers as plain values: the JSON of the HTTP door and of commands alike."""

from typing import Any

from admin.care import BrokerStanding, BrokerStandings, SafetyReport


def broker_data(broker: BrokerStanding) -> dict[str, Any]:
    """One broker, with what it has."""
    return {
        "broker_id": broker.id,
        "broker_epoch": broker.epoch,
        "state": broker.state,
        "cordoned": broker.is_cordoned,
        "to_be_unregistered": broker.is_to_be_unregistered,
        "rack": broker.rack,
        "replicas": broker.replica_count,
        "in_sync": broker.in_sync_count,
        "leaders": broker.leader_count,
    }


def standings_data(found: BrokerStandings) -> dict[str, Any]:
    """All of them, in order of id."""
    return {"as_of_offset": found.as_of, "brokers": [broker_data(each) for each in found.brokers]}


def safety_data(found: SafetyReport) -> dict[str, Any]:
    """Whether brokers may stop, and the first of the partitions that say no."""
    return {
        "safe": not found.hurt_count,
        "as_of_offset": found.as_of,
        "partitions_looked_at": found.looked_at,
        "partitions_hurt": found.hurt_count,
        "hurt": [
            {
                "topic": each.id.topic,
                "partition": each.id.partition,
                "harm": each.harm,
                "in_sync": list(each.left),
                "min_isr": each.min_isr,
            }
            for each in found.hurt
        ],
    }
