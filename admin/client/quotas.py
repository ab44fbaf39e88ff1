"""Kafka's requests about client quotas (KIP-546), as calls of a client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from admin.client.channels import only
from admin.client.retrying_client import Call, Verdict, verdict_of
from quorum.protocol.apis import ApiKey
from statemachine.configs.quota_precedence import CLIENT_ID, USER
from statemachine.configs.quotas import IP, Match

_DISPLAYED: Final[Mapping[str, str]] = MappingProxyType(
    {USER: "user", CLIENT_ID: "client", IP: "ip"}
)

Entity = Mapping[str, str | None]
"""The parts of an entity by type: its name, or None for the default of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityQuotas:
    """An entity with its quotas."""

    entity: Entity
    quotas: Mapping[str, float]


def describe_quotas(entity: Entity) -> Call:
    """Describe the quotas of all entities that have these parts."""
    components = [
        {
            "entity_type": type,
            "match_type": Match.DEFAULT if name is None else Match.EXACT,
            "match": name,
        }
        for type, name in entity.items()
    ]
    return Call(
        api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
        fill=lambda form: form.request(components=components, strict=False),
        failing="the quotas cannot be described",
        status_command=None,
    )


def read_quotas(response: Any) -> Sequence[EntityQuotas]:
    """Return the entities in an answer, by their parts."""
    found = (
        EntityQuotas(
            entity={part.entity_type: part.entity_name for part in each.entity},
            quotas={value.key: value.value for value in sorted(each.values, key=_key)},
        )
        for each in response.entries or ()
    )
    return sorted(found, key=lambda each: _order(each.entity))


def _key(value: Any) -> str:
    return str(value.key)


def _order(entity: Entity) -> list[tuple[bool, bool, str]]:
    """Users first, and in each type the default first."""
    return [
        (type not in entity, entity.get(type) is not None, entity.get(type) or "")
        for type in _DISPLAYED
    ]


def alter_quotas(
    entity: Entity, values: Mapping[str, float], removed: Sequence[str], *, dry_run: bool
) -> Call:
    """Set and remove quotas of an entity, all of them or none."""
    ops: list[dict[str, Any]] = [
        {"key": name, "value": value, "remove": False} for name, value in values.items()
    ]
    ops += [{"key": name, "value": 0.0, "remove": True} for name in removed]
    entry = {
        "entity": [{"entity_type": type, "entity_name": name} for type, name in entity.items()],
        "ops": ops,
    }

    def judge(response: Any) -> Verdict:
        return verdict_of(only(response.entries))

    return Call(
        api_key=ApiKey.ALTER_CLIENT_QUOTAS,
        fill=lambda form: form.request(entries=[entry], validate_only=dry_run),
        judge=judge,
        failing=f"the quotas of {entity_text(entity)} cannot be changed",
        status_command=None if dry_run else "metaquorum quotas describe",
    )


def entity_text(entity: Entity) -> str:
    """An entity in words."""
    return " and ".join(
        f"the default {_DISPLAYED[type]}" if name is None else f"{_DISPLAYED[type]} {name}"
        for type, name in entity.items()
    )
