"""What the facts for which Kafka has no record do to an image; the rules are those of `replay`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from statemachine import our_records
from statemachine.image import Image
from statemachine.move import begun, changed
from statemachine.owned import owned_after
from statemachine.throttle_configs import LISTS
from statemachine.vocabulary import Resource


def _begun(image: Image, record: our_records.MoveBegun, _offset: int) -> None:
    image.set_move(record.id, begun(record))
    if record.id >= image.next_move_id:
        image.set_next_move_id(record.id + 1)


def _part(image: Image, record: our_records.MovePart, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, replace(move, parts=(*move.parts, record.plan)))


def _changed(image: Image, record: our_records.MoveChanged, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, changed(move, record))


def _ended(image: Image, record: our_records.MoveEnded, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, replace(move, ended=record))


def _forgotten(image: Image, record: our_records.MovesForgotten, _offset: int) -> None:
    for move_id, move in list(image.moves.items()):
        if move_id <= record.through and move.ended is not None:
            image.set_move(move_id, None)
    if record.through >= image.next_move_id:
        image.set_next_move_id(record.through + 1)


def _paused(image: Image, record: our_records.MovesPaused, _offset: int) -> None:
    image.set_all_paused(record if record.paused else None)


def _remembered(image: Image, record: our_records.Remembered, _offset: int) -> None:
    image.set_key(record.key, record)


def _keys_forgotten(image: Image, record: our_records.KeysForgotten, _offset: int) -> None:
    for key, remembered in list(image.keys.items()):
        if remembered.at_ms <= record.through_ms:
            image.set_key(key, None)


def _owned(image: Image, record: our_records.ConfigOwned, _offset: int) -> None:
    key = ((record.resource_type, record.resource_name), record.name)
    image.set_owned(key, owned_after(image.owned.get(key), record))


def forget_owned(image: Image, resource: Resource) -> None:
    """The topic is gone, and with it what moves have set of it."""
    for name in LISTS:
        if (resource, name) in image.owned:
            image.set_owned((resource, name), None)


REPLAY_MOVES: Final[Mapping[type, Callable[[Image, Any, int], None]]] = MappingProxyType(
    {
        our_records.MoveBegun: _begun,
        our_records.MovePart: _part,
        our_records.MoveChanged: _changed,
        our_records.MoveEnded: _ended,
        our_records.MovesForgotten: _forgotten,
        our_records.MovesPaused: _paused,
        our_records.Remembered: _remembered,
        our_records.KeysForgotten: _keys_forgotten,
        our_records.ConfigOwned: _owned,
    }
)
"""What each of them does; a test of `replay` keeps it complete."""
