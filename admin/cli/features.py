"""`metaquorum features`: describe and change the levels of features (KIP-584)."""

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
from admin.cli.output import columns

if TYPE_CHECKING:
    from admin.model import FeatureInfo, FeaturesDescription


@click.group()
def command() -> None:
    """Describe and change the levels of features."""


@command.command("describe")
@output_option
@target_options
def describe(output: str, **whom: Any) -> None:
    """List the features: levels that the node supports, and the level in force."""
    found = run(_describe(target(**whom)))
    if output == "table":
        write(described(found))
    else:
        write_data(features_data(found), output)


@command.command("upgrade")
@click.option(
    "--feature",
    "features",
    multiple=True,
    required=True,
    metavar="NAME=LEVEL",
    help="The new level; for metadata.version also a release, like 4.2.",
)
@click.option("--downgrade", is_flag=True, help="Allow a lower level if no metadata is lost.")
@click.option("--unsafe", is_flag=True, help="Allow a lower level even if metadata is lost.")
@click.option("--dry-run", is_flag=True, help="Validate the request; change nothing.")
@target_options
def upgrade(
    features: Sequence[str], downgrade: bool, unsafe: bool, dry_run: bool, **whom: Any
) -> None:
    """Change the levels of features: all of them or, on an error, none."""
    if downgrade and unsafe:
        raise click.UsageError("give --downgrade or --unsafe, not both")
    levels: dict[str, int] = {}
    for feature in features:
        name, level = _pair(feature)
        if name in levels:
            raise click.BadParameter(f"{name} is given twice", param_hint="--feature")
        levels[name] = level
    from admin.client.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

    upgrade_type = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE if downgrade else UPGRADE
    run(_update(target(**whom), levels, upgrade_type, dry_run))
    would = "can be" if dry_run else "is"
    for name, level in levels.items():
        say(f"{name} {would} in force at level {level}.")


def _pair(feature: str) -> tuple[str, int]:
    name, separator, text = feature.partition("=")
    if not separator or not name or not text:
        raise click.BadParameter(f"{feature!r} is not name=level", param_hint="--feature")
    if text.isascii() and text.isdecimal() and len(text) < 6:
        return name, int(text)
    from statemachine.features.features import level_of_release
    from statemachine.vocabulary import METADATA_VERSION

    if name != METADATA_VERSION:
        raise click.BadParameter(
            f"{text!r} is not a level of {name}: write a number from 0 on", param_hint="--feature"
        )
    try:
        return name, level_of_release(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--feature") from None


async def _describe(whom: Target) -> "FeaturesDescription":
    async with whom.client() as client:
        return await client.describe_features()


async def _update(whom: Target, levels: dict[str, int], upgrade_type: int, dry_run: bool) -> None:
    async with whom.client() as client:
        await client.update_features(levels, upgrade_type=upgrade_type, dry_run=dry_run)


def described(found: "FeaturesDescription") -> str:
    """One line per feature; levels of metadata.version with the names of their releases."""
    rows = [(each.name, _range(each), _level(each.name, each.level)) for each in found.features]
    return columns(("FEATURE", "SUPPORTED", "IN FORCE"), rows)


def features_data(found: "FeaturesDescription") -> dict[str, Any]:
    """The same as plain values; a level of 0 is "not in force"."""
    return {
        "epoch": found.epoch,
        "features": [
            {
                "name": each.name,
                "supported": None if each.supported is None else list(each.supported),
                "level": each.level,
            }
            for each in found.features
        ],
    }


def _range(feature: "FeatureInfo") -> str:
    if feature.supported is None:
        return "unknown"
    lowest, highest = feature.supported
    return f"{_level(feature.name, lowest)} to {_level(feature.name, highest)}"


def _level(name: str, level: int) -> str:
    from statemachine.features.features import release_name
    from statemachine.vocabulary import METADATA_VERSION

    if name != METADATA_VERSION or level == 0:
        return str(level)
    release = release_name(level)
    return str(level) if release == str(level) else f"{level} ({release})"
