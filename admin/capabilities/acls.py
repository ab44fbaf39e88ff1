"""ACLs: list, create and delete them (KIP-11, KIP-290)."""

from heapq import nsmallest
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from admin.capabilities.needs import ALTER_SECURITY, DESCRIBE_CLUSTER
from admin.capabilities.paging import PAGE_SIZE, Page, Paged, PageSize, PageToken
from admin.capabilities.schema import (
    A_co,
    Answer,
    Context,
    DryRun,
    Request,
    Result,
    Route,
    check_part,
    refused,
)
from controller.apis.security import new_id
from controller.service import NO_AUTHORIZER
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.protocol.principal import principal_fault
from statemachine.commands import AclCreation, AclFilter, AclsCreated, AclsDeleted
from statemachine.commands import CreateAcls as CreateCommand
from statemachine.commands import DeleteAcls as DeleteCommand
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.records.kafka_records import AccessControlEntry
from statemachine.security.acls import matches, name_of
from statemachine.security.authorizer import (
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    operations_of_acls,
)
from statemachine.slices import SORTED_US, Slices

BASE: Final = "/v1/acls"
ACLS_SHOWN_MAX: Final = 1_000

ResourceName = Annotated[str, Meta(min_length=1, description="Name or prefix; * is every one")]
Principal = Annotated[str, Meta(description="Like User:alice; User:* is everybody")]
Host = Annotated[str, Meta(min_length=1, description="IP address of clients; * is every one")]
ResourceTypes: TypeAlias = Literal[
    "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"
]
Operations: TypeAlias = Literal[
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
]
_FILTER: Final = (
    *("resource_type", "resource_name", "pattern_type"),
    *("principal", "host", "operation", "permission_type"),
)


class Acl(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An access control entry, in Kafka's words."""

    resource_type: ResourceTypes
    resource_name: ResourceName
    pattern_type: Annotated[
        Literal["LITERAL", "PREFIXED"], Meta(description="PREFIXED: names that begin like this")
    ] = "LITERAL"
    principal: Principal
    host: Host = WILDCARD
    operation: Operations
    permission_type: Annotated[
        Literal["ALLOW", "DENY"], Meta(description="A denial wins over what allows")
    ] = "ALLOW"

    def fault(self) -> str | None:
        """Return why the ACL could have no effect, or None."""
        known = operations_of_acls(ResourceType[self.resource_type])
        if Operation[self.operation] not in known:
            there = ", ".join(each.name for each in known)
            return f"there is no {self.operation} on a {self.resource_type}; there are {there}"
        return principal_fault(self.principal)


class ListedAcl(Answer, frozen=True, kw_only=True):
    """An access control entry, in Kafka's words."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class Acls(Page, frozen=True, kw_only=True):
    """ACLs in the order of their resources and principals."""

    acls: tuple[ListedAcl, ...]


class AclResult(Result, frozen=True, kw_only=True):
    """The result for one ACL."""

    acl: Acl


class CreatedAcls(Answer, frozen=True, kw_only=True):
    """One result for each ACL, in the order of the request."""

    created: Annotated[int, Meta(description="ACLs that are there now, those before included")]
    refused: int
    results: tuple[AclResult, ...]


class DeletedAcls(Answer, frozen=True, kw_only=True):
    """The ACLs that were deleted, or would be."""

    total: int
    acls: Annotated[tuple[ListedAcl, ...], Meta(description="The first of them")]
    dry_run: DryRun


class _FiltersAcls(Request[A_co], frozen=True, kw_only=True):
    """A request about the ACLs that pass a filter, as Kafka's filters do."""

    resource_type: Literal["ANY"] | ResourceTypes = "ANY"
    resource_name: Annotated[str, Meta(min_length=1)] | None = None
    pattern_type: Annotated[
        Literal["ANY", "MATCH", "LITERAL", "PREFIXED"],
        Meta(description="MATCH: every pattern that the resource of the name matches"),
    ] = "ANY"
    principal: Annotated[str, Meta(min_length=1)] | None = None
    host: Annotated[str, Meta(min_length=1)] | None = None
    operation: Literal["ANY"] | Operations = "ANY"
    permission_type: Literal["ANY", "ALLOW", "DENY"] = "ANY"

    @property
    def filter(self) -> AclFilter:
        """The filter in Kafka's numbers."""
        return AclFilter(
            resource_type=ResourceType[self.resource_type],
            resource_name=self.resource_name,
            pattern_type=PatternType[self.pattern_type],
            principal=self.principal,
            host=self.host,
            operation=Operation[self.operation],
            permission_type=PermissionType[self.permission_type],
        )


class ListAcls(Paged, _FiltersAcls[Acls], frozen=True, kw_only=True):
    """List the ACLs that pass a filter."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken = None

    NAME = "acls.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    ERRORS = (ErrorCode.SECURITY_DISABLED,)
    FAILING = "the ACLs cannot be listed"
    ITEMS = "acls"
    POSITION = tuple[int, str, int, str, str, int, int]

    async def answer(self, context: Context) -> Acls:
        _check_authorizer(context)
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Acls]:
        asked = self.filter
        cut = yield from self.cut(
            _key(each) if matches(asked, each) else None for each in image.acls.values()
        )
        acls = []
        for key in cut.shown:
            acls.append(_listed(key))
            yield SORTED_US
        return Acls(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            acls=tuple(acls),
        )


class CreateAcls(Request[CreatedAcls], frozen=True, kw_only=True):
    """Create ACLs; those that are there already stay. Each one is refused by itself."""

    acls: Annotated[tuple[Acl, ...], Meta(min_length=1)]

    NAME = "acls.create"
    NEEDS = ALTER_SECURITY
    CHANGES = True
    ROUTES = (Route("POST", BASE),)
    ERRORS = (ErrorCode.SECURITY_DISABLED, Error.POLICY_VIOLATION)
    STATUS_COMMAND = "metaquorum acls list"
    FAILING = "the ACLs cannot be created"

    def contradiction(self) -> str | None:
        faults = ((number, each.fault()) for number, each in enumerate(self.acls))
        return next((f"acls[{number}]: {fault}" for number, fault in faults if fault), None)

    def command(self, who: str = "") -> CreateCommand:
        return CreateCommand(creations=tuple(map(_creation, self.acls)))

    async def answer(self, context: Context) -> CreatedAcls:
        _check_authorizer(context)
        done = await context.service.carry_out(self.command(), AclsCreated, who=context.who)
        faults = [each for each in done.results if each.error is not Error.NONE]
        if len(faults) == len(done.results):
            raise refused(faults[0].error, faults[0].message)
        return CreatedAcls(
            created=len(done.results) - len(faults),
            refused=len(faults),
            results=tuple(
                AclResult.of(each, acl=acl)
                for acl, each in zip(self.acls, done.results, strict=True)
            ),
        )


class DeleteAcls(_FiltersAcls[DeletedAcls], frozen=True, kw_only=True):
    """Delete the ACLs that pass a filter."""

    everything: Annotated[bool, Meta(description="Every ACL; without a filter only")] = False
    dry_run: Annotated[bool, Meta(description="Find the ACLs and change nothing")] = False

    NAME = "acls.delete"
    NEEDS = ALTER_SECURITY
    CHANGES = True
    ROUTES = (Route("DELETE", BASE, query=(*_FILTER, "everything", "dry_run")),)
    ERRORS = (ErrorCode.SECURITY_DISABLED, Error.POLICY_VIOLATION)
    STATUS_COMMAND = "metaquorum acls list"
    FAILING = "the ACLs cannot be deleted"

    def contradiction(self) -> str | None:
        if (self.filter == _EVERY_ACL) == self.everything:
            return None
        if self.everything:
            return "everything is every ACL; omit the filter"
        return "no ACL is named; give a filter, or everything=true"

    def command(self, who: str = "") -> DeleteCommand:
        return DeleteCommand(filters=(self.filter,), dry_run=self.dry_run)

    async def answer(self, context: Context) -> DeletedAcls:
        _check_authorizer(context)
        done = await context.service.carry_out(self.command(), AclsDeleted, who=context.who)
        (result,) = done.results
        check_part(result)
        shown = nsmallest(ACLS_SHOWN_MAX, result.acls, key=_key)
        return DeletedAcls(
            total=len(result.acls),
            acls=tuple([_listed(_key(each)) for each in shown]),
            dry_run=self.dry_run,
        )


_EVERY_ACL: Final = ListAcls().filter


def _check_authorizer(context: Context) -> None:
    """Refuse ACLs that nobody would enforce."""
    if not context.service.authorization.is_limited:
        raise RequestRefused(*NO_AUTHORIZER)


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        id=new_id(),
        resource_type=ResourceType[acl.resource_type],
        resource_name=acl.resource_name,
        pattern_type=PatternType[acl.pattern_type],
        principal=acl.principal,
        host=acl.host,
        operation=Operation[acl.operation],
        permission_type=PermissionType[acl.permission_type],
    )


_Key: TypeAlias = tuple[int, str, int, str, str, int, int]
"""The sort key of an ACL: all of it but the id."""


def _listed(key: _Key) -> ListedAcl:
    resource_type, resource_name, pattern_type, principal, host, operation, permission_type = key
    return ListedAcl(
        resource_type=name_of(ResourceType, resource_type),
        resource_name=resource_name,
        pattern_type=name_of(PatternType, pattern_type),
        principal=principal,
        host=host,
        operation=name_of(Operation, operation),
        permission_type=name_of(PermissionType, permission_type),
    )


def _key(acl: AccessControlEntry) -> _Key:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
