"""Whom quotas are for, as the key of them. Nothing here knows what a quota means."""

from collections.abc import Iterable

from statemachine import records

QuotaHolder = tuple[records.QuotaEntity, ...]
"""Whom quotas are for: one part of each type, in the order of the types."""


def quota_holder(entity: Iterable[records.QuotaEntity]) -> QuotaHolder:
    """The entity as the key of its quotas: who wrote a record may have had another order."""
    by_type = {part.type: part for part in entity}
    return tuple(by_type[kind] for kind in sorted(by_type))
