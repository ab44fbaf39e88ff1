"""`metaquorum features`: describe and change the levels of features (KIP-584)."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from admin.cli.options import Parsed, Target, output_option, say, show, with_target
from admin.cli.output import Columns, columns

if TYPE_CHECKING:
    from admin.model import FeatureInfo, FeaturesDescription


@click.group()
def command() -> None:
    """Describe and change the levels of features."""


@command.command("describe")
@with_target
@output_option
async def describe(target: Target, output: str) -> None:
    """List the features: levels that the node supports, and the level in force."""
    async with target.client() as client:
        found = await client.describe_features()
    show(found, output, described, asdict)


def _name_and_level(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not separator or not name or not level:
        raise ValueError(f"{text!r} is not name=level")
    if level.isascii() and level.isdecimal() and len(level) < 6:
        return name, int(level)
    from statemachine.features.features import level_of_release
    from statemachine.vocabulary import METADATA_VERSION

    if name != METADATA_VERSION:
        raise ValueError(f"{level!r} is not a level of {name}: write a number from 0 on")
    return name, level_of_release(level)


@command.command("upgrade")
@click.option(
    "--feature",
    "features",
    type=Parsed("name=level", _name_and_level),
    multiple=True,
    required=True,
    help="The new level; for metadata.version also a release, like 4.2.",
)
@click.option("--downgrade", is_flag=True, help="Allow a lower level if no metadata is lost.")
@click.option("--unsafe", is_flag=True, help="Allow a lower level even if metadata is lost.")
@click.option("--dry-run", is_flag=True, help="Validate the request; change nothing.")
@with_target
async def upgrade(
    target: Target,
    features: Sequence[tuple[str, int]],
    downgrade: bool,
    unsafe: bool,
    dry_run: bool,
) -> None:
    """Change the levels of features: all of them or, on an error, none."""
    if downgrade and unsafe:
        raise click.UsageError("give --downgrade or --unsafe, not both")
    names = [name for name, _ in features]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name} is given twice", param_hint="--feature")
    from admin.model import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

    upgrade_type = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE if downgrade else UPGRADE
    async with target.client() as client:
        await client.update_features(dict(features), upgrade_type=upgrade_type, dry_run=dry_run)
    for name, level in features:
        say(f"{name} {'can be' if dry_run else 'is'} in force at level {level}.")


def described(found: "FeaturesDescription") -> str:
    """One line per feature; levels of metadata.version with the names of their releases."""
    return columns(found.features, _COLUMNS)


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


_COLUMNS: Final["Columns[FeatureInfo]"] = {
    "FEATURE": lambda each: each.name,
    "SUPPORTED": _supported,
    "IN FORCE": lambda each: _level(each.name, each.level),
}
