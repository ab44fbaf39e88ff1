"""`metaquorum configs`: describe and alter configurations of topics and brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from admin.cli.options import (
    Target,
    output_option,
    run,
    say,
    target,
    target_options,
    write,
    write_data,
)

if TYPE_CHECKING:
    from admin.client.configs import ConfigInfo

_TOPIC = 2
_BROKER = 4


@click.group()
def command() -> None:
    """Describe and alter the configurations of topics and brokers."""


def _resource_options(decorated: Any) -> Any:
    options = (
        click.option("--topic", help="A topic."),
        click.option("--broker", type=click.IntRange(0), help="A broker, by its id."),
        click.option("--broker-default", is_flag=True, help="The default of all brokers."),
    )
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@command.command("describe")
@_resource_options
@output_option
@target_options
def describe(
    topic: str | None, broker: int | None, broker_default: bool, output: str, **whom: Any
) -> None:
    """List every configuration with its value and source.

    To describe one broker, connect to that broker, which also knows its own file, or to a
    controller.
    """
    kind, name = _resource(topic, broker, broker_default)
    found = run(_describe(target(**whom), kind, name))
    if output != "table":
        write_data(
            [{"name": each.name, "value": each.value, "source": each.source} for each in found],
            output,
        )
    elif found:
        from admin.cli.output import columns

        rows = [
            (each.name, "(hidden)" if each.value is None else each.value, each.source)
            for each in found
        ]
        write(columns(("NAME", "VALUE", "SOURCE"), rows))


@command.command("alter")
@_resource_options
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="A new value.")
@click.option("--delete", "removed", multiple=True, metavar="NAME", help="Reset to the default.")
@target_options
def alter(
    topic: str | None,
    broker: int | None,
    broker_default: bool,
    values: Sequence[str],
    removed: Sequence[str],
    **whom: Any,
) -> None:
    """Set or delete configurations: all of them or, on an error, none."""
    kind, name = _resource(topic, broker, broker_default)
    pairs = [_pair(value) for value in values]
    names = [*(each for each, _ in pairs), *removed]
    if not names:
        raise click.UsageError("nothing to change: give --set name=value or --delete name")
    for each in names:
        if names.count(each) > 1:
            raise click.UsageError(f"{each} is given twice")
    run(_alter(target(**whom), kind, name, dict(pairs), removed))
    say(f"Changed {', '.join(names)}.")


def _resource(topic: str | None, broker: int | None, broker_default: bool) -> tuple[int, str]:
    if (topic is not None) + (broker is not None) + broker_default != 1:
        raise click.UsageError("give one of --topic, --broker and --broker-default")
    if topic is not None:
        return _TOPIC, topic
    return _BROKER, "" if broker is None else str(broker)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not name=value", param_hint="--set")
    return name, value


async def _describe(whom: Target, kind: int, name: str) -> "Sequence[ConfigInfo]":
    async with whom.client() as client:
        return await client.describe_configs(kind, name)


async def _alter(
    whom: Target, kind: int, name: str, values: dict[str, str], removed: Sequence[str]
) -> None:
    async with whom.client() as client:
        await client.alter_configs(kind, name, values, removed)
