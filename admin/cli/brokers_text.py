"""What `metaquorum brokers` prints. Pure functions from answers to text."""

from collections.abc import Mapping, Sequence
from typing import Final

from admin.capabilities.brokers import (
    Broker,
    BrokerResult,
    BrokersAltered,
    CordonBrokers,
    Safety,
    UncordonBrokers,
    UnregisterBrokers,
)
from admin.capabilities.schema import Request
from admin.cli.tables import columns

_TITLES: Final = ("Broker", "State", "Cordoned", "Rack", "Replicas", "InSync", "Leaders", "Then")


def listed(brokers: Sequence[Broker]) -> str:
    """What `list` prints."""
    if not brokers:
        return "No brokers are registered."
    rows = [
        (
            each.broker_id,
            each.state,
            "yes" if each.cordoned else "no",
            "-" if each.rack is None else each.rack,
            each.replicas,
            each.in_sync,
            each.leaders,
            "unregistered once empty and stopped" if each.to_be_unregistered else "-",
        )
        for each in brokers
    ]
    return columns(_TITLES, rows)


_ALTERED: Final[Mapping[type[Request[BrokersAltered]], str]] = {
    CordonBrokers: "get no new replicas",
    UncordonBrokers: "get new replicas again",
    UnregisterBrokers: "are not registered any more",
}


def altered(done: Sequence[int], kind: type[Request[BrokersAltered]]) -> str:
    """What `cordon`, `uncordon` and `unregister` print."""
    what = _ALTERED[kind]
    if len(done) == 1:
        what = what.replace("get", "gets", 1).replace("are", "is", 1)
    return f"{_brokers(done)} {what}."


def not_altered(refused: Sequence[BrokerResult]) -> str:
    """What these say of brokers that are as before."""
    return "\n".join(f"Error: {each.message or each.kafka_error}" for each in refused)


def judged(brokers: Sequence[int], found: Safety) -> str:
    """What `safe-to-stop` prints."""
    if found.safe:
        looked_at = found.partitions_looked_at
        return f"{_brokers(brokers)} may stop: {looked_at} partition(s) would not be hurt."
    rows = [
        (
            f"{each.topic}-{each.partition}",
            each.harm,
            ",".join(map(str, each.in_sync)) or "-",
            each.min_isr,
        )
        for each in found.hurt
    ]
    more = found.partitions_hurt - len(found.hurt)
    return "\n".join(
        [
            f"{_brokers(brokers)} must not stop: {found.partitions_hurt} of"
            f" {found.partitions_looked_at} partition(s) would be hurt.",
            columns(("Partition", "Harm", "InSync", "MinISR"), rows),
            *([f"and {more} more"] if more else []),
        ]
    )


def emptied(brokers: Sequence[int]) -> str:
    """That they have no replicas."""
    return f"{_brokers(brokers)}: no replicas left."


def not_registered(brokers: Sequence[int]) -> str:
    """That the cluster does not know them, or not any more."""
    return f"{_brokers(brokers)}: not registered."


def strange(brokers: Sequence[int]) -> str:
    """That nobody knows of these brokers."""
    return "\n".join(f"Error: Broker ID {each} is not currently registered" for each in brokers)


def still_alive(alive: Sequence[int]) -> str:
    """That a broker which lives is not unregistered: it would not know."""
    return f"{_brokers(alive)} not unregistered: stop them first, and it is done then"


def _brokers(ids: Sequence[int]) -> str:
    several = "Brokers" if len(ids) > 1 else "Broker"
    return f"{several} {', '.join(map(str, ids))}"
