"""A move as a value: its request, its state, and the outcomes of its partitions.

The partitions that still belong to it are in `PartitionIndex.of_move`. `Owned` is a configuration
that running moves have set, with the users' earlier value.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias
from uuid import UUID

from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from statemachine.records import own_records
from statemachine.records.codec import plan_of
from statemachine.records.own_records import (
    ConfigOwned,
    MoveOptions,
    OptionsChange,
    PlannedPartition,
)
from statemachine.vocabulary import MoveId, MoveOutcome, MoveState, Ownership, Resource


class Left(Struct, frozen=True, kw_only=True, gc=False):
    """The numbers of partitions that have left a move, by outcome.

    Completed partitions are not counted here: they are the rest of those that have left.
    """

    cancelled: int = 0
    superseded: int = 0
    gone: int = 0

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return self.cancelled + self.superseded + self.gone

    def plus(self, outcome: MoveOutcome, count: int = 1) -> "Left":
        """Return the numbers after `count` more partitions have left with this outcome."""
        if outcome is MoveOutcome.COMPLETED or not count:
            return self
        name = outcome.name.lower()
        return replace(self, **{name: getattr(self, name) + count})


NOBODY_LEFT: Final = Left()


def outcome_of(left: Left, completed: int) -> MoveOutcome:
    """Return the outcome of a move with these partition outcomes.

    An operator's cancel counts for most, then a newer target, then a deleted topic.
    """
    if left.cancelled:
        return MoveOutcome.CANCELLED
    if left.superseded:
        return MoveOutcome.SUPERSEDED
    return MoveOutcome.COMPLETED if completed or not left.gone else MoveOutcome.GONE


class Move(Struct, frozen=True, kw_only=True, gc=False):
    """A move that is running, or has ended and is still listed."""

    begun: own_records.MoveBegun
    parts: tuple[bytes, ...] = ()
    """The plan, in order and encoded as in the log: some 3 MB for 100,000 partitions."""
    state: int = MoveState.RUNNING
    since_ms: int
    """When that state began."""
    reason: str = ""
    detail: str = ""
    who: str = ""
    """The principal who requested that state; empty if there is none."""
    stops_copying: bool = False
    """Of a pause: True if the steps under way stop, too."""
    options: MoveOptions
    """The options in force."""
    left: Left = NOBODY_LEFT
    ended: own_records.MoveEnded | None = None

    @property
    def id(self) -> MoveId:
        """The id of the move."""
        return self.begun.id

    @property
    def outcome(self) -> MoveOutcome | None:
        """The outcome of the move, or None while it runs."""
        return None if self.ended is None else MoveOutcome(self.ended.outcome)

    @property
    def planned(self) -> Iterator[tuple[UUID, PlannedPartition]]:
        """The planned partitions in order, each with its topic."""
        for part in self.parts:
            for topic in plan_of(part):
                for partition in topic.partitions:
                    yield topic.topic_id, partition


def is_stopped(move: Move | None, all_paused: own_records.MovesPaused | None) -> bool:
    """Return True if a pause of this running move, or of all moves, stops its copying."""
    if move is None or move.ended is not None:
        return False
    return move.stops_copying or (all_paused is not None and all_paused.stops_copying)


def begun(record: own_records.MoveBegun) -> Move:
    """Return the move that this record begins."""
    return Move(begun=record, since_ms=record.asked_at_ms, options=options_of(record))


def options_of(value: MoveOptions) -> MoveOptions:
    """Return the options among the fields of a request or a record."""
    return convert(value, MoveOptions, from_attributes=True)


def altered(before: MoveOptions, change: OptionsChange) -> MoveOptions:
    """Return the options after this change."""
    given = asdict(convert(change, OptionsChange, from_attributes=True))
    return replace(before, **{name: value for name, value in given.items() if value is not None})


def changed(move: Move, record: own_records.MoveChanged) -> Move:
    """Return the move after this change."""
    recorded = Left(cancelled=record.cancelled, superseded=record.superseded, gone=record.gone)
    return replace(
        move,
        state=record.state,
        since_ms=record.since_ms,
        reason=record.reason,
        detail=record.detail,
        who=record.who,
        stops_copying=record.stops_copying,
        options=altered(move.options, record),
        # Only a snapshot records the outcomes: its reader has not seen the partitions leave.
        left=move.left if recorded == NOBODY_LEFT else recorded,
    )


def move_changed(move: Move, before: MoveOptions) -> own_records.MoveChanged:
    """Return the record of the move's state, and of its options that differ from `before`."""
    return own_records.MoveChanged(
        id=move.id,
        state=move.state,
        since_ms=move.since_ms,
        reason=move.reason,
        detail=move.detail,
        who=move.who,
        stops_copying=move.stops_copying,
        **{
            name: value
            for name in OptionsChange.__struct_fields__
            if (value := getattr(move.options, name)) != getattr(before, name)
        },
    )


def ended(move: Move, left: Left, at_ms: int) -> own_records.MoveEnded:
    """Return the record that ends the move, which has no partitions any more."""
    completed = move.begun.partitions - left.total
    return own_records.MoveEnded(
        id=move.id,
        outcome=outcome_of(left, completed),
        at_ms=at_ms,
        completed=completed,
        **asdict(left),
    )


def move_records(move: Move) -> list[own_records.OurRecord]:
    """Return the records that describe the move in a snapshot."""
    made = begun(move.begun)
    found: list[own_records.OurRecord] = [move.begun]
    found += [
        own_records.MovePart(id=move.id, part=number, plan=plan)
        for number, plan in enumerate(move.parts)
    ]
    if replace(move, parts=(), ended=None) != made:
        found.append(replace(move_changed(move, made.options), **asdict(move.left)))
    if move.ended is not None:
        found.append(move.ended)
    return found


OwnedKey: TypeAlias = tuple[Resource, str]
"""A configuration: its resource and its name."""


class Owned(Struct, frozen=True, kw_only=True, gc=False):
    """The moves that own one configuration, or have lost it to a user."""

    previous: str | None = None
    """The users' value, restored once no move holds the configuration; None if it was not set."""
    holders: tuple[MoveId, ...] = ()
    """The moves that need it, in the order in which they took it."""
    lost: tuple[MoveId, ...] = ()
    """The moves that needed it until a user set it: since then it belongs to the user."""

    @property
    def moves(self) -> tuple[MoveId, ...]:
        """All moves: holders, then those that lost it."""
        return self.holders + self.lost


NO_OWNER: Final = Owned()


def owned_after(before: Owned, record: ConfigOwned) -> Owned:
    """Return the owners of the configuration after this record."""
    move, previous, holders = record.move, before.previous, before.holders
    lost = tuple(each for each in before.lost if each != move)
    if record.owned == Ownership.OWNED:
        holders = holders if move in holders else (*holders, move)
        previous = record.previous
    else:
        holders = tuple(each for each in holders if each != move)
        if record.owned == Ownership.LEFT_TO_USER:
            lost = (*lost, move)
    return Owned(previous=previous if holders else None, holders=holders, lost=lost)


def owned_records(key: OwnedKey, owned: Owned) -> list[ConfigOwned]:
    """Return the records that describe the ownership in a snapshot."""
    rows = [(move, owned.previous, Ownership.OWNED) for move in owned.holders]
    rows += [(move, None, Ownership.LEFT_TO_USER) for move in owned.lost]
    return [config_owned(key, move, how, previous) for move, previous, how in rows]


def config_owned(
    key: OwnedKey, move: MoveId, how: Ownership, previous: str | None = None
) -> ConfigOwned:
    """Return the record that a move takes the configuration, or gives it up."""
    (resource_type, resource_name), name = key
    return ConfigOwned(
        move=move,
        resource_type=resource_type,
        resource_name=resource_name,
        name=name,
        previous=previous,
        owned=how,
    )
