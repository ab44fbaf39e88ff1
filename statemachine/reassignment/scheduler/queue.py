"""The order in which partitions that wait for a step of their reassignment have their turn.

A turn is a number: whoever was asked for first has the lower one, and keeps it from step to step.
Bitmaps of turns say who waits in which group, for which broker and in which move, so that nobody is
looked at who cannot go on. All of it follows from an image and is kept beside the index of its
partitions while somebody decides by it: who changes the image touches what has to be looked at
again. Nothing here knows what a place means, or decides.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from pyroaring import BitMap

from statemachine.configs.effective import MIN_ISR
from statemachine.reassignment.move import Move
from statemachine.reassignment.settings import CLUSTER_CONFIGS
from statemachine.vocabulary import NO_MOVE, BrokerId, MoveId, Replicas

Group: TypeAlias = tuple[int, int]
"""Whoever is in a lower one goes first: class, then priority, the higher first and so negated."""

Turn: TypeAlias = int


class Place(NamedTuple):
    """Where a partition stands that is being reassigned."""

    group: Group | None = None
    """Where it waits; None while a step is under way, or none can begin."""
    waits_for: Replicas = ()
    """The brokers of which one is needed for its next step."""
    move: MoveId = NO_MOVE
    is_hurt: bool = False
    """Whether it lacks replicas, other than those that are being added, that it may not lack."""


class Turns:
    """The turns of all partitions that are being reassigned, by the keys of the index."""

    __slots__ = (
        "_keys",
        "_next",
        "_passed_over",
        "_places",
        "_touched",
        "_turns",
        "groups",
        "hurt",
        "of_move",
        "waiting_for",
    )

    def __init__(self, keys: Iterable[int]) -> None:
        """The partitions with these keys have their turns in this order."""
        self._keys: dict[Turn, int] = {}
        self._turns: dict[int, Turn] = {}
        self._places: dict[Turn, Place] = {}
        self._touched: dict[int, None] = dict.fromkeys(keys)
        self._next = 0
        self._passed_over = (-1, 0)
        self.groups: dict[Group, BitMap] = {}
        """Who could begin a step, but for limits and pauses."""
        self.hurt = BitMap()
        self.of_move: dict[MoveId, BitMap] = {}
        self.waiting_for: dict[BrokerId, BitMap] = {}

    # What has to be looked at again.

    def touch(self, key: int) -> None:
        """The partition with this key has changed."""
        self._touched[key] = None

    def touch_broker(self, broker_id: BrokerId) -> None:
        """The broker has come or gone."""
        for turn in self.waiting_for.get(broker_id, ()):
            self._touched[self._keys[turn]] = None

    def touch_by_move(self, before: Move | None, after: Move | None) -> None:
        """The move has changed; what counts is its priority."""
        if before is not None and after is not None and before.priority != after.priority:
            for turn in self.of_move.get(after.id, ()):
                self._touched[self._keys[turn]] = None

    def touch_by_configs(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Configurations of a topic or of all have changed; what counts are those heeded here."""
        if any(before.get(name) != after.get(name) for name in (MIN_ISR, *CLUSTER_CONFIGS)):
            self._touched.update(dict.fromkeys(self._turns))

    def touched(self) -> Iterator[int]:
        """The keys to be looked at again, in the order in which they were touched first.

        Each is one no more as soon as it is taken, so that whoever stops may go on another time.
        """
        for key in list(self._touched):
            del self._touched[key]
            yield key

    def put(self, key: int, place: Place | None) -> None:
        """The partition with this key stands here; None is "it is not being reassigned".

        One that another move takes over has a new turn.
        """
        turn = self._turns.get(key)
        if turn is not None:
            before = self._places[turn]
            self._leave(turn, before)
            if place is None or place.move != before.move:
                del self._turns[key], self._keys[turn], self._places[turn]
                turn = None
        if place is None:
            return
        if turn is None:
            turn, self._next = self._next, self._next + 1
            self._turns[key], self._keys[turn] = turn, key
        self._places[turn] = place
        self._enter(turn, place)

    # What is asked.

    def turn(self, key: int) -> Turn | None:
        """The turn of the partition with this key, or None."""
        return self._turns.get(key)

    def key(self, turn: Turn) -> int:
        """The key of the partition that has this turn."""
        return self._keys[turn]

    def passed_over(self, turn: Turn) -> int:
        """How often others have gone before this one, which was first and did not fit."""
        first, times = self._passed_over
        return times if turn == first else 0

    def pass_over(self, turn: Turn) -> None:
        """Another one goes before this one, once more."""
        self._passed_over = (turn, self.passed_over(turn) + 1)

    def _enter(self, turn: Turn, place: Place) -> None:
        for bitmaps, name in _bitmaps(self, place):
            bitmap = bitmaps.get(name)
            if bitmap is None:
                bitmap = bitmaps[name] = BitMap()
            bitmap.add(turn)
        if place.is_hurt:
            self.hurt.add(turn)

    def _leave(self, turn: Turn, place: Place) -> None:
        for bitmaps, name in _bitmaps(self, place):
            bitmap = bitmaps[name]
            bitmap.discard(turn)
            if not bitmap:
                del bitmaps[name]
        self.hurt.discard(turn)


def _bitmaps(turns: Turns, place: Place) -> Iterator[tuple[dict[object, BitMap], object]]:
    if place.group is not None:
        yield turns.groups, place.group  # type: ignore[misc]
    if place.move != NO_MOVE:
        yield turns.of_move, place.move  # type: ignore[misc]
    for broker_id in place.waits_for:
        yield turns.waiting_for, broker_id  # type: ignore[misc]
