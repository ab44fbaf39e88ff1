"""A move as a value: its request, its state, and how its partitions have left it.

The partitions that still belong to it are in `PartitionIndex.of_move`. `Owned` is a configuration
that moves have set while they run, with the users' value of before.

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

    Those that are complete are all the others that do not belong to it any more.
    """

    cancelled: int = 0
    superseded: int = 0
    gone: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.cancelled + self.superseded + self.gone

    def plus(self, outcome: MoveOutcome, count: int = 1) -> "Left":
        """So many more have left like this."""
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
    """The plan, in order and as it is in the log: 100,000 partitions are some 3 MB like this."""
    state: int = MoveState.RUNNING
    since_ms: int
    """Since when it has been in that state."""
    reason: str = ""
    detail: str = ""
    who: str = ""
    """The principal who asked for that state, if anyone did."""
    options: MoveOptions
    """The options in force."""
    left: Left = NOBODY_LEFT
    ended: own_records.MoveEnded | None = None

    @property
    def id(self) -> MoveId:
        """Its id."""
        return self.begun.id

    @property
    def outcome(self) -> MoveOutcome | None:
        """The outcome of the move, or None while it runs."""
        return None if self.ended is None else MoveOutcome(self.ended.outcome)

    @property
    def planned(self) -> Iterator[tuple[UUID, PlannedPartition]]:
        """Its plan in order, with the topic of each partition."""
        for part in self.parts:
            for topic in plan_of(part):
                for partition in topic.partitions:
                    yield topic.topic_id, partition


def begun(record: own_records.MoveBegun) -> Move:
    """The move that has just begun."""
    return Move(begun=record, since_ms=record.asked_at_ms, options=options_of(record))


def options_of(value: MoveOptions) -> MoveOptions:
    """Return the options that a request or a record has among its other fields."""
    return convert(value, MoveOptions, from_attributes=True)


def altered(before: MoveOptions, change: OptionsChange) -> MoveOptions:
    """Return the options after this change."""
    given = asdict(convert(change, OptionsChange, from_attributes=True))
    return replace(before, **{name: value for name, value in given.items() if value is not None})


def changed(move: Move, record: own_records.MoveChanged) -> Move:
    """The move after this change."""
    said = Left(cancelled=record.cancelled, superseded=record.superseded, gone=record.gone)
    return replace(
        move,
        state=record.state,
        since_ms=record.since_ms,
        reason=record.reason,
        detail=record.detail,
        who=record.who,
        options=altered(move.options, record),
        # Only a snapshot says it: its reader has not seen them leave.
        left=move.left if said == NOBODY_LEFT else said,
    )


def move_changed(move: Move, before: MoveOptions) -> own_records.MoveChanged:
    """The record of the state of the move, and of its options where they were others `before`."""
    return own_records.MoveChanged(
        id=move.id,
        state=move.state,
        since_ms=move.since_ms,
        reason=move.reason,
        detail=move.detail,
        who=move.who,
        **{
            name: value
            for name in OptionsChange.__struct_fields__
            if (value := getattr(move.options, name)) != getattr(before, name)
        },
    )


def ended(move: Move, left: Left, at_ms: int) -> own_records.MoveEnded:
    """The record that ends the move, none of whose partitions is left in it."""
    completed = move.begun.partitions - left.total
    return own_records.MoveEnded(
        id=move.id,
        outcome=outcome_of(left, completed),
        at_ms=at_ms,
        completed=completed,
        **asdict(left),
    )


def move_records(move: Move) -> list[own_records.OurRecord]:
    """The records that make the move what it is, for a snapshot."""
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
"""A configuration: the resource that has it, and its name."""


class Owned(Struct, frozen=True, kw_only=True, gc=False):
    """The moves that have set one configuration, or had."""

    previous: str | None = None
    """The users' value, which is restored once no move holds the configuration; None is none."""
    holders: tuple[MoveId, ...] = ()
    """The moves that need it, in the order in which they took it."""
    lost: tuple[MoveId, ...] = ()
    """Those that needed it until a user set it himself: it is his."""

    @property
    def moves(self) -> tuple[MoveId, ...]:
        """All of them."""
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
    """The records that make it whose it is, for a snapshot."""
    said = [(move, owned.previous, Ownership.OWNED) for move in owned.holders]
    said += [(move, None, Ownership.LEFT_TO_USER) for move in owned.lost]
    return [config_owned(key, move, how, previous) for move, previous, how in said]


def config_owned(
    key: OwnedKey, move: MoveId, how: Ownership, previous: str | None = None
) -> ConfigOwned:
    """The record that says so."""
    (resource_type, resource_name), name = key
    return ConfigOwned(
        move=move,
        resource_type=resource_type,
        resource_name=resource_name,
        name=name,
        previous=previous,
        owned=how,
    )
