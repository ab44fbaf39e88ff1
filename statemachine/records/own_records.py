"""Records that Kafka does not have: moves, configurations that they set, stored answers.

Each is the content of a tagged field of a NoOp, so Kafka's readers see only the NoOp. Times are
milliseconds since 1970 by the clock of the controller that wrote them: no safety depends on them.
"""

from typing import Annotated, ClassVar, TypeAlias
from uuid import UUID

from msgspec import Struct

from statemachine.records.primitives import I32, I64, Ids, Int8, Int32, Int64, Wire
from statemachine.vocabulary import BrokerId, MoveId


class MoveOptions(Struct, frozen=True, kw_only=True, gc=False):
    """The options of a move; requests, records and the move itself have these fields."""

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
    """The begin of a move; the plan of its partitions follows in `MovePart`s."""

    TAG: ClassVar[int] = 10_000
    id: Int64
    kind: Int8
    """A `MoveKind`."""
    who: str
    asked_at_ms: Int64
    partitions: Int32
    """The number of accepted partitions."""
    refused: Int32
    """The number of refused partitions."""
    key: Annotated[str, Wire(1)] = ""
    """The idempotency key of the request, if it has one."""
    fingerprint: Annotated[bytes, Wire(2)] = b""
    """The fingerprint of the request with that key."""
    broker: Annotated[BrokerId | None, I32, Wire(5)] = None
    """The broker that a drain empties."""
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
    """A part of the plan of a move; only rollbacks and displays read it."""

    TAG: ClassVar[int] = 10_001
    id: Int64
    part: Int32
    """0, 1, 2, ... of the same move."""
    plan: bytes
    """`PlannedTopic`s, as `codec.plan_bytes` encodes them."""


class MoveChanged(OptionsChange, frozen=True, kw_only=True, gc=False):
    """The change of a move: its state, and options; None is "unchanged"."""

    TAG: ClassVar[int] = 10_002
    id: Int64
    state: Int8
    """A `MoveState`."""
    since_ms: Int64
    """When the state began."""
    reason: Annotated[str, Wire(0)] = ""
    """The reason as a code for programs."""
    detail: Annotated[str, Wire(1)] = ""
    """The reason as text for people."""
    who: Annotated[str, Wire(2)] = ""
    """The principal who requested the state, if there is one."""
    cancelled: Annotated[int, I32, Wire(5)] = 0
    """In a snapshot: the partitions that have left it before they were complete, by outcome."""
    superseded: Annotated[int, I32, Wire(6)] = 0
    gone: Annotated[int, I32, Wire(7)] = 0
    stops_copying: Annotated[bool, Wire(8)] = False
    """Of a pause: True if the steps under way stop, too; False if they complete."""


class MoveEnded(Struct, frozen=True, kw_only=True, gc=False):
    """The end of a move, with the numbers of its partitions by outcome."""

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
    """The end of the listing of ended moves up to this id; ids up to it are not used again."""

    TAG: ClassVar[int] = 10_004
    through: Int64


class MovesPaused(Struct, frozen=True, kw_only=True, gc=False):
    """The begin or the end of a pause of all moves, including later ones."""

    TAG: ClassVar[int] = 10_005
    paused: bool
    who: str
    since_ms: Int64
    stops_copying: Annotated[bool, Wire(0)] = False
    """True if the steps under way stop, too; False if they complete."""


class Remembered(Struct, frozen=True, kw_only=True, gc=False):
    """The stored answer to a request with this idempotency key."""

    TAG: ClassVar[int] = 10_006
    key: str
    fingerprint: bytes
    kind: str
    """The type of the answer."""
    answer: bytes
    at_ms: Int64


class KeysForgotten(Struct, frozen=True, kw_only=True, gc=False):
    """The expiry of the idempotency keys up to this time, inclusive."""

    TAG: ClassVar[int] = 10_007
    through_ms: Int64


class ConfigOwned(Struct, frozen=True, kw_only=True, gc=False):
    """The begin or end of a move's ownership of a configuration, for its throttle (KIP-73)."""

    TAG: ClassVar[int] = 10_008
    move: Int64
    resource_type: Int8
    resource_name: str
    name: str
    previous: str | None
    """While it is owned: the users' value, which is restored afterwards; None is "not set"."""
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
