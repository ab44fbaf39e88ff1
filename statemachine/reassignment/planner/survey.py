"""The survey of a cluster for the planner: all brokers, and partitions in pieces.

A planner reads many partitions in pieces and yields in between. The image may change meanwhile: the
request that submits the plan is decided on its later state.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from statemachine.brokers.lifecycle import is_closed, takers
from statemachine.image.image import Image
from statemachine.reassignment.planner.placing import Racks
from statemachine.reassignment.settings import limits
from statemachine.slices import PASSED_US, Slices, sort_in_slices
from statemachine.vocabulary import NO_LEADER, BrokerId, MoveId, MoveKind, Replicas

PIECE_PARTITIONS: Final = 1_000
"""Partitions in one piece: one or two milliseconds."""


class ClusterSurvey(Struct, frozen=True, kw_only=True):
    """The brokers as the planner sees them; each list in order of id."""

    takers: tuple[BrokerId, ...]
    """The brokers that may get new replicas."""
    live: tuple[BrokerId, ...]
    fenced: tuple[BrokerId, ...]
    cordoned: tuple[BrokerId, ...]
    closed: tuple[BrokerId, ...]
    """The brokers that get no new replicas: cordoned, or all their log directories are."""
    leaving: tuple[BrokerId, ...]
    """The brokers that are unregistered once they are empty and fenced."""
    racks: Racks
    """The racks of all registered brokers."""
    loads: dict[BrokerId, int]
    """The number of replicas on each broker."""
    leads: dict[BrokerId, int]
    """The number of partitions that each broker leads."""
    is_limited: bool
    """True if there are limits, so that moves may take several steps."""


def survey(image: Image) -> ClusterSurvey:
    """Return the brokers as they are now."""
    index = image.index
    brokers = [image.brokers[each] for each in sorted(image.brokers)]
    return ClusterSurvey(
        takers=tuple(sorted(each.broker_id for each in takers(image))),
        live=tuple(each.broker_id for each in brokers if each.live),
        fenced=tuple(each.broker_id for each in brokers if each.fenced),
        cordoned=tuple(each.broker_id for each in brokers if each.cordoned),
        closed=tuple(each.broker_id for each in brokers if is_closed(each)),
        leaving=tuple(each.broker_id for each in brokers if each.leaving),
        racks={each.broker_id: each.rack for each in brokers},
        loads={each: len(keys) for each, keys in sorted(index.replicas_of.items())},
        leads={each: len(keys) for each, keys in sorted(index.leader_of.items()) if each >= 0},
        is_limited=not limits(image).is_unlimited,
    )


class Stay(StrEnum):
    """The states of a partition that has a replica on a broker to be emptied."""

    FREE = "free"
    """It is not being reassigned, and can be moved."""
    LEAVING = "leaving"
    """Its reassignment takes it off all emptied brokers."""
    BUSY = "busy"
    """Its reassignment leaves a replica on an emptied broker."""
    LEADERLESS = "leaderless"
    """It has no leader to copy it from."""


class Held(Struct, frozen=True, kw_only=True, gc=False):
    """A partition that has a replica on a broker that is to be emptied."""

    topic: str
    partition: int
    replicas: Replicas
    before: Replicas
    """The replicas before the step under way, if there is one."""
    final: Replicas
    """The replicas at the end of its reassignment."""
    leader: BrokerId
    stay: Stay
    move: MoveId
    """The move that it belongs to."""


def held_keys(image: Image, brokers: Collection[BrokerId]) -> list[int]:
    """Return the keys of the partitions that have a replica on any of these brokers now."""
    return list(image.index.of_any(image.index.replicas_of, tuple(sorted(brokers))))


def held(image: Image, keys: Sequence[int], brokers: Collection[BrokerId]) -> list[Held]:
    """Return the partitions that still have a replica on one of the brokers.

    A key may belong to another partition by now, or to none.
    """
    emptied, found = frozenset(brokers), []
    for key in keys:
        place = image.index.at(key)
        partition = None if place is None else place[0].partition(place[1])
        if place is None or partition is None or emptied.isdisjoint(partition.replicas):
            continue
        if partition.moving:
            stay = Stay.LEAVING if emptied.isdisjoint(partition.final) else Stay.BUSY
        else:
            stay = Stay.LEADERLESS if partition.leader == NO_LEADER else Stay.FREE
        found.append(
            Held(
                topic=place[0].name,
                partition=place[1],
                replicas=partition.replicas,
                before=partition.base,
                final=partition.final,
                leader=partition.leader,
                stay=stay,
                move=partition.stage.move,
            )
        )
    return found


def drained_keys(image: Image, brokers: Collection[BrokerId]) -> list[int]:
    """Return the keys of partitions on these brokers that belong to a running drain."""
    index = image.index
    on_them = index.of_any(index.replicas_of, tuple(sorted(brokers)))
    found: list[int] = []
    for move in image.moves.values():
        if move.ended is None and move.begun.kind == MoveKind.DRAIN:
            found += on_them & index.keys_of_move(move.id)
    return found


def nowhere(image: Image, brokers: Collection[BrokerId]) -> list[BrokerId]:
    """Return those of these brokers that are not registered and have no replicas."""
    index = image.index
    return [
        each
        for each in sorted(brokers)
        if each not in image.brokers and not index.count(index.replicas_of, each)
    ]


def drains(image: Image) -> list[tuple[MoveId, BrokerId | None]]:
    """Return the listed drains, running or ended, each with its broker.

    The broker is None if there are several: then only the plan names them.
    """
    return [
        (move.id, move.begun.broker)
        for move in image.moves.values()
        if move.begun.kind == MoveKind.DRAIN
    ]


class Piece(Struct, frozen=True, kw_only=True):
    """Some partitions of the topics that are planned for."""

    replicas: dict[tuple[str, int], Replicas]
    moving: tuple[tuple[str, int], ...]
    """The partitions among them that are being reassigned."""
    next: tuple[int, int]
    """The begin of the next piece: the index of the topic, and the partition."""


class NoTopic(Struct, frozen=True):
    """The error for a topic that does not exist."""

    name: str


def topic_names(image: Image) -> Slices[list[str]]:
    """Return the names of all topics in order. `image` must not change until the last slice."""
    found = []
    for name in (yield from sort_in_slices(image.topic_ids)):
        found.append(name)
        yield PASSED_US
    return found


def topics_piece(image: Image, names: Sequence[str], at: tuple[int, int]) -> Piece | NoTopic:
    """Return one piece of the partitions of these topics, beginning `at` a place.

    It is the last piece if `next` is past the last topic.
    """
    replicas: dict[tuple[str, int], Replicas] = {}
    moving = []
    place, number = at
    looked_at = 0
    while place < len(names) and looked_at < PIECE_PARTITIONS:
        topic = image.topic_named(names[place])
        if topic is None:
            return NoTopic(names[place])
        partition = topic.partition(number)
        looked_at += 1
        if partition is None:
            # Partitions are numbered without gaps: here the topic ends.
            place, number = place + 1, 0
            continue
        replicas[names[place], number] = partition.replicas
        if partition.moving:
            moving.append((names[place], number))
        number += 1
    return Piece(replicas=replicas, moving=tuple(moving), next=(place, number))
