"""CreateAcls, DeleteAcls and DescribeAcls: the access control list (KIP-11, KIP-290, KIP-801).

Checks and errors are those of `AclControlManager` and `AclApis` of Kafka 4.2. A fault in one part
of a request refuses that part alone, where Kafka refuses some requests as a whole, or answers none.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from msgspec.structs import asdict

from statemachine.commands import (
    AclCreation,
    AclFilter,
    AclsCreated,
    AclsDeleted,
    AclsMatched,
    CreateAcls,
    DeleteAcls,
    Done,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import (
    ACL_RECORDS_MAX,
    ACL_TEXT_BYTES_MAX,
    ACLS_COMPARED_MAX,
)
from statemachine.pending_decision import PendingDecision
from statemachine.records.kafka_records import AccessControlEntry, RemoveAccessControlEntry
from statemachine.security.authorizer import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from statemachine.slices import Slices

_RESOURCE_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_PATTERN_TYPES: Final = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
_OPERATIONS: Final = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}
_PERMISSION_TYPES: Final = frozenset({PermissionType.DENY, PermissionType.ALLOW})

_COMPARED_AT_ONCE: Final = 1_000
_COMPARED_US: Final = 500
"""To compare that many ACLs with a filter."""

_TOO_MANY: Final = Refusal(
    Error.POLICY_VIOLATION, f"one request may change at most {ACL_RECORDS_MAX:,} ACLs"
)
_TOO_LONG: Final = Refusal(
    Error.POLICY_VIOLATION,
    f"the filters of one request may compare at most {ACLS_COMPARED_MAX:,} ACLs: name the resource "
    "in each, or use several requests",
)


def name_of(kind: type[IntEnum], number: int) -> str:
    """Return the name of a number; Kafka calls each one that it does not know UNKNOWN."""
    try:
        return kind(number).name
    except ValueError:
        return kind(0).name


# --- CreateAcls ----------------------------------------------------------------------------------


def create_acls(pending: PendingDecision, command: CreateAcls) -> AclsCreated:
    """Create the ACLs that are not there yet; one that is there already is a success too."""
    index, acls = pending.image.acl_index, pending.image.acls
    known: set[tuple[Any, ...]] = set()
    ids, results = set(acls), []
    for creation in command.creations:
        refusal = _creation_fault(creation)
        if refusal is None:
            acl = AccessControlEntry(**asdict(creation))
            said = tuple(asdict(acl).values())[1:]
            if said not in known and not index.has(acl):
                if acl.id in ids:
                    refusal = Refusal(Error.DUPLICATE_RESOURCE, f"the id {acl.id} is taken")
                else:
                    known.add(said)
                    ids.add(acl.id)
                    pending.records.append(acl)
        results.append(Done.from_refusal(refusal))
    if len(pending.records) > ACL_RECORDS_MAX:
        pending.records.clear()
        results = [Done.from_refusal(_TOO_MANY)] * len(command.creations)
    return AclsCreated(results=tuple(results))


def _creation_fault(creation: AclCreation) -> Refusal | None:
    reason = _number_fault(creation) or _text_fault(creation)
    return None if reason is None else Refusal(Error.INVALID_REQUEST, reason)


def _number_fault(creation: AclCreation) -> str | None:
    if creation.resource_type not in _RESOURCE_TYPES:
        return f"Invalid resourceType {name_of(ResourceType, creation.resource_type)}"
    if creation.pattern_type not in _PATTERN_TYPES:
        return f"Invalid patternType {name_of(PatternType, creation.pattern_type)}"
    if creation.operation not in _OPERATIONS:
        return f"Invalid operation {name_of(Operation, creation.operation)}"
    if creation.permission_type not in _PERMISSION_TYPES:
        return f"Invalid permissionType {name_of(PermissionType, creation.permission_type)}"
    return None


def _text_fault(creation: AclCreation) -> str | None:
    is_cluster = creation.resource_type == ResourceType.CLUSTER
    if is_cluster and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Resource name should not be empty"
    kind, colon, _ = creation.principal.partition(":")
    if not kind or not colon:
        # StandardAuthorizer fails on each request that such an ACL may match.
        return f"principal {creation.principal!r} has no type: write it like User:alice"
    if not creation.host:
        return "the host is empty: * is every host"
    for text in (creation.resource_name, creation.principal, creation.host):
        if len(text.encode()) > ACL_TEXT_BYTES_MAX:
            return f"a name, principal or host may have {ACL_TEXT_BYTES_MAX} bytes"
    return None


# --- Filters -------------------------------------------------------------------------------------


def filter_fault(asked: AclFilter) -> Refusal | None:
    """Return the reason to refuse a filter, or None: each number must be one that Kafka knows."""
    for kind, number in (
        (ResourceType, asked.resource_type),
        (PatternType, asked.pattern_type),
        (Operation, asked.operation),
        (PermissionType, asked.permission_type),
    ):
        if number == 0 or number not in set(kind):
            return Refusal(Error.INVALID_REQUEST, f"the filter has an unknown {kind.__name__}")
    return None


def matches(asked: AclFilter, acl: AccessControlEntry) -> bool:
    """Return True if the ACL passes the filter."""
    return (
        asked.resource_type in (acl.resource_type, ResourceType.ANY)
        and asked.principal in (acl.principal, None)
        and asked.host in (acl.host, None)
        and asked.operation in (acl.operation, Operation.ANY)
        and asked.permission_type in (acl.permission_type, PermissionType.ANY)
        and _matches_pattern(asked, acl)
    )


def _matches_pattern(asked: AclFilter, acl: AccessControlEntry) -> bool:
    name, pattern = asked.resource_name, asked.pattern_type
    if pattern != PatternType.MATCH:
        is_type = pattern in (acl.pattern_type, PatternType.ANY)
        return is_type and name in (acl.resource_name, None)
    if name is None:
        return True
    # MATCH: every pattern that covers the resource of this name.
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


# --- DeleteAcls ----------------------------------------------------------------------------------


def delete_acls(pending: PendingDecision, command: DeleteAcls) -> Slices[AclsDeleted]:
    """Delete what each filter matches. An ACL that several match is in the answer to each."""
    faults = [filter_fault(each) for each in command.filters]
    found = yield from _matched(pending.image, command.filters, faults)
    if found is None:
        refused = AclsMatched.from_refusal(_TOO_LONG)
        return AclsDeleted(results=(refused,) * len(command.filters))
    results: list[AclsMatched] = []
    deleted: set[UUID] = set()
    for fault, acls in zip(faults, found, strict=True):
        more = {acl.id for acl in acls} - deleted
        if fault is None and len(deleted) + len(more) > ACL_RECORDS_MAX:
            fault = _TOO_MANY
        if fault is not None:
            results.append(AclsMatched.from_refusal(fault))
            continue
        deleted |= more
        records = [RemoveAccessControlEntry(id=acl.id) for acl in acls if acl.id in more]
        pending.records += records
        results.append(AclsMatched(acls=tuple(acls)))
    return AclsDeleted(results=tuple(results))


def _matched(
    image: Image, filters: Sequence[AclFilter], faults: Sequence[Refusal | None]
) -> Slices[list[list[AccessControlEntry]] | None]:
    """Return the ACLs that pass each filter without a fault; None if that is too much work."""
    by_resource: dict[tuple[int, str, int], list[int]] = {}
    others: list[int] = []
    for number, (asked, fault) in enumerate(zip(filters, faults, strict=True)):
        if fault is not None:
            continue
        is_exact = asked.resource_type in _RESOURCE_TYPES and asked.pattern_type in _PATTERN_TYPES
        if is_exact and asked.resource_name is not None:
            key = (asked.resource_type, asked.resource_name, asked.pattern_type)
            by_resource.setdefault(key, []).append(number)
        else:
            others.append(number)
    found: list[list[AccessControlEntry]] = [[] for _ in filters]
    compared = unpaid = 0
    for acl in image.acls.values():
        resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
        numbers = (*by_resource.get(resource, ()), *others)
        compared += len(numbers)
        if compared > ACLS_COMPARED_MAX:
            return None
        for number in numbers:
            if matches(filters[number], acl):
                found[number].append(acl)
        unpaid += 1 + len(numbers)
        if unpaid >= _COMPARED_AT_ONCE:
            yield _COMPARED_US * unpaid // _COMPARED_AT_ONCE
            unpaid = 0
    return found


# --- DescribeAcls --------------------------------------------------------------------------------


def describe_acls(image: Image, asked: AclFilter) -> Slices[list[AccessControlEntry] | Refusal]:
    """Return the ACLs that pass the filter, in the order of their creation."""
    fault = filter_fault(asked)
    if fault is not None:
        return fault
    found = []
    for number, acl in enumerate(image.acls.values()):
        if matches(asked, acl):
            found.append(acl)
        if number % _COMPARED_AT_ONCE == 0:
            yield _COMPARED_US
    return found


def grouped(acls: Iterable[AccessControlEntry]) -> list[Mapping[str, Any]]:
    """Return the ACLs by resource pattern, as fields of the response to DescribeAcls."""
    found: dict[tuple[int, str, int], dict[tuple[Any, ...], Mapping[str, Any]]] = {}
    for acl in acls:
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        entry = (acl.principal, acl.host, acl.operation, acl.permission_type)
        names = ("principal", "host", "operation", "permission_type")
        found.setdefault(pattern, {})[entry] = dict(zip(names, entry, strict=True))
    return [
        {
            "resource_type": resource_type,
            "resource_name": name,
            "pattern_type": pattern_type,
            "acls": list(entries.values()),
        }
        for (resource_type, name, pattern_type), entries in found.items()
    ]
