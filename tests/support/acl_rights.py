"""Rights as texts like "ALTER CLUSTER", the ACLs that grant them, and the refusals in answers."""

import dataclasses
import itertools
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from statemachine.commands import AclCreation
from statemachine.security.authorizer import Operation, PatternType, PermissionType, ResourceType

DENIALS: Final = frozenset({29, 30, 31, 53, 65})
"""The error codes of a missing right."""

Rights = tuple[str, ...]

_ids: Final = itertools.count(1)

IMPLYING: Final = MappingProxyType(
    {
        "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
        "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
    }
)
ALL_RIGHTS: Final = frozenset(
    f"{operation.name} {kind.name}"
    for operation in Operation
    for kind in ResourceType
    if Operation.READ <= operation <= Operation.DESCRIBE_TOKENS and kind > ResourceType.ANY
)


def others(sets: tuple[Rights, ...]) -> Rights:
    """Every right but these and those that imply them."""
    needed = {right for rights in sets for right in rights}
    for right in tuple(needed):
        operation, kind = right.split()
        needed |= {f"{each} {kind}" for each in IMPLYING.get(operation, ())}
    if "DELETE TOPIC" in needed:
        # Whoever may describe a topic hears that it does not exist.
        needed |= {f"{each} TOPIC" for each in ("DESCRIBE", *IMPLYING["DESCRIBE"])}
    return tuple(sorted(ALL_RIGHTS - needed))


def error_of(right: str) -> int:
    kind = right.split()[1]
    return {"TOPIC": 29, "GROUP": 30, "CLUSTER": 31}[kind]


def acl(principal: str, right: str, name: str | None = None, **more: Any) -> AclCreation:
    operation, kind = right.split()
    name = name or ("kafka-cluster" if kind == "CLUSTER" else "*")
    known: dict[str, Any] = {
        "id": UUID(int=next(_ids)),
        "resource_type": ResourceType[kind],
        "resource_name": name,
        "pattern_type": PatternType.LITERAL,
        "principal": principal,
        "host": "*",
        "operation": Operation[operation],
        "permission_type": PermissionType.ALLOW,
    }
    return AclCreation(**{**known, **more})


def codes(value: Any) -> Iterator[int]:
    """The error codes in an answer, but for those beside a success."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name == "error_code":
                yield int(getattr(found, "value", found))
            else:
                yield from codes(found)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from codes(each)


def messages(value: Any) -> Iterator[str]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name == "error_message" and found:
                yield found
            else:
                yield from messages(found)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from messages(each)
