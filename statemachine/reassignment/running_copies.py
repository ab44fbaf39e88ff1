"""The copies that a pause does not stop, each with its reason.

A pause stops a copy by a list of the topic and the rate 0 of the leader, or of the broker that
copies (`throttle`). Either may be out of its hands: the rate also limits another running move, or a
user has set it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct
from pyroaring import BitMap

from statemachine.configs.definitions import parts
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import NO_OWNER, is_stopped
from statemachine.reassignment.throttle import (
    ALL_REPLICAS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    NO_COPIES,
    copying,
    need_of,
)
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    NO_LEADER,
    NO_MOVE,
    TOPIC_RESOURCE,
    BrokerId,
    MoveId,
)

SHOWN_MAX: Final = 100
"""The copies that an answer lists."""
_LISTS_PARSED_MAX: Final = 64


class RunningCopy(Struct, frozen=True, kw_only=True, gc=False):
    """A replica that is copied in spite of a pause."""

    topic: str
    partition: int
    broker_id: BrokerId
    """The broker that copies."""
    reason: str


class RunningCopies(Struct, frozen=True, kw_only=True, gc=False):
    """The first copies in the order of topics and partitions, and the number of all."""

    first: tuple[RunningCopy, ...] = ()
    total: int = 0


def running_copies(image: Image, moves: tuple[MoveId, ...] | None) -> Slices[RunningCopies]:
    """Return the copies of these moves, or of all partitions, that no pause stops."""
    keys = image.index.stepping
    if moves is not None:
        keys = keys & BitMap().union(*map(image.index.keys_of_move, moves))
    first: list[RunningCopy] = []
    total = 0
    for topic, number in (yield from in_order(image.index, keys)):
        yield LOOKED_AT_US
        partition = topic.partition(number)
        found = {} if partition is None else reasons(image, topic, number, partition)
        total += len(found)
        first += [
            RunningCopy(topic=topic.name, partition=number, broker_id=broker_id, reason=reason)
            for broker_id, reason in found.items()
        ][: SHOWN_MAX - len(first)]
    return RunningCopies(first=tuple(first), total=total)


def stands_still(image: Image, topic: Topic, number: int, partition: PartitionRegistration) -> bool:
    """Return True if a pause stops all copies of the step under way."""
    if not is_stopped(image.moves.get(partition.stage.move), image.all_paused):
        return False
    return bool(copying(partition)) and not reasons(image, topic, number, partition)


def reasons(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration
) -> Mapping[BrokerId, str]:
    """Return the brokers that copy the partition, each with the reason why no pause stops it."""
    found = {}
    for broker_id in copying(partition) if partition.leader != NO_LEADER else ():
        reason = _reason(image, topic, number, partition, broker_id)
        if reason is not None:
            found[broker_id] = reason
    return found


def _reason(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration, broker_id: BrokerId
) -> str | None:
    move_id, leader = partition.stage.move, partition.leader
    if move_id == NO_MOVE:
        return "it belongs to no move"
    if need_of(image, move_id) != NO_COPIES:
        return f"move {move_id} is not paused, or only after the step under way"
    # One side is enough; the followers tell why, because leaders are not always in the lists.
    if _obstacle(image, topic, number, LEADERS, leader) is None:
        return None
    return _obstacle(image, topic, number, FOLLOWERS, broker_id)


_Side: TypeAlias = tuple[str, str]
LEADERS: Final[_Side] = (LEADER_REPLICAS, LEADER_RATE)
FOLLOWERS: Final[_Side] = (FOLLOWER_REPLICAS, FOLLOWER_RATE)


def _obstacle(
    image: Image, topic: Topic, number: int, side: _Side, broker_id: BrokerId
) -> str | None:
    """Return the reason why the copy passes on this side; None if it stands still."""
    list_name, rate_name = side
    listed = _pairs(image.configs.get((TOPIC_RESOURCE, topic.name), {}).get(list_name, ""))
    if f"{number}:{broker_id}" not in listed and ALL_REPLICAS not in listed:
        if image.owned.get(((TOPIC_RESOURCE, topic.name), list_name), NO_OWNER).holders:
            return f"{list_name} of topic {topic.name} is full"
        return f"a user has set {list_name} of topic {topic.name}"
    key = ((BROKER_RESOURCE, str(broker_id)), rate_name)
    own = image.configs.get(key[0], {}).get(rate_name)
    rate = own or image.configs.get((BROKER_RESOURCE, ""), {}).get(rate_name)
    if rate == str(NO_COPIES):
        return None
    if rate is None:
        return f"a user has removed {rate_name} of broker {broker_id}"
    for holder in image.owned.get(key, NO_OWNER).holders:
        if need_of(image, holder) != NO_COPIES:
            return f"move {holder} copies to broker {broker_id} at {rate} bytes/s"
    whose = f"broker {broker_id}" if own else "all brokers"
    return f"a user limits copies to {whose} by {rate_name}={rate}"


@lru_cache(maxsize=_LISTS_PARSED_MAX)
def _pairs(value: str) -> frozenset[str]:
    """Return the pairs of a list; the partitions of a topic look at the same list."""
    return frozenset(parts(value))
