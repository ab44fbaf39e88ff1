"""The features of a cluster (KIP-584, KIP-1022): names, levels, defaults, and what needs what.

The table is data; the functions read it. It decides nothing about a cluster, and changes nothing.
Levels, defaults and dependencies are those of `Feature` and `MetadataVersion` of Kafka 4.2; of
`metadata.version` only the levels are listed that a cluster of ours may have.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from statemachine.limits import METADATA_VERSION_MAX, METADATA_VERSION_MIN
from statemachine.records import kafka_records
from statemachine.vocabulary import METADATA_VERSION

ELR_VERSION: Final = "eligible.leader.replicas.version"
KRAFT_VERSION: Final = "kraft.version"

LEVEL_ELR: Final = 23
"""The level of metadata.version from which on records can carry an ELR (KIP-966)."""

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
    }
)
"""Kafka's name of each level of metadata.version."""

RECORDS_CHANGED_AT: Final = frozenset({15, 17, LEVEL_ELR})
"""Levels whose records an older level cannot hold; going below one loses what they say."""

assert set(RELEASES) == set(range(METADATA_VERSION_MIN, METADATA_VERSION_MAX + 1))


class Feature(Struct, frozen=True, gc=False):
    """One feature: which levels there are, and what goes with them."""

    name: str
    lowest: int
    highest: int
    founded_at: tuple[tuple[int, int], ...] = ()
    """From which level of metadata.version on a new cluster has which level of it, rising."""
    needs: tuple[tuple[int, str, int], ...] = ()
    """From this level on it needs that feature at that level."""

    def default(self, metadata_version: int) -> int:
        """The level that a cluster gets which is founded at this level of metadata.version."""
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
            # Not of the log's records: the quorum's own control records tell its level (KIP-853).
            Feature(KRAFT_VERSION, 0, 1),
            Feature("share.version", 0, 1, founded_at=((28, 1),)),
            Feature("streams.version", 0, 1, founded_at=((29, 1),)),
            Feature("transaction.version", 0, 2, founded_at=((24, 2),)),
        )
    }
)
"""Every feature that this code can read and write, by name."""

RANGES: Final[tuple[kafka_records.FeatureRange, ...]] = tuple(
    kafka_records.FeatureRange(
        name=feature.name, min_supported=feature.lowest, max_supported=feature.highest
    )
    for feature in FEATURES.values()
)
"""What a controller of ours says that it supports when it registers."""

RECORDED: Final = tuple(sorted(FEATURES.keys() - {METADATA_VERSION, KRAFT_VERSION}))
"""The features besides metadata.version whose levels are FeatureLevel records, in order."""


def default_levels(metadata_version: int) -> dict[str, int]:
    """The levels that Kafka's format tool sets at this metadata.version."""
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

    Level 0 is "not in force", which everyone can do. In the words of Kafka's `QuorumFeatures`.
    """
    if lowest <= level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    versions = f"{lowest}" if lowest == highest else f"{lowest}-{highest}"
    return f"{who} only supports versions {versions}"


def elr_in_force(levels: Mapping[str, int]) -> bool:
    """Return True if partitions have eligible leader replicas at these levels (KIP-966)."""
    return levels.get(ELR_VERSION, 0) >= 1 and levels.get(METADATA_VERSION, 0) >= LEVEL_ELR


def release_name(level: int) -> str:
    """Kafka's name of a level of metadata.version, or the number where it has none that we know."""
    return RELEASES.get(level, str(level))


def level_of_release(text: str) -> int:
    """The level of metadata.version that is written as a number, `3.9-IV0`, `3.9` or `3.9.1`.

    A release without -IV means its last level, as for Kafka's `--release-version`. Raises
    ValueError that says what would be right.
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
