"""Responses to DescribeConfigs (32) and DescribeClientQuotas (48), of controllers and brokers.

Both encode what they look up in their own image; the values are taken by their attributes.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from quorum.protocol import codec

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Of an error message: it may quote the request, and old versions have 16 bits for its length."""

_ZERO: Final = timedelta(0)


class Code(Protocol):
    """An error code."""

    @property
    def code(self) -> int: ...


class Refused(Protocol):
    """The reason why a resource is not described."""

    @property
    def error(self) -> Code: ...

    @property
    def message(self) -> str: ...


class Synonym(Protocol):
    """The value of a configuration at one level."""

    @property
    def name(self) -> str: ...

    @property
    def value(self) -> str | None: ...

    @property
    def source(self) -> int: ...


class ConfigEntry(Synonym, Protocol):
    """One configuration in force."""

    @property
    def is_read_only(self) -> bool: ...

    @property
    def is_sensitive(self) -> bool: ...

    @property
    def type(self) -> int: ...

    @property
    def synonyms(self) -> Sequence[Synonym]: ...

    @property
    def documentation(self) -> str | None: ...


class EntityPart(Protocol):
    """A user, a client id or an address that quotas apply to; the default without a name."""

    @property
    def type(self) -> str: ...

    @property
    def name(self) -> str | None: ...


class EntityQuotas(Protocol):
    """An entity and its quotas."""

    @property
    def entity(self) -> Sequence[EntityPart]: ...

    @property
    def quotas(self) -> Sequence[tuple[str, float]]: ...


Describe: TypeAlias = Callable[[tuple[int, str]], tuple[ConfigEntry, ...] | Refused]
"""The configurations of a resource: its type and its name."""

F = TypeVar("F")


def describe_configs_response(schema: type[Any], message: Any, describe: Describe) -> Any:
    """Build kio's response of `schema`: for each resource in `message` the result of `describe`."""
    results = []
    for asked in message.resources:
        found = describe((asked.resource_type, asked.resource_name))
        result: dict[str, Any] = {
            "error_code": 0,
            "error_message": None,
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
            "configs": (),
        }
        if isinstance(found, tuple):
            wanted = asked.configuration_keys
            chosen = (each for each in found if not wanted or each.name in wanted)
            result["configs"] = [_entry(message, each) for each in chosen]
        else:
            result |= {"error_code": found.error.code, "error_message": _bounded(found.message)}
        results.append(result)
    return codec.build(schema, {"throttle_time": _ZERO, "results": results})


def _entry(message: Any, entry: ConfigEntry) -> dict[str, Any]:
    # Version 3 is the first that can ask for it, and that has a place for it.
    documented = getattr(message, "include_documentation", False)
    synonyms = entry.synonyms if message.include_synonyms else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": each.source} for each in synonyms
        ],
        "config_type": entry.type,
        "documentation": entry.documentation if documented else None,
    }


def quota_filters(message: Any, make: Callable[..., F]) -> list[F]:
    """Return the filters of a DescribeClientQuotas request, built by `make`."""
    return [
        make(type=each.entity_type, match=each.match_type, name=each.match)
        for each in message.components
    ]


def describe_quotas_response(schema: type[Any], found: tuple[EntityQuotas, ...] | Refused) -> Any:
    """Build kio's response of `schema` from the quotas that were found, or the refusal."""
    values: dict[str, Any] = {"error_code": 0, "error_message": None, "entries": None}
    if isinstance(found, tuple):
        values["entries"] = [
            {
                "entity": [{"entity_type": p.type, "entity_name": p.name} for p in each.entity],
                "values": [{"key": key, "value": value} for key, value in each.quotas],
            }
            for each in found
        ]
    else:
        values |= {"error_code": found.error.code, "error_message": _bounded(found.message)}
    return codec.build(schema, {"throttle_time": _ZERO, **values})


def _bounded(reason: str | None) -> str | None:
    if reason is None or len(reason) <= MESSAGE_CHARACTERS_MAX:
        return reason
    return f"{reason[:MESSAGE_CHARACTERS_MAX]}..."
