"""`metaquorum configs`: describe and alter configurations of topics and brokers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from admin.cli.options import (
    NAME_VALUE,
    Target,
    add_options,
    output_option,
    say,
    show,
    with_target,
)
from admin.cli.output import Columns, columns

if TYPE_CHECKING:
    from admin.model import ConfigInfo

_COLUMNS: Final["Columns[ConfigInfo]"] = {
    "NAME": lambda each: each.name,
    "VALUE": lambda each: "(hidden)" if each.value is None else each.value,
    "SOURCE": lambda each: each.source,
}

_resource_options: Final = add_options(
    click.option("--topic", help="A topic."),
    click.option("--broker", type=click.IntRange(0), help="A broker, by its id."),
    click.option("--broker-default", is_flag=True, help="The default of all brokers."),
)


@click.group()
def command() -> None:
    """Describe and alter the configurations of topics and brokers."""


@command.command("describe")
@_resource_options
@with_target
@output_option
async def describe(
    target: Target, topic: str | None, broker: int | None, broker_default: bool, output: str
) -> None:
    """List every configuration with its value and source.

    To describe one broker, connect to that broker, which also knows its own file, or to a
    controller.
    """
    kind, name = _resource(topic, broker, broker_default)
    async with target.client() as client:
        found = await client.describe_configs(kind, name)
    if found or output != "table":
        show(
            found,
            output,
            lambda found: columns(found, _COLUMNS),
            lambda found: [asdict(each) for each in found],
        )


@command.command("alter")
@_resource_options
@click.option("--set", "values", type=NAME_VALUE, multiple=True, help="A new value.")
@click.option("--delete", "removed", multiple=True, metavar="NAME", help="Reset to the default.")
@with_target
async def alter(
    target: Target,
    topic: str | None,
    broker: int | None,
    broker_default: bool,
    values: Sequence[tuple[str, str]],
    removed: Sequence[str],
) -> None:
    """Set or delete configurations: all of them or, on an error, none."""
    kind, name = _resource(topic, broker, broker_default)
    names = [*(each for each, _ in values), *removed]
    if not names:
        raise click.UsageError("nothing to change: give --set name=value or --delete name")
    for each in names:
        if names.count(each) > 1:
            raise click.UsageError(f"{each} is given twice")
    async with target.client() as client:
        await client.alter_configs(kind, name, dict(values), removed)
    say(f"Changed {', '.join(names)}.")


def _resource(topic: str | None, broker: int | None, broker_default: bool) -> tuple[int, str]:
    from admin.model import ALL_BROKERS, BROKER, TOPIC

    if (topic is not None) + (broker is not None) + broker_default != 1:
        raise click.UsageError("give one of --topic, --broker and --broker-default")
    if topic is not None:
        return TOPIC, topic
    return BROKER, ALL_BROKERS if broker is None else str(broker)
