"""Records that Kafka does not have: moves, configurations that they set, stored answers.

Kafka's readers see a NoOp with a tagged field (`own_codec`). Times are milliseconds since 1970 by
the clock of the controller that wrote them: they are displayed, and never compared for safety.

"""

from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.vocabulary import BrokerId, MoveId, Replicas


class MoveOptions(Struct, frozen=True, kw_only=True, gc=False):
    """The options of a move as a whole: requests, records and the move itself have these fields."""

    name: str = ""
    priority: int = 0
    """Moves with a higher priority begin their steps first."""
    throttle_bytes_per_s: int = 0
    """The limit of what each broker sends and receives for the move; 0 is no limit."""


class OptionsChange(Struct, frozen=True, kw_only=True, gc=False):
    """A change of the options that a running move may change; None is "unchanged"."""

    priority: int | None = None
    throttle_bytes_per_s: int | None = None


class MoveBegun(MoveOptions, frozen=True, kw_only=True, gc=False):
    """Someone has asked for a move; what it asks of each partition follows in `MovePart`s."""

    id: MoveId
    kind: int
    """A `MoveKind`."""
    who: str
    asked_at_ms: int
    partitions: int
    """How many were accepted."""
    refused: int
    """How many were asked for and cannot be."""
    key: str = ""
    """What the request is known by when it is asked again, if its asker gave it a key."""
    fingerprint: bytes = b""
    """Of the request with that key."""
    broker: BrokerId | None = None
    """Whom a drain empties."""
    rollback_of: MoveId = 0


class PlannedPartition(Struct, frozen=True, kw_only=True, gc=False):
    """The target of one partition in a move, and its replicas before."""

    number: int
    target: Replicas
    original: Replicas


class PlannedTopic(Struct, frozen=True, kw_only=True, gc=False):
    """The planned partitions of one topic."""

    topic_id: UUID
    partitions: tuple[PlannedPartition, ...]


class MovePart(Struct, frozen=True, kw_only=True, gc=False):
    """A part of what a move asks for: it is read only for a rollback and to be shown."""

    id: MoveId
    part: int
    """0, 1, 2, ... of the same move."""
    plan: bytes
    """`PlannedTopic`s as `serde.ours.plan_bytes` has them."""


class MoveChanged(OptionsChange, frozen=True, kw_only=True, gc=False):
    """A move is in this state from here on; None is "unchanged"."""

    id: MoveId
    state: int
    """A `MoveState`."""
    since_ms: int
    """Since when it has been in this state."""
    reason: str = ""
    """Why, as a code that programs compare."""
    detail: str = ""
    """Why, for people."""
    who: str = ""
    """Who wanted it, if anyone did."""
    cancelled: int = 0
    """In a snapshot: how many of its partitions have left it before they were complete, and how."""
    superseded: int = 0
    gone: int = 0


class MoveEnded(Struct, frozen=True, kw_only=True, gc=False):
    """None of its partitions is left in the move; so many have left it like this."""

    id: MoveId
    outcome: int
    """A `MoveOutcome`."""
    at_ms: int
    completed: int
    cancelled: int
    superseded: int
    gone: int


class MovesForgotten(Struct, frozen=True, kw_only=True, gc=False):
    """The moves up to this one that have ended are not listed any more, and no id is used again."""

    through: MoveId


class MovesPaused(Struct, frozen=True, kw_only=True, gc=False):
    """All moves are paused, those to come as well; or that is over."""

    paused: bool
    who: str
    since_ms: int


class Remembered(Struct, frozen=True, kw_only=True, gc=False):
    """A request with this key was carried out, and this was its answer."""

    key: str
    fingerprint: bytes
    kind: str
    """Which answer it is."""
    answer: bytes
    at_ms: int


class KeysForgotten(Struct, frozen=True, kw_only=True, gc=False):
    """The expiry of the idempotency keys up to this time, inclusive."""

    through_ms: int


class ConfigOwned(Struct, frozen=True, kw_only=True, gc=False):
    """A configuration is what the throttle of a move needs, or that is over (KIP-73)."""

    move: MoveId
    resource_type: int
    resource_name: str
    name: str
    previous: str | None
    """What users have set where it is owned, and have again afterwards; None is "nothing"."""
    owned: int
    """An `Ownership`."""


OurRecord: TypeAlias = (
    MoveBegun
    | MovePart
    | MoveChanged
    | MoveEnded
    | MovesForgotten
    | MovesPaused
    | Remembered
    | KeysForgotten
    | ConfigOwned
)
