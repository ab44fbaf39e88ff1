"""What is asked about the features of the cluster. Values only, never behaviour."""

from enum import Enum

from msgspec import Struct

from statemachine.errors import Error


class UpgradeType(Enum):
    """How far a change of a feature's level may go; the numbers are those of api 57."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only where no metadata can be lost."""
    UNSAFE_DOWNGRADE = 3
    """Also where metadata can be lost."""

    @classmethod
    def _missing_(cls, value: object) -> "UpgradeType":
        return cls.UNKNOWN


class FeatureUpdate(Struct, frozen=True, kw_only=True, gc=False):
    """One feature shall be in force at another level; 0 is "not at all"."""

    name: str
    level: int
    upgrade: UpgradeType = UpgradeType.UPGRADE


class UpdateFeatures(Struct, frozen=True, kw_only=True, gc=False):
    """Features shall be in force at other levels, all of them or none (api 57, KIP-584)."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    controller_id: int
    """The active controller, which speaks for this code."""
    voters: tuple[int, ...]
    """The controllers that must be able to follow."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster where no record says it, for KIP-966."""


class FeaturesUpdated(Struct, frozen=True, kw_only=True, gc=False):
    """All are in force as asked, or none is, and the first that could not be says why."""

    error: Error = Error.NONE
    message: str = ""
