"""The number of steps that a reassignment needs under the limits in force when it began (KIP-435).

The limits are configurations of the whole cluster; the log says when they change. Without limits,
as in Kafka, every reassignment is one step. The number is that of the controller's own rule for a
partition whose replicas are alive and in sync, if every added replica catches up; a test compares
the two.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from lag.reports.holes import NONE, Holes

CONFIG: Final = "ConfigRecord"
"""The type of the records that set limits."""
PARALLEL_REPLICAS: Final = "reassignment.parallel.replica.count"
REPLICA_MOVEMENTS: Final = "reassignment.max.concurrent.replica.movements"
LIMITS: Final = (
    PARALLEL_REPLICAS,
    REPLICA_MOVEMENTS,
    "reassignment.parallel.partition.count",
    "reassignment.parallel.leader.movements",
)
"""All limits; the last two only delay steps and do not change their number."""
UNLIMITED: Final = 2**31 - 1
STEPS_MAX: Final = 1_000

_BROKER_DEFAULTS: Final = (4, "")
"""Resource type and name of the configurations that all brokers share."""
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class Limits(NamedTuple):
    """The limits that decide how many replicas one step adds and removes."""

    parallel_replicas: int = UNLIMITED
    """Replicas that one step adds, and that it removes."""
    replica_movements: int = UNLIMITED
    """Replicas being added at one time, in the whole cluster."""


class Changed(NamedTuple):
    """The limits in force from an offset on; None if a hole may have changed one."""

    offset: int
    limits: Limits | None


def limits_in_force(records: Iterable[Mapping[str, Any]], holes: Holes = NONE) -> list[Changed]:
    """The changes of the limits, from the records of the quorum's log in order, with `said`.

    Behind a hole each limit is unknown until it is set or deleted.
    """
    values: dict[str, int | None] = {}
    found: list[Changed] = []
    left = list(holes.holes)
    for record in records:
        while left and left[0].first <= record["offset"]:
            values = dict.fromkeys((PARALLEL_REPLICAS, REPLICA_MOVEMENTS))
            found.append(Changed(left.pop(0).end, None))
        said = record["said"]
        if record["type"] != CONFIG or said["name"] not in LIMITS:
            continue
        if (said["resourceType"], said["resourceName"]) != _BROKER_DEFAULTS:
            continue
        values[said["name"]] = _limit(said.get("value"))
        limits = [values.get(name, UNLIMITED) for name in (PARALLEL_REPLICAS, REPLICA_MOVEMENTS)]
        known = [each for each in limits if each is not None]
        is_known = len(known) == len(limits)
        found.append(Changed(record["offset"], Limits(*known) if is_known else None))
    found += (Changed(hole.end, None) for hole in left)
    return found


def _limit(value: str | None) -> int:
    """The limit that a value sets; a value that is invalid, or deleted, sets none."""
    text = "" if value is None else value.strip()
    is_valid = _WHOLE_NUMBER.fullmatch(text) is not None and 1 <= int(text) <= UNLIMITED
    return int(text) if is_valid else UNLIMITED


def steps_needed(
    before: Sequence[int], planned: Sequence[int], offset: int, changes: Sequence[Changed]
) -> int | None:
    """The number of steps from `before` to `planned` under the limits in force at `offset`; None if
    these are unknown."""
    at = bisect_right(changes, offset, key=lambda change: change.offset)
    limits = changes[at - 1].limits if at else Limits()
    if limits is None:
        return None
    current, steps = list(before), 0
    while current != list(planned) and steps < STEPS_MAX:
        steps += 1
        added, dropped = _step(current, planned, limits)
        if not added and not dropped:
            return steps
        kept = {*current, *added}.difference(dropped)
        # Final replicas first and in their final order, then those that are removed later.
        old = [each for each in current if each in kept and each not in planned]
        current = [each for each in planned if each in kept] + old
    return steps


def _step(
    current: Sequence[int], planned: Sequence[int], limits: Limits
) -> tuple[Sequence[int], Sequence[int]]:
    """The replicas that the next step adds and removes."""
    new = [each for each in planned if each not in current]
    old = [each for each in current if each not in planned]
    parallel, movements = limits
    if parallel != UNLIMITED and planned[0] in new:
        # A new preferred leader is added alone and becomes leader first.
        dropped, count = [], 1
    else:
        dropped = old[:parallel]
        count = min(parallel, max(0, len(planned) - len(current) + len(dropped)))
    added = new[: min(count, movements)]
    # Never fewer replicas than the smaller of the previous and the planned number.
    at_least = min(len(current), len(planned))
    return added, dropped[: len(current) + len(added) - at_least]


def column(changes: Sequence[Changed]) -> Callable[[str, str, str], Column]:
    """Return a function that makes `steps_needed` of the columns before, planned and offset; the
    result is null where one of them is."""
    if not changes:
        return _without_limits

    def needed(before: pa.Array, planned: pa.Array, offsets: pa.Array) -> pa.Array:
        rows = zip(before.to_pylist(), planned.to_pylist(), offsets.to_pylist(), strict=True)
        return pa.array(
            [
                steps_needed(begins, ends, offset, changes) if begins and ends else None
                for begins, ends, offset in rows
            ],
            pa.int64(),
        )

    made: Callable[[str, str, str], Column] = F.arrow_udf(needed, "bigint")
    return made


def _without_limits(before: str, planned: str, _offset: str) -> Column:
    """The same as `column` for no limits, without starting a worker."""
    is_known = (F.size(before) > 0) & (F.size(planned) > 0)
    return F.when(is_known, (F.col(before) != F.col(planned)).cast("bigint"))
