"""Records that Kafka does not have: moves, configurations that they set, stored answers.

Each is the content of a tagged field of a NoOp, which is all that Kafka's readers see. Times are
milliseconds since 1970 by the clock of the controller that wrote them: they are displayed, and
never compared for safety.
"""

from typing import Annotated, ClassVar, TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.records.primitives import I32, I64, Ids, Int8, Int32, Int64, Wire
from statemachine.vocabulary import BrokerId, MoveId


class MoveOptions(Struct, frozen=True, kw_only=True, gc=False):
    """The options of a move as a whole: requests, records and the move itself have these fields."""

    name: Annotated[str, Wire(0)] = ""
    priority: Annotated[int, I32, Wire(4)] = 0
    """Moves with a higher priority begin their steps first."""
    throttle_bytes_per_s: Annotated[int, I64, Wire(3)] = 0
    """The limit of what each broker sends and receives for the move; 0 is no limit."""


class OptionsChange(Struct, frozen=True, kw_only=True, gc=False):
    """A change of the options that a running move may change; None is "unchanged"."""

    priority: Annotated[int | None, I32, Wire(4)] = None
    throttle_bytes_per_s: Annotated[int | None, I64, Wire(3)] = None


class MoveBegun(MoveOptions, frozen=True, kw_only=True, gc=False):
    """Someone has asked for a move; what it asks of each partition follows in `MovePart`s."""

    TAG: ClassVar[int] = 10_000
    id: Int64
    kind: Int8
    """A `MoveKind`."""
    who: str
    asked_at_ms: Int64
    partitions: Int32
    """How many were accepted."""
    refused: Int32
    """How many were asked for and cannot be."""
    key: Annotated[str, Wire(1)] = ""
    """What the request is known by when it is asked again, if its asker gave it a key."""
    fingerprint: Annotated[bytes, Wire(2)] = b""
    """Of the request with that key."""
    broker: Annotated[BrokerId | None, I32, Wire(5)] = None
    """Whom a drain empties."""
    rollback_of: Annotated[MoveId, I64, Wire(6)] = 0


class PlannedPartition(Struct, frozen=True, kw_only=True, gc=False):
    """The target of one partition in a move, and its replicas before."""

    number: Int32
    target: Ids
    original: Ids


class PlannedTopic(Struct, frozen=True, kw_only=True, gc=False):
    """The planned partitions of one topic."""

    topic_id: UUID
    partitions: tuple[PlannedPartition, ...]


class MovePart(Struct, frozen=True, kw_only=True, gc=False):
    """A part of what a move asks for: it is read only for a rollback and to be shown."""

    TAG: ClassVar[int] = 10_001
    id: Int64
    part: Int32
    """0, 1, 2, ... of the same move."""
    plan: bytes
    """`PlannedTopic`s, as `codec.plan_bytes` encodes them."""


class MoveChanged(OptionsChange, frozen=True, kw_only=True, gc=False):
    """A move is in this state from here on; None is "unchanged"."""

    TAG: ClassVar[int] = 10_002
    id: Int64
    state: Int8
    """A `MoveState`."""
    since_ms: Int64
    """Since when it has been in this state."""
    reason: Annotated[str, Wire(0)] = ""
    """Why, as a code that programs compare."""
    detail: Annotated[str, Wire(1)] = ""
    """Why, for people."""
    who: Annotated[str, Wire(2)] = ""
    """Who wanted it, if anyone did."""
    cancelled: Annotated[int, I32, Wire(5)] = 0
    """In a snapshot: how many of its partitions have left it before they were complete, and how."""
    superseded: Annotated[int, I32, Wire(6)] = 0
    gone: Annotated[int, I32, Wire(7)] = 0


class MoveEnded(Struct, frozen=True, kw_only=True, gc=False):
    """None of its partitions is left in the move; so many have left it like this."""

    TAG: ClassVar[int] = 10_003
    id: Int64
    outcome: Int8
    """A `MoveOutcome`."""
    at_ms: Int64
    completed: Int32
    cancelled: Int32
    superseded: Int32
    gone: Int32


class MovesForgotten(Struct, frozen=True, kw_only=True, gc=False):
    """The moves up to this one that have ended are not listed any more, and no id is used again."""

    TAG: ClassVar[int] = 10_004
    through: Int64


class MovesPaused(Struct, frozen=True, kw_only=True, gc=False):
    """All moves are paused, those to come as well; or that is over."""

    TAG: ClassVar[int] = 10_005
    paused: bool
    who: str
    since_ms: Int64


class Remembered(Struct, frozen=True, kw_only=True, gc=False):
    """A request with this key was carried out, and this was its answer."""

    TAG: ClassVar[int] = 10_006
    key: str
    fingerprint: bytes
    kind: str
    """Which answer it is."""
    answer: bytes
    at_ms: Int64


class KeysForgotten(Struct, frozen=True, kw_only=True, gc=False):
    """The expiry of the idempotency keys up to this time, inclusive."""

    TAG: ClassVar[int] = 10_007
    through_ms: Int64


class ConfigOwned(Struct, frozen=True, kw_only=True, gc=False):
    """A configuration is what the throttle of a move needs, or that is over (KIP-73)."""

    TAG: ClassVar[int] = 10_008
    move: Int64
    resource_type: Int8
    resource_name: str
    name: str
    previous: str | None
    """What users have set where it is owned, and have again afterwards; None is "nothing"."""
    owned: Int8
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
