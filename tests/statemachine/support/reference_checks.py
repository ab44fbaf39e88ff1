"""The invariants of an image, a second time and slowly: a reference for the state machine.

Nothing here shares code with what it checks, but for the types.
"""

from collections import deque
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

from statemachine.image.committed_table import CommittedTable
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration, Stage
from statemachine.records import kafka_records

Named = Callable[[Any], list[tuple[str, int]]]
"""The partitions with these keys, in the order of topic name and number."""


def contents(image: Image) -> dict[str, Any]:
    """Everything that an image says, with nothing of how it came to be."""
    return {
        "end_offset": image.end_offset,
        "brokers": dict(image.brokers),
        "controllers": dict(image.controllers),
        "topics": {
            topic_id: (topic.name, list(topic.partitions))
            for topic_id, topic in image.topics.items()
        },
        "topic_ids": dict(image.topic_ids),
        "configs": {resource: dict(configs) for resource, configs in image.configs.items()},
        "features": dict(image.features),
        "next_producer_id": image.next_producer_id,
        "next_move_id": image.next_move_id,
        "all_paused": image.all_paused,
        "moves": dict(image.moves),
        "keys": dict(image.keys),
        "owned": dict(image.owned),
        "quotas": {holder: dict(quotas) for holder, quotas in image.quotas.items()},
        "zk_migration_state": image.zk_migration_state,
        "acls": dict(image.acls),
        "acl_index": acls_indexed(image),
        "scram_credentials": dict(image.scram_credentials),
        "delegation_tokens": dict(image.delegation_tokens),
        "committed_scram_credentials": committed(image.committed_scram_credentials),
        "committed_delegation_tokens": committed(image.committed_delegation_tokens),
        "transaction": image.transaction,
        "index": _bitmaps(image, _names_of_keys(image)),
    }


def committed(table: CommittedTable[Any, Any]) -> dict[Any, Any]:
    """The table once all is committed."""
    if not table._proposed:
        return dict(table._entries)
    # Its entries are immutable; a deep copy would take most of the time of many tests.
    later = copy(table)
    later._entries, later._proposed = dict(table._entries), deque(table._proposed)
    later.commit()
    return later._entries


def acls_indexed(image: Image) -> dict[tuple[int, bool], dict[tuple[str, str, str], int]]:
    """The index of ACLs once all is committed: by resource type and kind of pattern, the bits of
    each place."""
    index = image.acl_index
    if index._sections or index._proposed:
        index = deepcopy(index)
    index.commit()
    assert not index._proposed_counts
    return {
        (kind, patterns is section.literal): dict(patterns.acls)
        for kind, section in index._sections.items()
        for patterns in (section.literal, section.prefixed)
        if patterns.acls
    }


def acls_scanned(image: Image) -> dict[tuple[int, bool], dict[tuple[str, str, str], int]]:
    """The index that the ACLs of the image must have, found by looking at each."""
    found: dict[tuple[int, bool], dict[tuple[str, str, str], int]] = {}
    for acl in image.acls.values():
        places = found.setdefault((acl.resource_type, acl.pattern_type == 3), {})
        place = (acl.resource_name, acl.principal, acl.host)
        operation = acl.operation if 0 <= acl.operation < 16 else 0
        bit = 1 << (operation + 16 * (acl.permission_type == 3))
        places[place] = places.get(place, 0) | bit
    return found


def indexed(image: Image) -> dict[str, Any]:
    """The bitmaps as partitions instead of keys; brokers without any are left out."""
    index = image.index
    return _bitmaps(
        image, lambda keys: [(topic.name, number) for topic, number in index.partitions(keys)]
    )


def _names_of_keys(image: Image) -> Named:
    """Names the partitions with these keys as `indexed` does, and faster for the tests that compare
    contents: one look at each key for all bitmaps."""
    index = image.index
    names = {
        key: (topic.name, number)
        for key, (topic, number) in enumerate(zip(index._topics, index._numbers, strict=True))
        if topic is not None
    }
    return lambda keys: sorted([names[key] for key in keys])


def _bitmaps(image: Image, named: Named) -> dict[str, Any]:
    index = image.index

    def part(bitmaps: dict[int, Any]) -> dict[int, list[tuple[str, int]]]:
        return {broker: named(keys) for broker, keys in bitmaps.items() if keys}

    return {
        "replicas_of": part(index.replicas_of),
        "isr_of": part(index.isr_of),
        "elr_of": part(index.elr_of),
        "leader_of": part(index.leader_of),
        "moving": named(index.moving),
        "stepping": named(index.stepping),
        "waiting": named(index.waiting),
        "adding_total": index.adding_total,
        "leader_moves": index.leader_moves,
        "of_move": part(index.of_move),
    }


def scanned(image: Image) -> dict[str, Any]:
    """The expected bitmaps, found by a walk over every partition."""
    found: dict[str, Any] = {
        "replicas_of": {},
        "isr_of": {},
        "elr_of": {},
        "leader_of": {},
        "moving": [],
        "stepping": [],
        "waiting": [],
        "adding_total": 0,
        "leader_moves": 0,
        "of_move": {},
    }
    for topic in sorted(image.topics.values(), key=lambda topic: topic.name):
        for number, partition in topic.existing():
            name = (topic.name, number)
            for broker in partition.replicas:
                found["replicas_of"].setdefault(broker, []).append(name)
            for broker in partition.isr:
                found["isr_of"].setdefault(broker, []).append(name)
            for broker in partition.elr:
                found["elr_of"].setdefault(broker, []).append(name)
            found["leader_of"].setdefault(partition.leader, []).append(name)
            scan_move(found, name, partition)
    return found


def scan_move(
    found: dict[str, Any], name: tuple[str, int], partition: PartitionRegistration
) -> None:
    """The expected index entry for the move of one partition."""
    steps = bool(partition.adding or partition.removing)
    if not steps and not partition.target:
        return
    found["moving"].append(name)
    found["stepping" if steps else "waiting"].append(name)
    found["adding_total"] += len(partition.adding)
    adds_first = partition.target[:1] and partition.target[0] in partition.adding
    found["leader_moves"] += bool(adds_first or partition.leader in partition.removing)
    if partition.stage.move:
        found["of_move"].setdefault(partition.stage.move, []).append(name)


def check_image(image: Image) -> None:
    """The rules of every partition, the index, and who may lead."""
    found = scanned(image)
    assert indexed(image) == found
    assert acls_indexed(image) == acls_scanned(image)
    assert committed(image.committed_scram_credentials) == image.scram_credentials
    assert committed(image.committed_delegation_tokens) == image.delegation_tokens
    check_moves(image, found["of_move"])
    check_throttles(image)
    for topic in image.topics.values():
        for number, partition in topic.existing():
            try:
                check_partition(partition)
                check_liveness(image, partition)
                check_eligible(image, topic.name, partition)
            except AssertionError as error:
                raise AssertionError(f"{topic.name}-{number} {partition}: {error}") from error


def check_moves(image: Image, inside: dict[int, Any]) -> None:
    """A move runs as long as partitions belong to it, and all that it began with are accounted."""
    for move_id, move in image.moves.items():
        assert (move.ended is None) == (move_id in inside), f"move {move_id}: {move}"
        left = [move.left.cancelled, move.left.superseded, move.left.gone]
        completed = move.begun.partitions - sum(left) - len(inside.get(move_id, ()))
        assert completed >= 0, f"move {move_id} has more to account for than it began with: {move}"
        ended = move.ended
        if ended is not None:
            counted = [ended.completed, ended.cancelled, ended.superseded, ended.gone]
            assert counted == [completed, *left]


def check_throttles(image: Image) -> None:
    """Replicas added by throttled moves are throttled by configurations; no others are owned.

    The copies of a move whose pause stops them stand still, and no other replica does.
    """
    for key, owned in image.owned.items():
        for move_id in (*owned.holders, *owned.lost):
            is_needed = stands_still(image, move_id) or is_throttled(image, move_id)
            assert is_needed, f"{key} belongs to move {move_id}"
        if key[1].endswith(".replicas") and owned.holders:
            check_held(image, key, owned.previous)
    for topic in image.topics.values():
        for number, partition in topic.existing():
            move_id = partition.stage.move
            new = set(partition.target) - set(partition.original)
            leaders = {*partition.target, *partition.original}
            if stands_still(image, move_id):
                new = set(partition.adding) - set(partition.isr)
                leaders = held_leaders(partition)
            if new and (is_throttled(image, move_id) or stands_still(image, move_id)):
                check_throttled(image, move_id, (topic.name, number), "follower", new)
                if leaders:
                    check_throttled(image, move_id, (topic.name, number), "leader", leaders)


def held_leaders(partition: PartitionRegistration) -> set[int]:
    """The leaders that stand still: not if a replica that is not being added must catch up."""
    lacking = set(partition.replicas) - set(partition.isr)
    return set(partition.isr) if lacking and lacking <= set(partition.adding) else set()


def stands_still(image: Image, move_id: int) -> bool:
    """True if the move, or every move, is paused at once, and not after the step under way."""
    move, everything = image.moves.get(move_id), image.all_paused
    if move is None or move.ended is not None:
        return False
    return move.stops_copying or (everything is not None and everything.stops_copying)


def check_held(image: Image, key: tuple[tuple[int, str], str], users: str | None) -> None:
    """Of a move that stands still a list has only what must stand still."""
    value = image.configs.get(key[0], {}).get(key[1])
    topic = image.topic_named(key[0][1])
    assert topic is not None
    for pair in set((value or "").split(",")) - set((users or "").split(",")) - {"", "*"}:
        number, broker = map(int, pair.split(":"))
        partition = topic.partition(number)
        if partition is not None and stands_still(image, partition.stage.move):
            lacking = set(partition.adding) - set(partition.isr)
            held = lacking if key[1].startswith("follower") else held_leaders(partition)
            assert broker in held, f"{pair} stands still: {partition}"


def is_throttled(image: Image, move_id: int) -> bool:
    """True if the move runs at a limited rate."""
    move = image.moves.get(move_id)
    return move is not None and move.ended is None and move.options.throttle_bytes_per_s > 0


def check_throttled(
    image: Image, move_id: int, partition: tuple[str, int], side: str, brokers: set[int]
) -> None:
    """These brokers know that they are to hold up the partition, but where a user knows better."""
    topic, number = partition
    key = ((2, topic), f"{side}.replication.throttled.replicas")
    if move_id not in image.owned[key].lost:
        named = image.configs[key[0]][key[1]].split(",")
        assert named == ["*"] or {f"{number}:{each}" for each in brokers} <= set(named), named
    for broker in brokers:
        key = ((4, str(broker)), f"{side}.replication.throttled.rate")
        owned = image.owned[key]
        if move_id not in owned.lost:
            assert image.configs.get(key[0], {}).get(key[1]) == expected_rate(image, key)
            assert move_id in owned.holders


def expected_rate(image: Image, key: tuple[tuple[int, str], str]) -> str | None:
    """The lowest rate of the moves; 0 if all stand still and users have set none."""
    owned = image.owned[key]
    everyone = image.configs.get((4, ""), {}).get(key[1])
    is_free = owned.previous is None and everyone is None
    if is_free and all(stands_still(image, each) for each in owned.holders):
        return "0"
    rates = [image.moves[each].options.throttle_bytes_per_s for each in owned.holders]
    lowest = min((rate for rate in rates if rate), default=None)
    return owned.previous if lowest is None else str(lowest)


def check_partition(partition: PartitionRegistration) -> None:
    """The invariants of a partition, whatever its brokers do."""
    replicas, isr = set(partition.replicas), set(partition.isr)
    adding, removing = set(partition.adding), set(partition.removing)
    elr = set(partition.elr)
    assert len(replicas) == len(partition.replicas) > 0
    assert len(isr) == len(partition.isr)
    assert isr <= replicas
    assert adding <= replicas
    assert removing <= replicas
    assert elr <= replicas
    assert not adding & removing
    assert not isr & elr
    assert partition.leader == -1 or partition.leader in isr
    assert len(partition.directories) in (0, len(replicas))
    if partition.target:
        # What waits for its first step, or has others before it, is not yet there.
        assert adding <= set(partition.target)
        assert not removing & set(partition.target)
    else:
        assert not partition.original
        assert partition.stage == Stage()


def check_liveness(image: Image, partition: PartitionRegistration) -> None:
    """The leader is alive, and so is each in-sync replica, except for the last one of all."""
    live = {
        broker.broker_id
        for broker in image.brokers.values()
        if not broker.fenced and broker.stopping_at is None
    }
    online = {each for each in partition.replicas if is_online(image, partition, each)}
    if partition.leader != -1:
        assert set(partition.isr) <= live
        assert partition.leader in online
        return
    live &= online
    if has_elr(image) or partition.elr or partition.last_known_elr:
        # Switched off, it serves on where nobody is in sync.
        assert len(partition.isr) <= 1
        assert not (set(partition.isr) or set(partition.elr)) & live
    else:
        assert len(partition.isr) == 1
        assert not set(partition.isr) & live


def is_online(image: Image, partition: PartitionRegistration, replica: int) -> bool:
    """True if the broker has the directory that holds the replica (KIP-858)."""
    broker = image.brokers.get(replica)
    if broker is None or not partition.directories:
        return broker is not None
    directory = dict(zip(partition.replicas, partition.directories, strict=True))[replica]
    if directory.int < 3:
        return directory.int < 2
    return not broker.log_dirs or directory in broker.log_dirs


def has_elr(image: Image) -> bool:
    """True if the cluster has eligible leader replicas (KIP-966)."""
    enabled = image.features.get("eligible.leader.replicas.version", 0) == 1
    return enabled and image.features.get("metadata.version", 0) >= 23


def check_eligible(image: Image, topic: str, partition: PartitionRegistration) -> None:
    """The ELR is there only below min ISR, and the last leader only where nobody leads."""
    assert set(partition.last_known_elr) <= set(partition.replicas)
    if not has_elr(image):
        return
    configs = {**image.configs.get((4, ""), {}), **image.configs.get((2, topic), {})}
    configured = int(configs.get("min.insync.replicas", "1"))
    # What the step under way aims at; what waits has all that it is to have for now.
    goal = set(partition.replicas) - set(partition.removing)
    if len(partition.isr) >= min(configured, len(goal)):
        assert not partition.elr
    assert len(partition.last_known_elr) <= (partition.leader == -1)
    if not partition.isr:
        assert partition.leader == -1
        assert partition.last_known_elr or partition.elr


def check_change(
    before: PartitionRegistration,
    change: kafka_records.PartitionChange,
    after: PartitionRegistration,
) -> None:
    """The rules of the epochs, and that a move shrinks only when it may."""
    assert after.partition_epoch == before.partition_epoch + 1
    ends = _moving(before) and not _moving(after)
    at_once = not _moving(before) and not _moving(after) and before.replicas != after.replicas
    # A step of several: the rest of the same move is still to come.
    steps_on = bool(before.target) and before.target == after.target
    stepped = before.adding or before.removing or before.replicas != after.replicas
    step_ends = steps_on and stepped and not (after.adding or after.removing)
    # What is kept of a step for another target may be in sync already: it is complete with that.
    redirected = bool(before.target and after.target) and before.target != after.target
    kept_ends = redirected and before.adding and not after.adding and change.leader is not None
    lost = set(before.replicas) - set(after.replicas)
    is_over = bool(ends or at_once or step_ends or kept_ends)
    leads_anew = bool(after.leader != before.leader or is_over or lost)
    assert after.leader_epoch == before.leader_epoch + leads_anew
    assert (change.leader is not None) == leads_anew
    assert before != after
    if not is_over:
        # Growth and catch-up: nothing that is there is lost, but for what an old move was adding,
        # and of that nobody who may have what the others lack.
        needed = {*before.isr, *before.elr, *before.last_known_elr}
        assert lost <= set(before.adding) - needed


def _moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding or partition.removing or partition.target)
