"""The features of the cluster (KIP-584): the levels that are supported and in force, and changes.

The level of kraft.version is in control records of the quorum, all others are in metadata records.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.schema import (
    Answer,
    AsOfOffset,
    Context,
    DryRun,
    Request,
    Route,
    check_part,
)
from controller.apis.configs import change_features
from statemachine.commands import FeatureUpdate, UpgradeType
from statemachine.errors import Error
from statemachine.features.features import FEATURES, level_of_release, release_name
from statemachine.image.image import Image
from statemachine.near_name import did_you_mean
from statemachine.vocabulary import METADATA_VERSION

BASE: Final = "/v1/features"

Level = Annotated[int, Meta(ge=0, le=2**15 - 1, description="0 is not in force")]


class Feature(Answer, frozen=True, kw_only=True):
    """A feature, the levels that controllers of this release support, and the level in force."""

    name: str
    lowest_supported: int
    highest_supported: int
    level: Annotated[int, Meta(description="The level in force; 0 is not in force")]
    release: Annotated[
        str | None, Meta(description="Kafka's name of a level of metadata.version, like 4.2-IV1")
    ]


class Features(Answer, frozen=True, kw_only=True):
    """Features in the order of their names."""

    as_of_offset: AsOfOffset
    features: tuple[Feature, ...]


class FeaturesChanged(Answer, frozen=True, kw_only=True):
    """The levels that are in force now, or would be."""

    levels: dict[str, int]
    dry_run: DryRun


class DescribeFeatures(Request[Features], frozen=True, kw_only=True):
    """List the features with the levels that are supported and in force."""

    NAME = "features.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    FAILING = "the features cannot be described"

    async def answer(self, context: Context) -> Features:
        controller = context.service.controller

        def read(image: Image) -> Features:
            levels = controller.finalized_features
            return Features(
                as_of_offset=image.end_offset,
                features=tuple([_feature(each, levels.get(each, 0)) for each in sorted(FEATURES)]),
            )

        return await context.read(read)


class AlterFeatures(Request[FeaturesChanged], frozen=True, kw_only=True):
    """Put features in force at these levels, all of them or none."""

    levels: Annotated[
        dict[str, Level | str],
        Meta(min_length=1, description="By name; of metadata.version a release as well, like 4.2"),
    ]
    upgrade_type: Annotated[
        Literal["upgrade", "safe_downgrade", "unsafe_downgrade"],
        Meta(description="A downgrade is safe if no metadata is lost by it"),
    ] = "upgrade"
    dry_run: DryRun = False

    NAME = "features.alter"
    NEEDS = ALTER_CLUSTER
    NEEDS_OF_DRY_RUN = None
    CHANGES = True
    ROUTES = (Route("PATCH", BASE, query=("dry_run",)),)
    ERRORS = (Error.INVALID_UPDATE_VERSION,)
    STATUS_COMMAND = "metaquorum features describe"
    FAILING = "the features cannot be changed"

    def contradiction(self) -> str | None:
        for name, level in self.levels.items():
            if name not in FEATURES:
                return no_feature(name)
            if isinstance(level, str) and name != METADATA_VERSION:
                return f"{level!r} is not a level of {name}: write a number from 0 on"
        try:
            self._numbers()
        except ValueError as error:
            return str(error)
        return None

    def _numbers(self) -> dict[str, int]:
        """The levels as numbers; raises `ValueError` for an unknown release."""
        return {
            name: level if isinstance(level, int) else level_of_release(level)
            for name, level in self.levels.items()
        }

    async def answer(self, context: Context) -> FeaturesChanged:
        levels, upgrade = self._numbers(), UpgradeType[self.upgrade_type.upper()]
        updates = tuple(
            FeatureUpdate(name=name, level=level, upgrade=upgrade) for name, level in levels.items()
        )
        done = await change_features(
            context.service, context.who, updates, validate_only=self.dry_run
        )
        check_part(done)
        return FeaturesChanged(levels=levels, dry_run=self.dry_run)


def no_feature(name: str) -> str:
    """The error of an unknown feature, with those that there are."""
    right = did_you_mean(name, FEATURES) or f"; there are {', '.join(FEATURES)}"
    return f"{name} is not a feature{right}"


def _feature(name: str, level: int) -> Feature:
    known = FEATURES[name]
    is_named = name == METADATA_VERSION and level > 0
    return Feature(
        name=name,
        lowest_supported=known.lowest,
        highest_supported=known.highest,
        level=level,
        release=release_name(level) if is_named else None,
    )
