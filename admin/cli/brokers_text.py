"""What `metaquorum brokers` prints. Pure functions from answers to text."""

from collections.abc import Sequence
from typing import Final, assert_never

from admin.care import BrokerResult, BrokerStanding, Operation, SafetyReport
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


def altered(done: Sequence[int], operation: Operation) -> str:
    """What `cordon`, `uncordon` and `unregister` print."""
    match operation:
        case Operation.CORDON:
            what = "get no new replicas"
        case Operation.UNCORDON:
            what = "get new replicas again"
        case Operation.UNREGISTER:
            what = "are not registered any more"
        case _:
            assert_never(operation)
    if len(done) == 1:
        what = what.replace("get", "gets", 1).replace("are", "is", 1)
    return f"{_brokers(done)} {what}."


def not_altered(refused: Sequence[BrokerResult]) -> str:
    """What these say of brokers that are as before."""
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
