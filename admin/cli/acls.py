"""`metaquorum acls`: the access control entries of the cluster."""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    Exit,
    Target,
    add_options,
    finish,
    output_option,
    show,
    show_done,
    with_target,
    yes_option,
)
from admin.cli.output import columns

if TYPE_CHECKING:
    from admin.client.security import Acl, AclFilter
    from statemachine.security.authorizer import ResourceType

OPERATIONS: Final = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action"),
    *("describe-configs", "alter-configs", "idempotent-write", "create-tokens", "describe-tokens"),
    "two-phase-commit",
)
CLUSTER_NAME: Final = "kafka-cluster"


def _principal(_ctx: click.Context, _param: click.Parameter, given: Any) -> Any:
    """Check the form of each principal; one without a type is a user."""
    from quorum.protocol.principal import USER, principal_fault

    names = (given,) if isinstance(given, str) else given or ()
    found = tuple(each if ":" in each else f"{USER}:{each}" for each in names)
    for each in found:
        fault = principal_fault(each)
        if fault is not None:
            raise click.BadParameter(fault)
    if isinstance(given, str):
        return found[0]
    return found if given is not None else None


_resource: Final = add_options(
    click.option("--topic", help="The name of a topic, or * for all."),
    click.option("--group", help="The name of a consumer group, or *."),
    click.option("--transactional-id", help="A transactional id, or *."),
    click.option("--delegation-token", help="The id of a delegation token, or *."),
    click.option("--user-principal", help="The principal of a user, or *, for tokens of others."),
    click.option("--cluster", is_flag=True, help="The cluster itself."),
)


def _named(
    *, cluster: bool, topic: str | None, group: str | None, **others: str | None
) -> tuple[str, str] | None:
    """Return the type and the name of the resource that the options name."""
    named = {
        "TOPIC": topic,
        "GROUP": group,
        "TRANSACTIONAL_ID": others["transactional_id"],
        "DELEGATION_TOKEN": others["delegation_token"],
        "USER": others["user_principal"],
        "CLUSTER": CLUSTER_NAME if cluster else None,
    }
    found = [(kind, name) for kind, name in named.items() if name is not None]
    if len(found) > 1:
        raise click.UsageError("name one resource, not several")
    return found[0] if found else None


@click.group()
def command() -> None:
    """Add, remove and list ACLs, which say who may do what."""


@command.command("add")
@_resource
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(["literal", "prefixed"]),
    default="literal",
    show_default=True,
    help="prefixed: the resources whose names begin so.",
)
@click.option(
    "--allow-principal",
    "allowed",
    multiple=True,
    callback=_principal,
    help="Allow it to this principal (User:alice).",
)
@click.option(
    "--deny-principal",
    "denied",
    multiple=True,
    callback=_principal,
    help="Deny it to this principal; a denial wins.",
)
@click.option(
    "--operation",
    "operations",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    multiple=True,
    required=True,
    help="The operation; repeat it for several.",
)
@click.option(
    "--host", "hosts", multiple=True, default=("*",), help="From this address only.  [default: *]"
)
@with_target
@output_option
async def add(
    target: Target,
    pattern: str,
    allowed: Sequence[str],
    denied: Sequence[str],
    operations: Sequence[str],
    hosts: Sequence[str],
    output: str,
    **resource: Any,
) -> None:
    """Add ACLs: one for each principal, operation and host."""
    from admin.client import security
    from statemachine.security.authorizer import PatternType, PermissionType, ResourceType

    named = _named(**resource)
    if named is None:
        raise click.UsageError("name the resource: --topic, --group, --cluster, ...")
    if not (allowed or denied):
        raise click.UsageError("give --allow-principal or --deny-principal")
    _check_operations(ResourceType[named[0]], operations)
    principals = [
        *((each, PermissionType.ALLOW) for each in allowed),
        *((each, PermissionType.DENY) for each in denied),
    ]
    acls = [
        security.Acl(
            resource_type=ResourceType[named[0]],
            resource_name=named[1],
            pattern_type=PatternType[pattern.upper()],
            principal=principal,
            host=host,
            operation=_operation(operation),
            permission_type=permission,
        )
        for principal, permission in principals
        for operation in operations
        for host in hosts
    ]
    async with target.client() as client:
        await client.carry_out(security.create_acls(acls))
    show_done("\n".join(f"Added {each}." for each in acls), output, **_data(acls))


def _check_operations(kind: "ResourceType", names: Sequence[str]) -> None:
    """Refuse operations that do not exist on a type of resource, as Kafka's tool does."""
    from statemachine.security.authorizer import operations_of_acls

    known = operations_of_acls(kind)
    for name in names:
        if _operation(name) not in known:
            words = ", ".join(each.name.lower().replace("_", "-") for each in known)
            option = kind.name.lower().replace("_", "-")
            raise click.UsageError(f"there is no {name} on a {option}; there are {words}")


def _operation(name: str) -> Any:
    from statemachine.security.authorizer import Operation

    return Operation[name.upper().replace("-", "_")]


_filter: Final = add_options(
    _resource,
    click.option(
        "--resource-pattern-type",
        "pattern",
        type=click.Choice(["any", "match", "literal", "prefixed"]),
        default="any",
        show_default=True,
        help="match: every pattern that the name of the resource matches.",
    ),
    click.option("--principal", callback=_principal, help="Of this principal (User:alice)."),
    click.option("--host", help="Of this address."),
    click.option(
        "--operation",
        type=click.Choice(OPERATIONS, case_sensitive=False),
        help="Of this operation.",
    ),
    output_option,
)


def with_filter(work: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a filter; `work` gets it as `asked`."""

    @_filter
    def filtered(
        target: Target,
        pattern: str,
        principal: str | None,
        host: str | None,
        operation: str | None,
        **options: Any,
    ) -> Any:
        from admin.client import security
        from statemachine.security.authorizer import Operation, PatternType, ResourceType

        names = ("topic", "group", "transactional_id", "delegation_token", "user_principal")
        named = _named(
            cluster=options.pop("cluster"), **{each: options.pop(each) for each in names}
        )
        asked = security.AclFilter(
            resource_type=ResourceType[named[0] if named else "ANY"],
            resource_name=named[1] if named else None,
            pattern_type=PatternType[pattern.upper()],
            principal=principal,
            host=host,
            operation=Operation.ANY if operation is None else _operation(operation),
        )
        return work(target, asked, **options)

    filtered.__doc__ = work.__doc__
    filtered.__name__ = work.__name__
    return with_target(filtered)


@command.command("list")
@with_filter
async def list_acls(target: Target, asked: "AclFilter", output: str) -> None:
    """List ACLs: all of them, or those that the options select."""
    from admin.client import security

    async with target.client() as client:
        found = security.read_acls(await client.carry_out(security.describe_acls(asked)))
    none = "There are no ACLs." if asked == security.AclFilter() else "No ACLs match."
    show(found, output, _table, _data, none=none)


@command.command("remove")
@click.option("--all", "takes_all", is_flag=True, help="Remove every ACL.")
@yes_option
@with_filter
def remove(
    target: Target, asked: "AclFilter", output: str, *, takes_all: bool, yes: bool
) -> Coroutine[Any, Any, Exit]:
    """Remove the ACLs that the options select, and list them."""
    from admin.client import security

    if (asked == security.AclFilter()) != takes_all:
        raise click.UsageError("select the ACLs to remove, or give --all alone")
    which = "all ACLs" if takes_all else "the ACLs that the options select"
    target.confirm(f"Remove {which}? (acls list shows them)", yes=yes)
    return _remove(target, asked, output)


async def _remove(target: Target, asked: "AclFilter", output: str) -> Exit:
    from admin.client import security

    async with target.client() as client:
        found = security.read_deleted(await client.carry_out(security.delete_acls(asked)))
    show(found, output, _table, _data)
    return finish(errors=() if found else ["No ACL matches; nothing was removed."])


def _table(acls: "Sequence[Acl]") -> str:
    return columns(
        acls,
        {
            "Principal": lambda each: each.principal,
            "Host": lambda each: each.host,
            "Permission": lambda each: each.permission_type.name,
            "Operation": lambda each: each.operation.name,
            "Resource": lambda each: each.resource_type.name,
            "Name": lambda each: each.resource_name,
            "Pattern": lambda each: each.pattern_type.name,
        },
    )


def _data(acls: "Sequence[Acl]") -> dict[str, Any]:
    return {
        "acls": [
            {
                "principal": each.principal,
                "host": each.host,
                "permission_type": each.permission_type.name,
                "operation": each.operation.name,
                "resource_type": each.resource_type.name,
                "resource_name": each.resource_name,
                "pattern_type": each.pattern_type.name,
            }
            for each in acls
        ]
    }
