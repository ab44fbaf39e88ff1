"""Why there is no plan: what is wrong with the question, in words for whoever asked."""

from collections.abc import Generator
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from statemachine.limits import PLANNED_PARTITIONS_MAX

T = TypeVar("T")


class Reason(StrEnum):
    """Why there is no plan."""

    NO_PARTITIONS = "no-partitions"
    TOO_MANY_PARTITIONS = "too-many-partitions"
    TOO_FEW_BROKERS = "too-few-brokers"
    INVALID_FACTOR = "invalid-factor"
    NOTHING_TO_IMPROVE = "nothing-to-improve"


class Unplanned(Struct, frozen=True):
    """There is no plan, and why."""

    reason: Reason
    message: str


def too_many(count: int) -> Unplanned | None:
    """Why no plan may have so many partitions, or None."""
    if count <= PLANNED_PARTITIONS_MAX:
        return None
    return Unplanned(
        Reason.TOO_MANY_PARTITIONS,
        f"{count} partitions are more than one plan may have: {PLANNED_PARTITIONS_MAX}; plan for"
        " fewer topics or brokers at a time",
    )


def too_few(named: str, needed: int, there: int) -> Unplanned | None:
    """Why the partition of this name cannot have so many replicas, or None."""
    if needed <= there:
        return None
    return Unplanned(
        Reason.TOO_FEW_BROKERS,
        f"{named} needs {needed} brokers for its replicas, and can have {there}",
    )


def at_once(work: Generator[None, None, T]) -> T:
    """What the work comes to, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
