"""Configurations that moves have set for as long as they run, and what they were before.

Values only: what a move sets, and when it gives that up, is told by `throttle`.
"""

from typing import Final, TypeAlias

from msgspec import Struct

from statemachine.our_records import ConfigOwned
from statemachine.vocabulary import MoveId, Ownership, Resource

OwnedKey: TypeAlias = tuple[Resource, str]
"""A configuration: the resource that has it, and its name."""


class Owned(Struct, frozen=True, kw_only=True, gc=False):
    """Which moves have set one configuration, or had."""

    previous: str | None = None
    """What its users have set, who have it again once nobody holds it; None is "nothing"."""
    holders: tuple[MoveId, ...] = ()
    """The moves that need it, in the order in which they took it."""
    lost: tuple[MoveId, ...] = ()
    """Those that needed it until a user set it himself: it is his."""

    @property
    def moves(self) -> tuple[MoveId, ...]:
        """All of them."""
        return self.holders + self.lost


_NOBODYS: Final = Owned()


def owned_after(before: Owned | None, record: ConfigOwned) -> Owned | None:
    """Whose the configuration is after this record; None is "no move's"."""
    was = _NOBODYS if before is None else before
    move, previous, holders = record.move, was.previous, was.holders
    lost = tuple(each for each in was.lost if each != move)
    if record.owned == Ownership.OWNED:
        holders = holders if move in holders else (*holders, move)
        previous = record.previous
    else:
        holders = tuple(each for each in holders if each != move)
        if record.owned == Ownership.LEFT_TO_USER:
            lost = (*lost, move)
    if not holders:
        previous = None
    return Owned(previous=previous, holders=holders, lost=lost) if holders or lost else None


def as_records(key: OwnedKey, owned: Owned) -> list[ConfigOwned]:
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
