"""`metaquorum configs` and `metaquorum features` (KIP-584): what is in force in the cluster."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import click

from admin.cli.options import (
    NAME_VALUE,
    Parsed,
    Target,
    WholeNumber,
    add_options,
    output_option,
    say,
    show,
    show_done,
    with_target,
)
from admin.cli.output import Columns, columns
from admin.units import whole_number

if TYPE_CHECKING:
    from admin.model import ConfigInfo, FeatureInfo, FeaturesDescription

_CONFIGS: Final["Columns[ConfigInfo]"] = {
    "NAME": lambda each: each.name,
    "VALUE": lambda each: "(hidden)" if each.value is None else each.value,
    "SOURCE": lambda each: each.source,
}

_resource_options: Final = add_options(
    click.option("--topic", help="A topic."),
    click.option("--broker", type=WholeNumber(0), help="A broker, by its id."),
    click.option("--broker-default", is_flag=True, help="The default of all brokers."),
    click.option(
        "--broker-logger",
        "logger",
        type=WholeNumber(0),
        help="The log levels of a node, a broker or a controller, by its id; until it restarts.",
    ),
)


@click.group()
def command() -> None:
    """Describe and alter the configurations of topics and brokers."""


@command.command("describe")
@_resource_options
@with_target
@output_option
async def describe(
    target: Target,
    topic: str | None,
    broker: int | None,
    broker_default: bool,
    logger: int | None,
    output: str,
) -> None:
    """List every configuration with its value and source.

    A broker is asked about itself, because it also knows its own file; a controller does not.
    """
    kind, name = _resource(topic, broker, broker_default, logger)
    target = await _at_node(target, broker, logger)
    async with target.client() as client:
        found = await client.describe_configs(kind, name)
    whose: dict[str, str | int | None] = {"broker": broker}
    if topic is not None:
        whose = {"topic": topic}
    elif logger is not None:
        whose = {"broker_logger": logger}
    data = {**whose, "configs": [asdict(each) for each in found]}
    none = "No configurations are set."
    show(found, output, lambda found: columns(found, _CONFIGS), lambda _: data, none=none)


async def _at_node(target: Target, broker: int | None, logger: int | None) -> Target:
    """The target for a request about this broker, or the log levels of this node."""
    if logger is None:
        is_routed = broker is not None and target.servers
        return await _at_broker(target, broker) if broker is not None and is_routed else target
    async with target.client() as client:
        cluster = await client.describe_cluster()
        gossip = () if target.servers else (await client.discover_brokers()).brokers
    found = {each.id: each.address for each in cluster.nodes}
    found |= {each.replica_id: each.address for each in gossip}
    if logger not in found:
        known = ", ".join(map(str, sorted(found)))
        other = "--bootstrap-controller" if target.servers else "--bootstrap-server"
        raise click.ClickException(
            f"node {logger} is not among those known there: {known}; perhaps with {other}"
        )
    is_broker = logger not in {each.id for each in cluster.nodes} or bool(target.servers)
    address = (found[logger],)
    if is_broker:
        return replace(target, servers=address, controllers=None)
    return replace(target, controllers=address)


async def _at_broker(target: Target, broker: int) -> Target:
    """The target for a request that only this broker answers."""
    async with target.client() as client:
        found = {each.id: each.address for each in await client.brokers()}
    if broker not in found:
        alive = ", ".join(map(str, sorted(found)))
        raise click.ClickException(
            f"broker {broker} is not among those alive: {alive}; --bootstrap-controller needs no "
            "broker"
        )
    return replace(target, servers=(found[broker],))


@command.command("alter")
@_resource_options
@click.option("--set", "values", type=NAME_VALUE, multiple=True, help="A new value.")
@click.option("--delete", "removed", multiple=True, metavar="NAME", help="Reset to the default.")
@click.option(
    "--allow-unknown",
    is_flag=True,
    help="Set names of brokers that this program does not know: of plug-ins, or newer releases.",
)
@with_target
@output_option
async def alter(
    target: Target,
    topic: str | None,
    broker: int | None,
    broker_default: bool,
    logger: int | None,
    values: Sequence[tuple[str, str]],
    removed: Sequence[str],
    allow_unknown: bool,
    output: str,
) -> None:
    """Set or delete configurations: all of them or, on an error, none.

    A broker is asked about itself: it knows what it can change while it runs.
    """
    kind, name = _resource(topic, broker, broker_default, logger)
    names = [*(each for each, _ in values), *removed]
    if not names:
        raise click.UsageError("nothing to change: give --set name=value or --delete name")
    for each in names:
        if names.count(each) > 1:
            raise click.UsageError(f"{each} is given twice")
    if topic is None and logger is None and not allow_unknown:
        _check_broker_configs(each for each, _ in values)
    target = await _at_node(target, broker, logger)
    source = "all brokers" if broker_default else "broker" if topic is None else "topic"
    async with target.client() as client:
        if removed and logger is None:
            found = await client.describe_configs(kind, name)
            own = {each.name for each in found if each.source == source}
            if unset := [each for each in removed if each not in own]:
                raise click.ClickException(
                    f"{', '.join(unset)}: not set there, so there is nothing to delete; nothing "
                    "was changed"
                )
        with hinting(() if topic is None else names):
            await client.alter_configs(kind, name, dict(values), removed)
    show_done(f"Changed {', '.join(names)}.", output, set=dict(values), deleted=[*removed])
    if broker is not None and values and not target.servers and not await _judged(target, broker):
        say(f"A controller does not know what broker {broker} can change while it runs.")


async def _judged(target: Target, broker: int) -> bool:
    """True if the controllers know what this broker can change while it runs."""
    from admin.capabilities.brokers import DescribeBroker
    from admin.faults import AdminError

    try:
        return (await target.ask(DescribeBroker(broker_id=broker))).implementation == "embedded"
    except AdminError:
        return False


def _check_broker_configs(names: Iterable[str]) -> None:
    from statemachine.configs.broker_configs import unknown_broker_config

    for each in names:
        if reason := unknown_broker_config(each):
            plug_ins = "" if reason.endswith("?") else "; --allow-unknown is for plug-ins"
            raise click.UsageError(f"{reason}{plug_ins}")


@contextmanager
def hinting(names: Iterable[str]) -> Iterator[None]:
    """Add to a refusal the nearest names to those that no topic can have."""
    from admin.faults import Refused
    from statemachine.configs.topic_configs import TOPIC_CONFIGS
    from statemachine.near_name import did_you_mean

    try:
        yield
    except Refused as error:
        unknown = (each for each in names if each not in TOPIC_CONFIGS)
        if hints := "".join(did_you_mean(each, TOPIC_CONFIGS) for each in unknown):
            raise click.ClickException(f"{error}{hints}") from None
        raise


def _resource(
    topic: str | None, broker: int | None, broker_default: bool, logger: int | None
) -> tuple[int, str]:
    from statemachine.vocabulary import (
        BROKER_LOGGER_RESOURCE,
        BROKER_RESOURCE,
        CLUSTER_DEFAULT,
        TOPIC_RESOURCE,
    )

    if (topic is not None) + (broker is not None) + broker_default + (logger is not None) != 1:
        raise click.UsageError(
            "give one of --topic, --broker, --broker-default and --broker-logger"
        )
    if logger is not None:
        return BROKER_LOGGER_RESOURCE, str(logger)
    if topic is not None:
        return TOPIC_RESOURCE, topic
    return BROKER_RESOURCE, CLUSTER_DEFAULT if broker is None else str(broker)


@click.group()
def features() -> None:
    """Describe and change the levels of features."""


@features.command("describe")
@with_target
@output_option
async def describe_features(target: Target, output: str) -> None:
    """List the features: levels that the node supports, and the level in force."""
    async with target.client() as client:
        found = await client.describe_features()
    show(found, output, described, asdict)


def _name_and_level(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not separator or not name or not level:
        raise ValueError(f"{text!r} is not name=level")
    if (number := whole_number(level, 32_767)) is not None:
        return name, number
    from admin.capabilities.features import no_feature
    from statemachine.features.features import FEATURES, level_of_release
    from statemachine.vocabulary import METADATA_VERSION

    if name not in FEATURES:
        # A number may be the level of a feature of a newer release.
        raise ValueError(no_feature(name))
    if name != METADATA_VERSION:
        raise ValueError(f"{level!r} is not a level of {name}: write a number from 0 on")
    return name, level_of_release(level)


@features.command("upgrade")
@click.option(
    "--feature",
    "levels",
    type=Parsed("name=level", _name_and_level),
    multiple=True,
    required=True,
    help="The new level; for metadata.version also a release, like 4.2.",
)
@click.option("--downgrade", is_flag=True, help="Allow a lower level if no metadata is lost.")
@click.option("--unsafe", is_flag=True, help="Allow a lower level even if metadata is lost.")
@click.option("--dry-run", is_flag=True, help="Validate the request; change nothing.")
@with_target
@output_option
async def upgrade_features(
    target: Target,
    levels: Sequence[tuple[str, int]],
    downgrade: bool,
    unsafe: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Change the levels of features: all of them or, on an error, none."""
    if downgrade and unsafe:
        raise click.UsageError("give --downgrade or --unsafe, not both")
    names = [name for name, _ in levels]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name} is given twice", param_hint="--feature")
    from admin.faults import Refused
    from statemachine.commands import UpgradeType

    upgrade_type = UpgradeType.SAFE_DOWNGRADE if downgrade else UpgradeType.UPGRADE
    upgrade_type = UpgradeType.UNSAFE_DOWNGRADE if unsafe else upgrade_type
    async with target.client() as client:
        try:
            await client.update_features(dict(levels), upgrade_type=upgrade_type, dry_run=dry_run)
        except Refused as error:
            # In the words of Kafka, whose tool has a command of its own for it.
            if "without setting the upgrade type" not in str(error):
                raise
            hint = "--downgrade allows a lower level if no metadata is lost"
            raise click.ClickException(f"{error}; {hint}") from None
    be = "can be" if dry_run else "is"
    sentences = [f"{name} {be} in force at level {level}." for name, level in levels]
    show_done("\n".join(sentences), output, levels=dict(levels), dry_run=dry_run)


def described(found: "FeaturesDescription") -> str:
    """One line per feature; levels of metadata.version with the names of their releases."""
    return columns(found.features, _FEATURES)


def _supported(feature: "FeatureInfo") -> str:
    if feature.supported is None:
        return "unknown"
    return " to ".join(_level(feature.name, level) for level in feature.supported)


def _level(name: str, level: int) -> str:
    from statemachine.features.features import release_name
    from statemachine.vocabulary import METADATA_VERSION

    if name != METADATA_VERSION or level == 0:
        return str(level)
    release = release_name(level)
    return str(level) if release == str(level) else f"{level} ({release})"


_FEATURES: Final["Columns[FeatureInfo]"] = {
    "FEATURE": lambda each: each.name,
    "SUPPORTED": _supported,
    "IN FORCE": lambda each: _level(each.name, each.level),
}
