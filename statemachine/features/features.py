"""The features of a cluster (KIP-584, KIP-1022): names, levels, defaults and dependencies.

The levels, defaults and dependencies are those of `Feature` and `MetadataVersion` of Kafka 4.3.
Of `metadata.version` only the supported levels are listed.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from statemachine.limits import METADATA_VERSION_MAX, METADATA_VERSION_MIN
from statemachine.records import kafka_records
from statemachine.vocabulary import (
    LEVEL_CONTROLLER_REGISTRATION,
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    LEVEL_ELR,
    METADATA_VERSION,
)

ELR_VERSION: Final = "eligible.leader.replicas.version"
KRAFT_VERSION: Final = "kraft.version"

RELEASES: Final[Mapping[int, str]] = MappingProxyType(
    {
        15: "3.7-IV0",
        16: "3.7-IV1",
        17: "3.7-IV2",
        18: "3.7-IV3",
        19: "3.7-IV4",
        20: "3.8-IV0",
        21: "3.9-IV0",
        22: "4.0-IV0",
        23: "4.0-IV1",
        24: "4.0-IV2",
        25: "4.0-IV3",
        26: "4.1-IV0",
        27: "4.1-IV1",
        28: "4.2-IV0",
        29: "4.2-IV1",
        30: "4.3-IV0",
    }
)
"""Kafka's name of each level of metadata.version."""

RECORDS_CHANGED_AT: Final = frozenset(
    {
        LEVEL_CONTROLLER_REGISTRATION,
        LEVEL_DIRECTORIES,
        LEVEL_ELR,
        LEVEL_CORDONED_DIRECTORIES,
    }
)
"""Levels with records that an older level cannot hold: a downgrade below one loses data."""

assert set(RELEASES) == set(range(METADATA_VERSION_MIN, METADATA_VERSION_MAX + 1))


class Feature(Struct, frozen=True, gc=False):
    """A feature with its levels, default levels and dependencies."""

    name: str
    lowest: int
    highest: int
    founded_at: tuple[tuple[int, int], ...] = ()
    """Pairs in rising order: a level of metadata.version, and the default level from there on."""
    needs: tuple[tuple[int, str, int], ...] = ()
    """Triples: from this level on, it needs the named feature at the given level."""

    def default(self, metadata_version: int) -> int:
        """Return the level in a new cluster with this level of metadata.version."""
        level = 0
        for since, given in self.founded_at:
            if metadata_version >= since:
                level = given
        return level


FEATURES: Final[Mapping[str, Feature]] = MappingProxyType(
    {
        feature.name: feature
        for feature in (
            Feature(METADATA_VERSION, METADATA_VERSION_MIN, METADATA_VERSION_MAX),
            Feature(
                ELR_VERSION,
                0,
                1,
                founded_at=((26, 1),),
                needs=((1, METADATA_VERSION, LEVEL_ELR),),
            ),
            Feature("group.version", 0, 1, founded_at=((22, 1),)),
            # Its level is in control records of the quorum, not in metadata records (KIP-853).
            Feature(KRAFT_VERSION, 0, 1),
            Feature("share.version", 0, 1, founded_at=((28, 1),)),
            Feature("streams.version", 0, 1, founded_at=((29, 1),)),
            Feature("transaction.version", 0, 2, founded_at=((24, 2),)),
        )
    }
)
"""The supported features, by name."""

RANGES: Final[tuple[kafka_records.FeatureRange, ...]] = tuple(
    kafka_records.FeatureRange(
        name=feature.name, min_supported=feature.lowest, max_supported=feature.highest
    )
    for feature in FEATURES.values()
)
"""The supported levels that a controller registers with."""

RECORDED: Final = tuple(sorted(FEATURES.keys() - {METADATA_VERSION, KRAFT_VERSION}))
"""The features besides metadata.version whose levels are FeatureLevel records, in order."""


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the levels that Kafka's format tool sets at this metadata.version."""
    return {name: FEATURES[name].default(metadata_version) for name in RECORDED}


def unmet_need(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Return the feature whose level in `levels` is too low for this one at `level`, or None."""
    for since, needed, needed_level in FEATURES[name].needs:
        if level >= since and levels.get(needed, 0) < needed_level:
            return (
                f"{name} could not be set to {level} because it depends on {needed} level"
                f" {needed_level}"
            )
    return None


def range_refusal(who: str, lowest: int, highest: int, level: int) -> str | None:
    """Return the reason why `who`, which supports this range, cannot have the feature at `level`,
    or None.

    Level 0 is "not in force", which every node supports. The texts are Kafka's (`QuorumFeatures`).
    """
    if lowest <= level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    versions = f"{lowest}" if lowest == highest else f"{lowest}-{highest}"
    return f"{who} only supports versions {versions}"


def unsupported_level(name: str, level: int) -> str | None:
    """Return the reason why this code cannot run with the feature at this level, or None."""
    feature = FEATURES.get(name)
    if feature is None:
        return (
            f"{name} {level} is in force, a feature that this release of metaquorum does not know"
        )
    if feature.lowest <= level <= feature.highest:
        return None
    supported = f"{feature.lowest} to {feature.highest}"
    if name == METADATA_VERSION:
        supported += f" ({RELEASES[feature.lowest]} to {RELEASES[feature.highest]})"
    return f"{name} {level} is in force, this release of metaquorum supports {supported}"


def unsupported_reason(levels: Mapping[str, int]) -> str | None:
    """Return the reason why this code cannot run at these levels in force, or None."""
    reasons = (unsupported_level(name, level) for name, level in levels.items())
    return next(filter(None, reasons), None)


def levels_refusal(
    who: str, ranges: Iterable[kafka_records.FeatureRange], levels: Mapping[str, int]
) -> str | None:
    """Return the reason why `who`, registered with these ranges, cannot have these levels in force,
    or None."""
    supported = {each.name: (each.min_supported, each.max_supported) for each in ranges}
    for name, level in levels.items():
        # Level 0 is "not in force".
        lowest, highest = supported.get(name, (0, 0))
        if level and not lowest <= level <= highest:
            known = f"{lowest} to {highest}" if name in supported else "no level"
            return f"{name} {level} is in force, and {who} supports {known} of it"
    return None


def elr_in_force(levels: Mapping[str, int]) -> bool:
    """Return True if partitions have eligible leader replicas at these levels (KIP-966)."""
    return levels.get(ELR_VERSION, 0) >= 1 and levels.get(METADATA_VERSION, 0) >= LEVEL_ELR


def release_name(level: int) -> str:
    """Return Kafka's name of a level of metadata.version, or the number if it has no known name."""
    return RELEASES.get(level, str(level))


def level_of_release(text: str) -> int:
    """Parse a level of metadata.version: a number, `3.9-IV0`, `3.9` or `3.9.1`.

    A release without -IV means its last level, as for Kafka's `--release-version`. Raises
    ValueError with the valid forms.
    """
    if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) in RELEASES:
        return int(text)
    release = ".".join(text.split(".")[:2])
    found = [
        level
        for level, name in RELEASES.items()
        if release in (name, name.partition("-")[0]) and (text == release or "-" not in text)
    ]
    if not found:
        raise ValueError(
            f"{text!r} is no level of metadata.version: write a number from"
            f" {METADATA_VERSION_MIN} to {METADATA_VERSION_MAX}, or a release from"
            f" {RELEASES[METADATA_VERSION_MIN]} to {RELEASES[METADATA_VERSION_MAX]},"
            " like 3.9 or 3.9-IV0"
        )
    return max(found)
