"""In how many steps a reassignment could be done, with the limits in force when it began (KIP-435).

The limits are configurations of the whole cluster, and the log says when they changed. With none,
as in Kafka, every reassignment is one step.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from statemachine.reassignment.settings import LIMITS, NO_LIMITS, Limits, limits
from statemachine.reassignment.step import steps_left
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, Resource

CONFIG: Final = "ConfigRecord"
"""The records that are looked at."""
_DEFAULTS: Final[Resource] = (BROKER_RESOURCE, CLUSTER_DEFAULT)


class Changed(NamedTuple):
    """From which offset on which limits are in force."""

    offset: int
    limits: Limits


class _Configured(NamedTuple):
    """What `statemachine.reassignment.settings` reads."""

    configs: Mapping[Resource, Mapping[str, str]]


def limits_in_force(records: Iterable[Mapping[str, Any]]) -> list[Changed]:
    """How the limits changed, by the records of the quorum's log in order, with `said`."""
    configs: dict[str, str] = {}
    found: list[Changed] = []
    for record in records:
        said = record["said"]
        if record["type"] != CONFIG or said["name"] not in LIMITS:
            continue
        if (said["resourceType"], said["resourceName"]) != _DEFAULTS:
            continue
        if said.get("value") is None:
            configs.pop(said["name"], None)
        else:
            configs[said["name"]] = said["value"]
        found.append(Changed(record["offset"], limits(_Configured({_DEFAULTS: configs}))))
    return found


def steps_needed(
    before: Sequence[int], planned: Sequence[int], offset: int, changes: Sequence[Changed]
) -> int:
    """So many from replicas that are all in sync, if all that are added catch up."""
    at = bisect_right(changes, offset, key=lambda change: change.offset)
    in_force = changes[at - 1].limits if at else NO_LIMITS
    current = tuple(before)
    steps = steps_left(
        current,
        tuple(planned),
        isr=current,
        leader=current[0],
        min_isr=1,
        live=_anyone,
        limits=in_force,
    )
    return len(steps)


def column(changes: Sequence[Changed]) -> Callable[[str, str, str], Column]:
    """Makes `steps_needed` of three columns: before, planned and offset; null where one is."""
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
    """As `column`, without a worker having to be started for it."""
    is_known = (F.size(before) > 0) & (F.size(planned) > 0)
    return F.when(is_known, (F.col(before) != F.col(planned)).cast("bigint"))


def _anyone(_broker_id: int) -> bool:
    return True
