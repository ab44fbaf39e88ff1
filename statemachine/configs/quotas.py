"""AlterClientQuotas and DescribeClientQuotas: the quotas of users, clients and hosts (KIP-546).

A quota belongs to an entity: a user, a client id, both together, or a host. An entity without a
name is the default for those without a quota. Checks and errors are those of Kafka 4.2
(`ClientQuotaControlManager`, `ClientQuotasImage`), but host names are not resolved.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct

from statemachine.commands import (
    AlterClientQuotas,
    ClientQuotasAltered,
    QuotaAltered,
    QuotaChange,
    QuotaOp,
)
from statemachine.configs.definitions import INT_MAX, LONG_MAX
from statemachine.configs.quota_precedence import CLIENT_ID, CONTROLLER_MUTATION_RATE, USER
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image, QuotaHolder, quota_holder
from statemachine.limits import QUOTA_NAME_BYTES_MAX
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records

IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

WHOLE_TOLERANCE: Final = 1e-6
"""The tolerance for rates that must be whole numbers."""

_HOST: Final = re.compile(r"[0-9A-Za-z_]([0-9A-Za-z_-]*[0-9A-Za-z_])?(\.[0-9A-Za-z_-]+)*\.?")
_IPV6: Final = re.compile(r"[0-9A-Fa-f:]{2,39}(:[0-9.]{7,15})?(%[0-9A-Za-z]+)?")


_Rates: TypeAlias = Mapping[str, int | None]
"""The highest value of each quota; without one (None) it need not be a whole number."""

_OF_CLIENTS: Final[_Rates] = MappingProxyType(
    {
        "consumer_byte_rate": LONG_MAX,
        CONTROLLER_MUTATION_RATE: None,
        "producer_byte_rate": LONG_MAX,
        "request_percentage": None,
    }
)
_OF_HOSTS: Final[_Rates] = MappingProxyType({"connection_creation_rate": INT_MAX})


# --- AlterClientQuotas ---------------------------------------------------------------------------


def alter_client_quotas(
    pending: PendingDecision, command: AlterClientQuotas
) -> ClientQuotasAltered:
    """Change the quotas of each entity, or refuse all of its changes."""
    counts = Counter(quota_holder(change.entity) for change in command.changes)
    answers: dict[QuotaHolder, QuotaAltered] = {}
    for change in command.changes:
        holder = quota_holder(change.entity)
        if holder in answers:
            continue
        refusal = _alter(pending, holder, change, counts[holder])
        answers[holder] = QuotaAltered.from_refusal(refusal, entity=change.entity)
    return ClientQuotasAltered(entities=tuple(answers.values()))


def _alter(
    pending: PendingDecision, holder: QuotaHolder, change: QuotaChange, count: int
) -> Refusal | None:
    reason = _entity_fault(change.entity)
    if reason is None and count > 1:
        reason = f"{described(holder)} is named more than once"
    if reason is None:
        reason = _ops_fault(holder, change.ops)
    if reason is not None:
        return Refusal(Error.INVALID_REQUEST, reason)
    current = pending.image.quotas.get(holder, {})
    for op in change.ops:
        value = None if op.remove else op.value
        if value != current.get(op.key):
            pending.records.append(
                kafka_records.ClientQuota(
                    entity=holder,
                    key=op.key,
                    value=0.0 if value is None else value,
                    remove=op.remove,
                )
            )
    return None


def described(holder: QuotaHolder) -> str:
    """Return the entity as text."""
    return ", ".join(
        f"the default {part.type}" if part.name is None else f"{part.type} {part.name}"
        for part in holder
    )


def _entity_fault(entity: QuotaHolder) -> str | None:
    """Return the fault of a quota entity, or None."""
    if not entity:
        return f"an entity needs a type: {', '.join(TYPES)}"
    types = [part.type for part in entity]
    for part in entity:
        if part.type not in TYPES:
            return f"entity type {part.type!r} is none of {', '.join(TYPES)}"
        if part.name == "":
            return f"a {part.type} needs a name; null stands for the default"
        if part.name is not None and len(part.name.encode()) > QUOTA_NAME_BYTES_MAX:
            return f"the name of a {part.type} may have {QUOTA_NAME_BYTES_MAX} bytes"
    if len(set(types)) != len(types):
        return f"an entity has each type once, not {', '.join(types)}"
    if IP not in types:
        return None
    if len(types) > 1:
        return f"{IP} stands alone: it cannot be combined with {USER} or {CLIENT_ID}"
    name = entity[0].name
    if name is None or _HOST.fullmatch(name) or (":" in name and _IPV6.fullmatch(name)):
        return None
    return f"{name!r} is neither an IP address nor the name of a host"


def _ops_fault(holder: QuotaHolder, ops: Sequence[QuotaOp]) -> str | None:
    repeated = [key for key, count in Counter(op.key for op in ops).items() if count > 1]
    if repeated:
        return f"{', '.join(repeated)} is named more than once for {described(holder)}"
    rates = _OF_HOSTS if holder[0].type == IP else _OF_CLIENTS
    for op in ops:
        reason = None if op.remove else _value_fault(rates, op)
        if reason is not None:
            return reason
    return None


def _value_fault(rates: _Rates, op: QuotaOp) -> str | None:
    if op.key not in rates:
        return f"{op.key!r} is not a quota of this entity, which may have {', '.join(rates)}"
    if not math.isfinite(op.value) or op.value <= 0:
        return f"Quota {op.key} must be greater than 0"
    highest = rates[op.key]
    if highest is None:
        return None
    if op.value > highest:
        return f"{op.key}={op.value}: it must be at most {highest}"
    if abs(op.value - round(op.value)) > WHOLE_TOLERANCE:
        return f"{op.key}={op.value}: it must be a whole number"
    return None


# --- DescribeClientQuotas ------------------------------------------------------------------------


class Match(IntEnum):
    """The ways in which a filter compares the name of an entity."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, and the default."""


class QuotaFilter(Struct, frozen=True, kw_only=True, gc=False):
    """A condition on one part of an entity."""

    type: str
    match: int
    """A `Match`, or any other number in the request."""
    name: str | None = None


def matching_quotas(
    holders: Iterable[QuotaHolder], filters: Sequence[QuotaFilter], *, strict: bool
) -> Iterator[QuotaHolder | None] | Refusal:
    """Return those of the entities that pass all filters; None stands for one that does not.

    `strict`: they have no parts of other types.
    """
    refusal = _filters_refusal(filters)
    if refusal is not None:
        return refusal
    return (each if _passes(each, filters, strict) else None for each in holders)


def quota_key(holder: QuotaHolder) -> tuple[tuple[str, str], ...]:
    """Return the sort key of an entity: the types and names of its parts, the default first."""
    # No part has an empty name.
    return tuple([(part.type, part.name or "") for part in holder])


def quotas_of(image: Image, holder: QuotaHolder) -> dict[str, float]:
    """Return the quotas of an entity in the order of their names; none for an unknown one."""
    return dict(sorted(image.quotas.get(holder, {}).items()))


def _passes(holder: QuotaHolder, filters: Sequence[QuotaFilter], strict: bool) -> bool:
    if strict and len(holder) != len(filters):
        return False
    names = {part.type: part.name for part in holder}
    return all(
        each.type in names and (each.match == Match.SPECIFIED or names[each.type] == each.name)
        for each in filters
    )


def _filters_refusal(filters: Sequence[QuotaFilter]) -> Refusal | None:
    types = [each.type for each in filters]
    for each in filters:
        refusal = _filter_refusal(each)
        if refusal is not None:
            return refusal
        if types.count(each.type) > 1:
            return Refusal(
                Error.INVALID_REQUEST, f"entity type {each.type} may be in one filter only"
            )
    if IP in types and len(types) > 1:
        return Refusal(
            Error.INVALID_REQUEST,
            f"a filter for {IP} cannot be combined with one for {USER} or {CLIENT_ID}",
        )
    return None


def _filter_refusal(asked: QuotaFilter) -> Refusal | None:
    if not asked.type:
        return Refusal(Error.INVALID_REQUEST, f"a filter needs a type: {', '.join(TYPES)}")
    if asked.type not in TYPES:
        return Refusal(
            Error.UNSUPPORTED_VERSION, f"entity type {asked.type!r} is none of {', '.join(TYPES)}"
        )
    if asked.match not in list(Match):
        known = ", ".join(f"{each.value} ({each.name})" for each in Match)
        return Refusal(Error.INVALID_REQUEST, f"match type {asked.match} is none of {known}")
    if asked.match == Match.EXACT and asked.name is None:
        return Refusal(Error.INVALID_REQUEST, f"an exact match of {asked.type} needs a name")
    if asked.match != Match.EXACT and asked.name is not None:
        return Refusal(
            Error.INVALID_REQUEST,
            f"only an exact match has a name: that of {asked.type} is {Match(asked.match).name}",
        )
    return None
