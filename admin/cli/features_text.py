"""Features as a table and as data. Pure functions."""

from typing import Any

from admin.cli.tables import columns
from admin.model import FeatureInfo, FeaturesDescription
from statemachine.features.features import release_name
from statemachine.vocabulary import METADATA_VERSION


def described(found: FeaturesDescription) -> str:
    """Every feature, one a line; levels of metadata.version with the names of their releases."""
    rows = [(each.name, _range(each), _level(each.name, each.level)) for each in found.features]
    return columns(("FEATURE", "SUPPORTED", "IN FORCE"), rows)


def features_data(found: FeaturesDescription) -> dict[str, Any]:
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


def _range(feature: FeatureInfo) -> str:
    if feature.supported is None:
        return "unknown"
    lowest, highest = feature.supported
    return f"{_level(feature.name, lowest)} to {_level(feature.name, highest)}"


def _level(name: str, level: int) -> str:
    if name != METADATA_VERSION or level == 0:
        return str(level)
    release = release_name(level)
    return str(level) if release == str(level) else f"{level} ({release})"
