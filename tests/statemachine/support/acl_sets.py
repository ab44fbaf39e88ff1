"""Random ACLs and requests for the authorizer, and the rules of StandardAuthorizer said slowly.

Names share prefixes, so that many patterns match a resource, and others nearly do.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from statemachine.image.image import Image
from statemachine.records.kafka_records import AccessControlEntry
from statemachine.replay import replay
from statemachine.security.authorizer import Operation, ResourceType

RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)
OPERATIONS: Final = tuple(each for each in Operation if each > Operation.ALL)
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3


class Request(NamedTuple):
    """One request to an authorizer."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str


class Scene(NamedTuple):
    """A set of ACLs with the settings of an authorizer, and requests to it."""

    acls: tuple[AccessControlEntry, ...]
    super_users: tuple[str, ...]
    allow_if_no_acl: bool
    requests: tuple[Request, ...]


def random_scene(rng: random.Random, *, acls: int, requests: int, operations: int) -> Scene:
    """A scene of few names, principals and hosts, so that most requests meet some ACLs.

    `operations` is how many of Kafka's are used, the first of which are the oldest.
    """
    letters = rng.choice(["ab", "abc", "a.-_"])
    names = ["*", "+", "kafka-cluster", "hard", *_names(rng, letters, 12)]
    principals = ["User:*", "Group:a", *(f"User:{each}" for each in "abc")]
    hosts = ["*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
    known = OPERATIONS[:operations]
    found = {
        (
            rng.choice(RESOURCE_TYPES[: rng.choice([1, 2, 6])]),
            rng.choice(names),
            rng.choice([LITERAL, PREFIXED]),
            rng.choice(principals),
            rng.choice(hosts[: rng.choice([1, 4])]),
            rng.choice([Operation.ALL, *known]),
            rng.choice([DENY, ALLOW, ALLOW, ALLOW]),
        )
        for _ in range(acls)
    }
    return Scene(
        acls=tuple(
            AccessControlEntry(
                id=UUID(int=number + 1),
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for number, (kind, name, pattern, principal, host, operation, permission) in enumerate(
                sorted(found)
            )
        ),
        super_users=("User:root", "User:c") if rng.random() < 0.2 else ("User:root",),
        allow_if_no_acl=rng.random() < 0.3,
        requests=tuple(
            Request(
                principal=rng.choice([*principals[1:], "User:d", "User:root"]),
                host=rng.choice([*hosts[1:], "10.0.0.3"]),
                operation=rng.choice(known),
                resource_type=rng.choice(RESOURCE_TYPES),
                resource_name=rng.choice([*names[1:], *_names(rng, letters, 6)]),
            )
            for _ in range(requests)
        ),
    )


def _names(rng: random.Random, letters: str, count: int) -> list[str]:
    return ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(count)]


def image_of(acls: Iterable[AccessControlEntry]) -> Image:
    """An image with these ACLs."""
    image = Image()
    for acl in acls:
        replay(image, acl, image.end_offset)
    return image


IMPLIED: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def slowly(scene: Scene, asked: Request) -> bool:
    """Return the decision of StandardAuthorizer, by a look at every ACL."""
    if asked.principal in scene.super_users:
        return True
    of_resource = [acl for acl in scene.acls if _covers(acl, asked)]
    if not of_resource:
        return scene.allow_if_no_acl
    matching = [acl for acl in of_resource if _concerns(acl, asked)]
    return bool(matching) and all(acl.permission_type == ALLOW for acl in matching)


def _covers(acl: AccessControlEntry, asked: Request) -> bool:
    if acl.resource_type != asked.resource_type:
        return False
    if acl.pattern_type == LITERAL:
        return acl.resource_name in ("*", asked.resource_name)
    return asked.resource_name.startswith(acl.resource_name)


def _concerns(acl: AccessControlEntry, asked: Request) -> bool:
    operations = {asked.operation, Operation.ALL}
    if acl.permission_type == ALLOW:
        operations |= IMPLIED.get(asked.operation, set())
    return (
        acl.principal in (asked.principal, "User:*")
        and acl.host in (asked.host, "*")
        and acl.operation in operations
    )


def slowly_by_type(scene: Scene, asked: Request) -> bool:
    """Return the decision of `authorizeByResourceType`, as its documentation describes it."""
    if slowly(scene, asked._replace(resource_name="hardcode")):
        return True
    concerned = [
        acl
        for acl in scene.acls
        if acl.resource_type == asked.resource_type
        and acl.principal in (asked.principal, "User:*")
        and acl.host in (asked.host, "*")
        and acl.operation in (asked.operation, Operation.ALL)
    ]
    denied = {(a.pattern_type, a.resource_name) for a in concerned if a.permission_type == DENY}
    allowed = {(a.pattern_type, a.resource_name) for a in concerned if a.permission_type == ALLOW}
    if (LITERAL, "*") in denied:
        return False
    if (LITERAL, "*") in allowed:
        return True
    return any(
        (pattern, name) not in denied
        and not any((PREFIXED, prefix) in denied for prefix in _prefixes(name))
        for pattern, name in allowed
    )


def _prefixes(name: str) -> Iterator[str]:
    return (name[:length] for length in range(1, len(name) + 1))
