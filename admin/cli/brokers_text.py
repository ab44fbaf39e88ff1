"""What `metaquorum brokers` prints. Pure functions from answers to text."""

from collections.abc import Sequence
from typing import Final

from admin.care import BrokerResult, BrokerStanding, SafetyReport
from admin.cli.tables import columns

_TITLES: Final = ("Broker", "State", "Cordoned", "Rack", "Replicas", "InSync", "Leaders", "Then")


def listed(brokers: Sequence[BrokerStanding]) -> str:
    """What `list` prints."""
    if not brokers:
        return "No brokers are registered."
    rows = [
        (
            each.id,
            each.state,
            "yes" if each.is_cordoned else "no",
            "-" if each.rack is None else each.rack,
            each.replica_count,
            each.in_sync_count,
            each.leader_count,
            "unregistered once empty and stopped" if each.is_to_be_unregistered else "-",
        )
        for each in brokers
    ]
    return columns(_TITLES, rows)


def cordoned(done: Sequence[int], *, cordoned: bool) -> str:
    """What `cordon` and `uncordon` print."""
    what = "get no new replicas" if cordoned else "get new replicas again"
    return f"{_brokers(done)} {what if len(done) > 1 else what.replace('get', 'gets', 1)}."


def not_cordoned(refused: Sequence[BrokerResult]) -> str:
    """What they say of brokers that are as before."""
    return "\n".join(f"Error: {each.message or each.error_name}" for each in refused)


def judged(brokers: Sequence[int], found: SafetyReport) -> str:
    """What `safe-to-stop` prints."""
    if not found.hurt_count:
        return f"{_brokers(brokers)} may stop: {found.looked_at} partition(s) would not be hurt."
    rows = [
        (each.id, each.harm, ",".join(map(str, each.left)) or "-", each.min_isr)
        for each in found.hurt
    ]
    more = found.hurt_count - len(found.hurt)
    return "\n".join(
        [
            f"{_brokers(brokers)} must not stop: {found.hurt_count} of {found.looked_at}"
            " partition(s) would be hurt.",
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
