"""Throttled moves: a running move sets its rate in configurations of brokers and topics (KIP-73).

The four configurations are Kafka's, so Kafka's brokers obey them too. A move sets them in the
decision that begins it, before its first replica is added. The log keeps the users' earlier values;
when no move needs a configuration any more, its value is restored, however the moves have ended. Of
several moves the lowest rate applies. A value that a user sets meanwhile belongs to the user: the
moves lose the configuration, report it as lost, and never take it back.

A list names the replicas of all partitions that a move began with, until the move ends: it is
written once, not with every step. It gets shorter only when another move begins or ends. Replicas
in sync are never throttled, so superfluous entries do no harm.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeAlias

from statemachine.configs.definitions import parts
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.limits import (
    CONFIG_VALUE_BYTES_MAX,
    THROTTLE_BYTES_PER_S_MAX,
    THROTTLES_RELEASED_MAX,
    THROTTLES_RELEASED_US_MAX,
)
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.move import Move, Owned, OwnedKey, config_owned
from statemachine.records.own_records import MoveOptions, OptionsChange
from statemachine.slices import (
    BYTES_LISTED_IN_US,
    CONFIGURED_US,
    LOOKED_AT_US,
    PASSED_US,
    Slices,
)
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerId,
    MoveId,
    Ownership,
    Resource,
)

_Partitions: TypeAlias = Iterable[tuple[Topic, int]]


def rate_refusal(options: MoveOptions | OptionsChange) -> Refusal | None:
    """Return the reason to refuse the throttle of these options, or None."""
    bytes_per_s = options.throttle_bytes_per_s
    if bytes_per_s is None or 0 <= bytes_per_s <= THROTTLE_BYTES_PER_S_MAX:
        return None
    return Refusal(
        Error.INVALID_REQUEST,
        f"a throttle of {bytes_per_s} bytes a second is not possible; use a whole number from 1"
        f" to {THROTTLE_BYTES_PER_S_MAX}, or 0 for none",
    )


def begin(
    pending: PendingDecision, move_id: MoveId, partitions: Sequence[tuple[Topic, int]]
) -> Slices[None]:
    """Set the configurations for a move that has just begun with these partitions.

    Entries of earlier moves for these partitions are removed from the lists.
    """
    if pending.image.owned:
        for topic in dict.fromkeys(topic for topic, _ in partitions):
            for name in LISTS:
                yield _set(pending, ((TOPIC_RESOURCE, topic.name), name))
    if rate_of(pending.moves.get(move_id)):
        yield from _take(pending, move_id, partitions)


def alter(pending: PendingDecision, before: Move) -> Slices[None]:
    """Apply a change of the move's throttle; `before` is the move before the change.

    If it has no throttle any more, `release` gives up its configurations.
    """
    move_id = before.id
    rate = rate_of(pending.moves.get(move_id))
    if rate == rate_of(before):
        return
    if not rate:
        pending.has_freed_configs = True
    elif not rate_of(before):
        index = pending.image.index
        yield from _take(pending, move_id, in_order(index, index.keys_of_move(move_id)))
    else:
        for key in pending.owned_keys():
            if key[1] in RATES and move_id in pending.owned(key).holders:
                yield _set(pending, key)


def release(pending: PendingDecision) -> Slices[bool]:
    """Release configurations that moves no longer need, and restore the users' values.

    Return whether some are left for another decision: a move may have had many topics.
    """
    if pending.image.transaction is not None:
        return False
    count = cost_us = 0
    for key in pending.owned_keys():
        yield PASSED_US
        owned = pending.owned(key)
        over = [each for each in owned.moves if not rate_of(pending.moves.get(each))]
        if not over or _is_deleted(pending, key[0]):
            continue
        if count == THROTTLES_RELEASED_MAX or cost_us >= THROTTLES_RELEASED_US_MAX:
            return True
        count += 1
        for move_id in over:
            pending.own(config_owned(key, move_id, Ownership.RELEASED))
        if owned.holders:
            set_us = _set(pending, key, before=owned)
            cost_us += set_us
            yield set_us
    return False


def is_left(image: Image) -> bool:
    """Return True if a move owns configurations that it no longer needs; called often."""
    return any(not rate_of(image.moves.get(move_id)) for move_id in image.owners)


def leave_to_user(pending: PendingDecision, key: OwnedKey) -> None:
    """Record that a user has set or removed the configuration: the moves lose it."""
    for move_id in pending.owned(key).holders:
        pending.own(config_owned(key, move_id, Ownership.LEFT_TO_USER))


def amend(pending: PendingDecision, key: OwnedKey, value: str | None) -> None:
    """Record the users' part of a list after a user has added or removed entries."""
    holders = pending.owned(key).holders
    assert holders, f"{key} is amended, but no move holds it"
    pending.own(config_owned(key, holders[0], Ownership.OWNED, value))


def rate_of(move: Move | None) -> int:
    """Return the rate of a throttled move in bytes per second; 0 if it has none or has ended."""
    return 0 if move is None or move.ended is not None else move.options.throttle_bytes_per_s


def _take(pending: PendingDecision, move_id: MoveId, partitions: _Partitions) -> Slices[None]:
    needed = yield from _needed(pending, move_id, partitions)
    for key, pairs in needed.items():
        (resource, name), owned = key, pending.owned(key)
        before = owned.previous if owned.holders else pending.configs.get(resource, {}).get(name)
        pending.own(config_owned(key, move_id, Ownership.OWNED, before))
        yield _set(pending, key, pairs)


def _needed(
    pending: PendingDecision, move_id: MoveId, partitions: _Partitions
) -> Slices[dict[OwnedKey, list[str]]]:
    """Return the configurations for these partitions of the move, lists with their new pairs.

    Any old or new replica may lead meanwhile and is a leader in the lists; new ones are followers.
    """
    lists: dict[OwnedKey, list[str]] = {}
    rates: dict[OwnedKey, list[str]] = {}
    for topic, number in partitions:
        yield LOOKED_AT_US
        partition = pending.partition(topic, number)
        if partition is None or partition.stage.move != move_id:
            continue
        new = tuple(each for each in partition.target if each not in partition.original)
        leaders = partition.original + new
        for name, rate, replicas in (
            (LEADER_REPLICAS, LEADER_RATE, leaders if new else ()),
            (FOLLOWER_REPLICAS, FOLLOWER_RATE, new),
        ):
            pairs = lists.setdefault(((TOPIC_RESOURCE, topic.name), name), []) if replicas else []
            if len(pairs) <= PAIRS_MAX:
                pairs += [f"{number}:{each}" for each in replicas]
            for each in replicas:
                rates.setdefault((_broker(each), rate), [])
    return lists | rates


def _broker(broker_id: BrokerId) -> Resource:
    return (BROKER_RESOURCE, str(broker_id))


def _set(
    pending: PendingDecision,
    key: OwnedKey,
    pairs: Sequence[str] = (),
    *,
    before: Owned | None = None,
) -> int:
    """Set the configuration to the value that its holders need, lists with these pairs added.

    Without holders restore the previous value from `before`. Return the cost in us.
    """
    resource, name = key
    owned = pending.owned(key)
    current = pending.configs.get(resource, {}).get(name)
    value = current
    if not owned.holders:
        value = current if before is None else before.previous
    elif name in RATES:
        rates = (rate_of(pending.moves.get(each)) for each in owned.holders)
        lowest = min(filter(None, rates), default=None)
        value = current if lowest is None else str(lowest)
    else:
        present = parts(current or "")
        kept = [each for each in present if _counts(pending, resource[1], each, owned.holders)]
        value = listed(parts(owned.previous or ""), kept, pairs)
    if value != current:
        pending.set_configs(resource, {name: value})
    length = max(len(current or ""), len(value or ""))
    return CONFIGURED_US + length // BYTES_LISTED_IN_US


def _counts(
    pending: PendingDecision, topic_name: str, pair: str, holders: Sequence[MoveId]
) -> bool:
    """Return True if the entry of the list names a partition of one of these moves."""
    if pair == ALL_REPLICAS:
        return True
    number, topic = number_of(pair), pending.image.topic_named(topic_name)
    if number is None or topic is None:
        return False
    partition = pending.partition(topic, number)
    return partition is not None and partition.stage.move in holders


def _is_deleted(pending: PendingDecision, resource: Resource) -> bool:
    """Return True if this decision deletes the topic, and its configurations with it."""
    topic = pending.image.topic_named(resource[1]) if resource[0] == TOPIC_RESOURCE else None
    return topic is not None and topic.topic_id in pending.deleted


LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
"""Configurations of brokers, in bytes a second."""
LISTS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Configurations of topics."""

ALL_REPLICAS: Final = "*"
"""The list that names every replica; those in sync are never throttled."""

PAIRS_MAX: Final = (CONFIG_VALUE_BYTES_MAX + 1) // 4
"""The most pairs of a list: a pair has at least three characters and a comma."""


def listed(*groups: Iterable[str]) -> str | None:
    """Return the list of these pairs without repetitions; `*` if it is too long, None if empty."""
    pairs = dict.fromkeys(chain(*groups))
    if not pairs:
        return None
    if ALL_REPLICAS in pairs or len(pairs) > PAIRS_MAX:
        return ALL_REPLICAS
    value = ",".join(pairs)
    return ALL_REPLICAS if len(value.encode()) > CONFIG_VALUE_BYTES_MAX else value


def number_of(pair: str) -> int | None:
    """Return the partition number of a pair; None if the pair is malformed."""
    number, _, _ = pair.partition(":")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None
