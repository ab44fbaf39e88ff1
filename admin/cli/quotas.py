"""`metaquorum quotas`: the quotas of users, clients and IP addresses, as in kafka-configs.sh."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    NAME_VALUE,
    Target,
    add_options,
    output_option,
    show,
    show_done,
    with_target,
)
from admin.cli.output import Columns, columns

if TYPE_CHECKING:
    from admin.client.quotas import Entity, EntityQuotas

_TYPES: Final = {"user": "user", "client": "client-id", "ip": "ip"}
"""The entity types of Kafka by the options that name them."""

_entity_options: Final = add_options(
    click.option("--user", help="A user, by its principal's name."),
    click.option("--user-defaults", is_flag=True, help="The default of all users."),
    click.option("--client", help="A client id."),
    click.option("--client-defaults", is_flag=True, help="The default of all client ids."),
    click.option("--ip", help="An IP address or host."),
    click.option("--ip-defaults", is_flag=True, help="The default of all IP addresses."),
)


@click.group()
def command() -> None:
    """Describe and alter the quotas of users, clients and IP addresses."""


@command.command("describe")
@_entity_options
@with_target
@output_option
async def describe(target: Target, output: str, **names: Any) -> None:
    """List the quotas of the named entities, or all of them.

    --user alice lists those of alice with any client as well.
    """
    from admin.client import quotas

    entity = _entity(names)
    async with target.client() as client:
        found = quotas.read_quotas(await client.carry_out(quotas.describe_quotas(entity)))
    none = "No quotas match." if entity else "There are no quotas."
    show(found, output, _table, _data, none=none)


@command.command("alter")
@_entity_options
@click.option("--set", "values", type=NAME_VALUE, multiple=True, help="A quota and its value.")
@click.option("--delete", "removed", multiple=True, metavar="NAME", help="Remove this quota.")
@click.option("--dry-run", is_flag=True, help="Check the request and change nothing.")
@with_target
@output_option
async def alter(
    target: Target,
    values: Sequence[tuple[str, str]],
    removed: Sequence[str],
    dry_run: bool,
    output: str,
    **names: Any,
) -> None:
    """Set or delete quotas of one entity: all of them or, on an error, none.

    --user with --client names that client of that user. The quotas are producer_byte_rate,
    consumer_byte_rate, request_percentage and controller_mutation_rate; of an IP address,
    connection_creation_rate.
    """
    from admin.client import quotas

    entity = _entity(names)
    if not entity:
        raise click.UsageError("name the entity: --user, --client or both, or --ip")
    changed = [*(name for name, _ in values), *removed]
    if not changed:
        raise click.UsageError("nothing to change: give --set name=value or --delete name")
    for each in changed:
        if changed.count(each) > 1:
            raise click.UsageError(f"{each} is given twice")
    call = quotas.alter_quotas(entity, _numbers(values), removed, dry_run=dry_run)
    async with target.client() as client:
        await client.carry_out(call)
    done = "Would change" if dry_run else "Changed"
    sentence = f"{done} {', '.join(changed)} of {quotas.entity_text(entity)}."
    data = {"set": dict(values), "deleted": [*removed], "dry_run": dry_run}
    show_done(sentence, output, entity=entity, **data)


def _entity(names: Mapping[str, Any]) -> "Entity":
    """The entity that the options name; a usage error if they contradict each other."""
    found: dict[str, str | None] = {}
    for option, type in _TYPES.items():
        name, is_default = names[option], names[f"{option}_defaults"]
        if name is not None and is_default:
            raise click.UsageError(f"give --{option} or --{option}-defaults, not both")
        if name == "":
            raise click.UsageError(f"--{option} is empty; --{option}-defaults is the default")
        if name is not None or is_default:
            found[type] = name
    if _TYPES["ip"] in found and len(found) > 1:
        raise click.UsageError("--ip has quotas of its own: omit --user and --client")
    return found


def _numbers(values: Sequence[tuple[str, str]]) -> dict[str, float]:
    found = {}
    for name, text in values:
        try:
            found[name] = float(text)
        except ValueError:
            raise click.UsageError(f"--set {name}: {text!r} is no number") from None
    return found


def _rows(found: "Sequence[EntityQuotas]") -> list[tuple[Mapping[str, str | None], str, float]]:
    return [(each.entity, name, value) for each in found for name, value in each.quotas.items()]


def _named(entity: Mapping[str, str | None], type: str) -> str:
    return (entity[type] or "<default>") if type in entity else "-"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


_COLUMNS: Final["Columns[tuple[Mapping[str, str | None], str, float]]"] = {
    "User": lambda row: _named(row[0], _TYPES["user"]),
    "Client": lambda row: _named(row[0], _TYPES["client"]),
    "Ip": lambda row: _named(row[0], _TYPES["ip"]),
    "Quota": lambda row: row[1],
    "Value": lambda row: _number(row[2]),
}


def _table(found: "Sequence[EntityQuotas]") -> str:
    return columns(_rows(found), _COLUMNS)


def _data(found: "Sequence[EntityQuotas]") -> dict[str, Any]:
    return {
        "entities": [
            {
                "entity": {type.replace("-", "_"): name for type, name in each.entity.items()},
                "quotas": dict(each.quotas),
            }
            for each in found
        ]
    }
