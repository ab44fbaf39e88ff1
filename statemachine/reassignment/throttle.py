"""Throttled moves: a running move sets its rate in configurations of brokers and topics (KIP-73).

The four configurations are Kafka's, so Kafka's brokers obey them too. A move sets them in the
decision that begins it, before its first replica is added. The log keeps the users' earlier values;
when no move needs a configuration any more, its value is restored, however the moves have ended. Of
several moves the lowest rate applies. A value that a user sets meanwhile belongs to the user: the
moves lose the configuration, report it as lost, and never take it back.

A list names the replicas of all partitions that a move began with, until the move ends: it is
written once, not with every step. It gets shorter only when another move begins or ends. Replicas
in sync are never throttled, so superfluous entries do no harm.

A pause that stops copying is a throttle of rate 0, also for a move without a rate of its own. The
followers in its lists are those that a step under way adds and that are not in sync. At a rate of 0
a Kafka broker still sends one fetch in eleven seconds, unless its leader is throttled too, which
counts each request. But a leader holds up every follower that is not in sync. So it is in the list
only while all replicas but those being added are in sync: one that has restarted must catch up.
The rate of a broker stays what it is while another running move, or a user, needs it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, takewhile
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
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.move import Move, Owned, OwnedKey, config_owned, is_stopped
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
    NO_MOVE,
    TOPIC_RESOURCE,
    BrokerId,
    MoveId,
    Ownership,
    Replicas,
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
    if need_of(pending, move_id) is not None:
        yield from _take(pending, move_id, partitions)


def adapt(pending: PendingDecision, before: Mapping[MoveId, int | None]) -> Slices[None]:
    """Apply changes of throttles and pauses; `before` has what each move needed until then.

    `settle` gives up the configurations that moves do not need any more.
    """
    after = needs(pending, before)
    if after == before:
        return
    pending.has_freed_configs = True
    kept = {each for each, need in after.items() if need is not None}
    changed = {each for each in kept if after[each] != before[each]}
    index = pending.image.index
    # Lists differ only where a throttle begins or ends, or copying stops or goes on.
    listed_anew = {each for each in changed if not (after[each] and before[each])}
    for move_id in sorted(listed_anew):
        partitions = yield from in_order(index, index.keys_of_move(move_id))
        yield from _take(pending, move_id, partitions)
    for key in pending.owned_keys():
        yield PASSED_US
        whose = changed if key[1] in RATES else listed_anew
        if not whose.isdisjoint(pending.owned(key).holders):
            yield _set(pending, key)


def settle(pending: PendingDecision) -> Slices[bool]:
    """Let throttles follow the records so far; this comes last in a decision.

    Return whether some are left for another decision: a move may have had many topics.
    """
    if pending.image.transaction is not None:
        return False
    if pending.has_changed_copies:
        yield from _follow_copies(pending)
    return (yield from _release(pending)) if pending.has_freed_configs else False


def _follow_copies(pending: PendingDecision) -> Slices[None]:
    """Set the lists of stopped moves anew where replicas have joined or left an ISR.

    A replica in sync must not stand still if it restarts, nor one that is not being added.
    """
    topics: dict[str, None] = {}
    partitions: dict[MoveId, list[tuple[Topic, int]]] = {}
    for topic, number, after in pending.changed_partitions():
        yield LOOKED_AT_US
        before = topic.partition(number)
        move_id = NO_MOVE if before is None else before.stage.move
        if before is None or not pending.is_stopped(move_id) or held(before) == held(after):
            continue
        topics[topic.name] = None
        partitions.setdefault(move_id, []).append((topic, number))
    for topic_name in topics:
        for name in LISTS:
            key = ((TOPIC_RESOURCE, topic_name), name)
            if pending.owned(key).holders:
                yield _set(pending, key)
    for move_id in sorted(partitions):
        yield from _take(pending, move_id, partitions[move_id])


def _release(pending: PendingDecision) -> Slices[bool]:
    """Release configurations that moves no longer need, and restore the users' values."""
    count = cost_us = 0
    for key in pending.owned_keys():
        yield PASSED_US
        owned = pending.owned(key)
        over = [each for each in owned.moves if need_of(pending, each) is None]
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
    return None in needs(image, image.owners).values()


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


NO_COPIES: Final = 0
"""The rate of a pause that stops copying."""

_Need: TypeAlias = int | None
"""The rate that a move needs now; None: it needs no configuration."""


def need_of(view: Image | PendingDecision, move_id: MoveId) -> _Need:
    """Return the rate that the move needs now, or None if it needs none."""
    move = view.moves.get(move_id)
    return NO_COPIES if is_stopped(move, view.all_paused) else rate_of(move) or None


def needs(view: Image | PendingDecision, moves: Iterable[MoveId]) -> dict[MoveId, _Need]:
    """Return what each of the moves needs."""
    return {move_id: need_of(view, move_id) for move_id in moves}


def _take(pending: PendingDecision, move_id: MoveId, partitions: _Partitions) -> Slices[None]:
    needed = yield from _needed(pending, move_id, partitions)
    for key, pairs in needed.items():
        (resource, name), owned = key, pending.owned(key)
        if move_id in owned.lost:
            continue
        if move_id not in owned.holders:
            users = pending.configs.get(resource, {}).get(name)
            before = owned.previous if owned.holders else users
            pending.own(config_owned(key, move_id, Ownership.OWNED, before))
        yield _set(pending, key, pairs)


def _needed(
    pending: PendingDecision, move_id: MoveId, partitions: _Partitions
) -> Slices[dict[OwnedKey, list[str]]]:
    """Return the configurations for these partitions of the move, lists with their new pairs.

    Any old or new replica may lead meanwhile and is a leader in the lists; new ones are followers.
    If copying stops, `held` says which.
    """
    need = need_of(pending, move_id)
    lists: dict[OwnedKey, list[str]] = {}
    rates: dict[OwnedKey, list[str]] = {}
    for topic, number in partitions:
        yield LOOKED_AT_US
        partition = pending.partition(topic, number)
        if partition is None or partition.stage.move != move_id:
            continue
        new = tuple(each for each in partition.target if each not in partition.original)
        leaders, followers = (partition.original + new if new else ()), new
        if need == NO_COPIES:
            leaders, followers = held(partition)
        for name, rate, replicas in (
            (LEADER_REPLICAS, LEADER_RATE, leaders),
            (FOLLOWER_REPLICAS, FOLLOWER_RATE, followers),
        ):
            pairs = lists.setdefault(((TOPIC_RESOURCE, topic.name), name), []) if replicas else []
            if len(pairs) <= PAIRS_MAX:
                pairs += [f"{number}:{each}" for each in replicas]
            for each in replicas:
                rates.setdefault((_broker(each), rate), [])
    return lists | rates


def copying(partition: PartitionRegistration) -> Replicas:
    """Return the replicas that a step under way adds, and that are not in sync yet."""
    return tuple([each for each in partition.adding if each not in partition.isr])


def held(partition: PartitionRegistration) -> tuple[Replicas, Replicas]:
    """Return the leaders and followers in the lists of a pause that stops copying."""
    followers = copying(partition)
    staying = (each for each in partition.replicas if each not in partition.adding)
    is_whole = bool(followers) and all(each in partition.isr for each in staying)
    return (partition.isr if is_whole else ()), followers


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
        value = _rate(pending, key, owned)
    else:
        value = _list(pending, key, owned, pairs)
    if value != current:
        pending.set_configs(resource, {name: value})
    length = max(len(current or ""), len(value or ""))
    return CONFIGURED_US + length // BYTES_LISTED_IN_US


def _rate(pending: PendingDecision, key: OwnedKey, owned: Owned) -> str | None:
    """Return the rate of a broker that its holders need: 0 if a pause stops all of them.

    A rate of a user, for this broker or for all, limits other copies as well and is never set to 0.
    """
    (kind, _), name = key
    needed = {need_of(pending, each) for each in owned.holders} - {None}
    users = owned.previous or pending.configs.get((kind, ""), {}).get(name)
    if needed == {NO_COPIES} and users is None:
        return str(NO_COPIES)
    lowest = min(
        filter(None, (rate_of(pending.moves.get(each)) for each in owned.holders)), default=0
    )
    return str(lowest) if lowest else owned.previous


def _list(
    pending: PendingDecision, key: OwnedKey, owned: Owned, pairs: Sequence[str]
) -> str | None:
    """Return the list that its holders need, with these pairs added, or None if it is empty.

    If a pause stops all of them it never becomes `*`, which would hold up replicas that have
    restarted, but has as many pairs as fit.
    """
    resource, name = key
    users = parts(owned.previous or "")
    is_stopped_alone = {need_of(pending, each) for each in owned.holders} == {NO_COPIES}
    counted: dict[int, Collection[str] | None] = {}
    kept = []
    for pair in parts(pending.configs.get(resource, {}).get(name, "")):
        number = number_of(pair)
        if number is None:
            kept += [pair] if pair == ALL_REPLICAS and not is_stopped_alone else []
            continue
        if number not in counted:
            counted[number] = _counted(pending, key, number, owned.holders)
        brokers = counted[number]
        if brokers is None or pair.partition(":")[2] in brokers:
            kept.append(pair)
    is_cut = is_stopped_alone and ALL_REPLICAS not in users
    return listed(users, kept, pairs, is_cut=is_cut)


def _counted(
    pending: PendingDecision, key: OwnedKey, number: int, holders: Sequence[MoveId]
) -> Collection[str] | None:
    """Return the brokers that these moves need in the list for the partition; None: all of them."""
    (_, topic_name), name = key
    topic = pending.image.topic_named(topic_name)
    partition = None if topic is None else pending.partition(topic, number)
    if partition is None or partition.stage.move not in holders:
        return ()
    if need_of(pending, partition.stage.move) != NO_COPIES:
        return None
    leaders, followers = held(partition)
    return [str(each) for each in (leaders if name == LEADER_REPLICAS else followers)]


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


def listed(*groups: Iterable[str], is_cut: bool = False) -> str | None:
    """Return the list of these pairs without repetitions, None if empty.

    One that is too long becomes `*`, or is cut.
    """
    pairs = dict.fromkeys(chain(*groups))
    if not pairs:
        return None
    if is_cut:
        ends = accumulate(len(each.encode()) + 1 for each in pairs)
        fitting = takewhile(lambda end: end <= CONFIG_VALUE_BYTES_MAX + 1, ends)
        return ",".join(each for each, _ in zip(pairs, fitting, strict=False))
    if ALL_REPLICAS in pairs or len(pairs) > PAIRS_MAX:
        return ALL_REPLICAS
    value = ",".join(pairs)
    return ALL_REPLICAS if len(value.encode()) > CONFIG_VALUE_BYTES_MAX else value


def number_of(pair: str) -> int | None:
    """Return the partition number of a pair; None if the pair is malformed."""
    number, _, _ = pair.partition(":")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None
