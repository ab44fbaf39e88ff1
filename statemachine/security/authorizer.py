"""The authorizer: decide by ACLs whether a principal may do something, as StandardAuthorizer does.

The rules are those of Kafka's `StandardAuthorizer`: super users first, deny before allow, literal,
prefixed and wildcard patterns, hosts, and implied operations. Where no ACL names the resource,
`allow.everyone.if.no.acl.found` decides.

`AclIndex` belongs to an image, which keeps it in step, change by change. Decisions rest on
committed ACLs only: a grant that a fail-over may take back is not in force yet. The index holds the
ACLs of one pattern, principal and host as one number with a bit for each operation, so that a
decision takes a few look-ups in dictionaries, however many ACLs there are.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum, IntEnum
from typing import Final, Protocol

from msgspec import Struct

from statemachine.records.kafka_records import AccessControlEntry


class ResourceType(IntEnum):
    """The kinds of resources (`org.apache.kafka.common.resource.ResourceType`)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The ways in which a pattern names resources; ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operations on resources (`org.apache.kafka.common.acl.AclOperation`)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """The effects of an ACL (`org.apache.kafka.common.acl.AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
"""The host, and the literal resource name, that match every one."""
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

_ALLOW_BITS: Final = 16
"""Bits of an entry from here on allow an operation; those below deny one."""
_LOW: Final = (1 << _ALLOW_BITS) - 1

assert max(Operation) < _ALLOW_BITS

_IMPLYING: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""The operations that imply another one where they are allowed; a denied one implies nothing."""


OPERATIONS: Final = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE),
        *(Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ),
    ResourceType.GROUP: (
        *(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.TRANSACTIONAL_ID: (
        *(Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that there are on each type of resource (`AclEntry.supportedOperations`).

Kafka's controllers take ACLs with others, which have no effect; its tool, like ours, refuses them.
"""


def operations_of_acls(kind: ResourceType) -> tuple[Operation, ...]:
    """Return the operations that an ACL on this type of resource may name."""
    return (Operation.ALL, *OPERATIONS[kind])


def _bits_of(operations: Iterable[Operation]) -> int:
    return sum(1 << each for each in operations)


_DENYING: Final = tuple(_bits_of({each, Operation.ALL}) for each in Operation)
"""By operation, the bits of an entry that deny it."""
_ALLOWING: Final = tuple(
    _bits_of({each, Operation.ALL, *_IMPLYING.get(each, ())}) << _ALLOW_BITS for each in Operation
)
"""By operation, the bits of an entry that allow it."""

# Nobody may do "all" or "any": these occur in ACLs and filters.
_NEVER_ASKED: Final = frozenset({Operation.UNKNOWN, Operation.ANY, Operation.ALL})


class Rule(Enum):
    """The rule that decided."""

    NO_AUTHORIZER = "no authorizer"
    NOT_READY = "the ACLs are not loaded yet"
    SUPER_USER = "super user"
    ACL = "ACL"
    NO_ACL_FOUND = "no ACL allows it, and allow.everyone.if.no.acl.found is false"
    NOT_ALLOWED = "no ACL allows it"


class MatchingAcl(Struct, frozen=True, gc=False):
    """The ACL that decided."""

    permission: PermissionType
    operation: Operation
    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    principal: str
    host: str

    def __str__(self) -> str:
        pattern = f"{self.resource_type.name} {self.pattern_type.name} {self.resource_name}"
        whom = f"{self.principal} from {self.host}"
        return f"{self.permission.name} {self.operation.name} on {pattern} to {whom}"


class Decision(Struct, frozen=True, gc=False):
    """The answer to a request for authorization, and the rule that decided."""

    allowed: bool
    rule: Rule
    acl: MatchingAcl | None = None
    """With `Rule.ACL`, that ACL."""

    @property
    def reason(self) -> str:
        """The rule of a refusal in words, for the audit log."""
        return self.rule.value if self.acl is None else f"{self.rule.value} {self.acl}"


_Place = tuple[str, str, str]
"""The name in a pattern, the principal and the host."""


class _Patterns:
    """The ACLs of one resource type whose patterns are literal, or prefixed."""

    __slots__ = ("acls", "counts", "lengths", "names_by_length")

    def __init__(self) -> None:
        self.acls: dict[_Place, int] = {}
        """The bits of the operations that are denied and allowed there."""
        self.counts: dict[str, int] = {}
        """The number of places of each pattern."""
        self.lengths: list[int] = []
        """The lengths of the patterns, in order."""
        self.names_by_length: dict[int, int] = {}
        """The number of patterns of each length."""

    def set(self, place: _Place, bits: int) -> None:
        """Set the bits of a place; none removes it."""
        if bits:
            if place not in self.acls:
                self._count(place[0], 1)
            self.acls[place] = bits
        else:
            del self.acls[place]
            self._count(place[0], -1)

    def _count(self, name: str, more: int) -> None:
        before = self.counts.get(name, 0)
        if before + more:
            self.counts[name] = before + more
        else:
            del self.counts[name]
        if before and before + more:
            return
        length = len(name)
        names = self.names_by_length.get(length, 0) + more
        if names:
            self.names_by_length[length] = names
            if not names - more:
                insort(self.lengths, length)
        else:
            del self.names_by_length[length]
            self.lengths.remove(length)


class _Section:
    """The ACLs of one resource type."""

    __slots__ = ("literal", "prefixed")

    def __init__(self) -> None:
        self.literal = _Patterns()
        self.prefixed = _Patterns()


class AclIndex:
    """The ACLs of an image, arranged for decisions."""

    __slots__ = ("_bits", "_proposed", "_proposed_counts", "_repeated", "_sections", "version")

    def __init__(self) -> None:
        self._sections: dict[int, _Section] = {}
        self._bits: dict[int, int] = {}
        """Each number that a place has, once: there are few, and many places."""
        self._repeated: dict[tuple[int, bool, _Place, int], int] = {}
        """How often an ACL is there beyond the first time; no controller writes one twice."""
        self._proposed: deque[tuple[int, AccessControlEntry | None, AccessControlEntry | None]]
        self._proposed = deque()
        """The changes that are not committed: the offset, the ACL before and after."""
        self._proposed_counts: dict[tuple[int, bool, _Place, int], int] = {}
        """How many more of each ACL there are with them."""
        self.version = 0
        """The number of committed changes so far."""

    def __len__(self) -> int:
        """Return the number of ACLs that differ."""
        every = (p for s in self._sections.values() for p in (s.literal, s.prefixed))
        return sum(bits.bit_count() for patterns in every for bits in patterns.acls.values())

    def change(self, before: AccessControlEntry | None, after: AccessControlEntry | None) -> None:
        """Replace an ACL; None stands for none."""
        self.version += 1
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)

    def propose(
        self, offset: int, before: AccessControlEntry | None, after: AccessControlEntry | None
    ) -> None:
        """Note a change by the record at `offset`, which is not committed: only `has` counts it."""
        self._proposed.append((offset, before, after))
        self._count(before, -1)
        self._count(after, 1)

    def commit(self, offset: int | None = None) -> None:
        """Make the proposed changes below `offset`, or all of them: they are committed."""
        proposed = self._proposed
        while proposed and (offset is None or proposed[0][0] < offset):
            _, before, after = proposed.popleft()
            self._count(before, 1)
            self._count(after, -1)
            self.change(before, after)

    def rewind(self, offset: int) -> None:
        """Drop the proposed changes from `offset` on."""
        proposed = self._proposed
        while proposed and proposed[-1][0] >= offset:
            _, before, after = proposed.pop()
            self._count(before, 1)
            self._count(after, -1)

    def _count(self, acl: AccessControlEntry | None, more: int) -> None:
        if acl is None:
            return
        key = _key_of(acl)
        count = self._proposed_counts.get(key, 0) + more
        if count:
            self._proposed_counts[key] = count
        else:
            self._proposed_counts.pop(key, None)

    def has(self, acl: AccessControlEntry) -> bool:
        """Return True if there is an ACL like this one, committed or not, whatever its id."""
        key = _key_of(acl)
        count = self._proposed_counts.get(key, 0)
        section = self._sections.get(acl.resource_type)
        if section is not None:
            patterns = section.literal if _is_literal(acl) else section.prefixed
            if patterns.acls.get(_place_of(acl), 0) & _bit_of(acl):
                count += 1 + self._repeated.get(key, 0)
        return count > 0

    def _add(self, acl: AccessControlEntry) -> None:
        patterns, place, bit = self._find(acl)
        bits = patterns.acls.get(place, 0)
        if bits & bit:
            key = _key_of(acl)
            self._repeated[key] = self._repeated.get(key, 0) + 1
        else:
            bits |= bit
            patterns.set(place, self._bits.setdefault(bits, bits))

    def _remove(self, acl: AccessControlEntry) -> None:
        patterns, place, bit = self._find(acl)
        key = _key_of(acl)
        repeated = self._repeated.pop(key, 0)
        if repeated > 1:
            self._repeated[key] = repeated - 1
        if not repeated:
            patterns.set(place, patterns.acls[place] & ~bit)

    def _find(self, acl: AccessControlEntry) -> tuple[_Patterns, _Place, int]:
        section = self._sections.get(acl.resource_type)
        if section is None:
            section = self._sections[acl.resource_type] = _Section()
        patterns = section.literal if _is_literal(acl) else section.prefixed
        return patterns, _place_of(acl), _bit_of(acl)

    def decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision | None:
        """Return the decision of the ACLs whose pattern matches the resource, None without any.

        A deny decides at once; of those that allow, the first one found is named.
        """
        section = self._sections.get(resource_type)
        if section is None:
            return None
        denying, allowing = _DENYING[operation], _ALLOWING[operation]
        deciding = denying | allowing
        principals = (principal,) if principal == ANY_PRINCIPAL else (principal, ANY_PRINCIPAL)
        hosts = (host,) if host == WILDCARD else (host, WILDCARD)
        has_pattern, allowed = False, None
        for patterns, pattern in _matching(section, name):
            has_pattern = True
            acls = patterns.acls
            for whom in principals:
                for where in hosts:
                    bits = acls.get((pattern, whom, where), 0) & deciding
                    if not bits:
                        continue
                    is_denied = bits & denying
                    if is_denied or allowed is None:
                        place = (pattern, whom, where)
                        acl = _described(resource_type, patterns is section.literal, place, bits)
                        if is_denied:
                            return Decision(False, Rule.ACL, acl)
                        allowed = acl
        if allowed is not None:
            return Decision(True, Rule.ACL, allowed)
        return Decision(False, Rule.NOT_ALLOWED) if has_pattern else None

    def decide_for_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return True if the ACLs leave the principal any resource of this type.

        Implied operations do not count here: so Kafka defines it
        (`Authorizer.authorizeByResourceType`).
        """
        section = self._sections.get(resource_type)
        if section is None:
            return False
        whose = (frozenset({principal, ANY_PRINCIPAL}), frozenset({host, WILDCARD}))
        exactly = _bits_of({operation, Operation.ALL})
        denied = frozenset(_names(section.literal, whose, exactly))
        if WILDCARD in denied:
            return False
        allowed = frozenset(_names(section.literal, whose, exactly << _ALLOW_BITS))
        if WILDCARD in allowed:
            return True
        prefixes_denied = frozenset(_names(section.prefixed, whose, exactly))
        prefixes_allowed = _names(section.prefixed, whose, exactly << _ALLOW_BITS)
        return any(
            not any(name[:length] in prefixes_denied for length in range(1, len(name) + 1))
            for some in (allowed - denied, prefixes_allowed)
            for name in some
        )


def _matching(section: _Section, name: str) -> Iterator[tuple[_Patterns, str]]:
    """Yield each pattern with ACLs that matches the resource."""
    literal, prefixed = section.literal, section.prefixed
    if name in literal.counts:
        yield literal, name
    if WILDCARD in literal.counts and name != WILDCARD:
        yield literal, WILDCARD
    size, counts = len(name), prefixed.counts
    for length in prefixed.lengths:
        if length > size:
            break
        prefix = name[:length]
        if prefix in counts:
            yield prefixed, prefix


def _names(
    patterns: _Patterns, whose: tuple[frozenset[str], frozenset[str]], bits: int
) -> Iterator[str]:
    """Yield the names in patterns of ACLs with any of these bits for any of the principals."""
    principals, hosts = whose
    for (name, principal, host), said in patterns.acls.items():
        if said & bits and principal in principals and host in hosts:
            yield name


def _is_literal(acl: AccessControlEntry) -> bool:
    # StandardAuthorizer takes every other type of pattern for a prefix.
    return acl.pattern_type == PatternType.LITERAL


def _place_of(acl: AccessControlEntry) -> _Place:
    return (acl.resource_name, acl.principal, acl.host)


def _key_of(acl: AccessControlEntry) -> tuple[int, bool, _Place, int]:
    """Return what tells an ACL from all that differ from it in more than their ids."""
    return (acl.resource_type, _is_literal(acl), _place_of(acl), _bit_of(acl))


def _bit_of(acl: AccessControlEntry) -> int:
    """Return the bit of the ACL's operation. One that is not known here matches nothing, but it is
    an ACL of the resource."""
    known = 0 <= acl.operation < _ALLOW_BITS
    operation = acl.operation if known else Operation.UNKNOWN
    # As StandardAuthorizer: what does not allow denies.
    is_allow = acl.permission_type == PermissionType.ALLOW
    return 1 << operation + (_ALLOW_BITS if is_allow else 0)


def _described(
    resource_type: ResourceType, is_literal: bool, place: _Place, bits: int
) -> MatchingAcl:
    denied = bits & _LOW
    chosen = denied or bits >> _ALLOW_BITS
    return MatchingAcl(
        PermissionType.DENY if denied else PermissionType.ALLOW,
        Operation(chosen.bit_length() - 1),
        ResourceType(resource_type),
        PatternType.LITERAL if is_literal else PatternType.PREFIXED,
        *place,
    )


class HasAcls(Protocol):
    """An image, as far as the authorizer reads it."""

    acl_index: AclIndex


_SUPER_USER: Final = Decision(True, Rule.SUPER_USER)
_NOT_READY: Final = Decision(False, Rule.NOT_READY)
_BY_TYPE_REMEMBERED_MAX: Final = 4_096
_PROBE: Final = "hardcode"
"""A resource that is tried first by `authorize_by_resource_type`, as Kafka does."""


class Authorizer:
    """Decisions by the ACLs of an image and the settings of a node."""

    def __init__(
        self,
        image: HasAcls,
        *,
        super_users: Collection[str] = (),
        allow_if_no_acl: bool = False,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`super_users` are principals like User:admin (`super.users`), and `allow_if_no_acl` is
        `allow.everyone.if.no.acl.found`. Until `is_ready`, only super users may do anything."""
        self._image = image
        self._super_users = frozenset(super_users)
        self._default = Decision(allow_if_no_acl, Rule.NO_ACL_FOUND)
        self._is_ready = is_ready
        self._by_type: dict[tuple[str, str, int, int], Decision] = {}
        self._by_type_version: tuple[AclIndex, int] | None = None

    @property
    def is_ready(self) -> bool:
        """True once the ACLs are loaded."""
        return self._is_ready()

    @property
    def version(self) -> tuple[AclIndex, int]:
        """The ACLs that a decision rests on: it holds until this changes, once they are loaded."""
        index = self._image.acl_index
        return index, index.version

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> Decision:
        """Decide on one resource. `principal` is its type and name, User:alice; `host` an IP."""
        assert operation not in _NEVER_ASKED, f"nobody asks for {operation.name}"
        if principal in self._super_users:
            return _SUPER_USER
        if not self._is_ready():
            return _NOT_READY
        index = self._image.acl_index
        found = index.decide(principal, host, operation, resource_type, resource_name)
        return self._default if found is None else found

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Decide whether the principal may do this with at least one resource of the type."""
        first = self.authorize(principal, host, operation, resource_type, _PROBE)
        if first.allowed or first is _NOT_READY:
            return first
        index = self._image.acl_index
        if self._by_type_version != (index, index.version):
            # It takes a look at every ACL of the type, and is asked by each producer.
            self._by_type_version = (index, index.version)
            self._by_type.clear()
        key = (principal, host, int(operation), int(resource_type))
        found = self._by_type.get(key)
        if found is None:
            if len(self._by_type) >= _BY_TYPE_REMEMBERED_MAX:
                self._by_type.clear()
            is_allowed = index.decide_for_any(principal, host, operation, resource_type)
            found = Decision(is_allowed, Rule.ACL if is_allowed else Rule.NOT_ALLOWED)
            self._by_type[key] = found
        return found
