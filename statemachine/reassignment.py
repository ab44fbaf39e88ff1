"""AlterPartitionReassignments: begin, redirect or cancel the move of a partition's replicas.

Seed 4: a partition first grows to the union of what it has and what is asked for, catches up, and
then shrinks to the target in one change (`completion`). What needs no new replica may complete at
once. A cancel is a revert. Every part of a request stands alone.
"""

from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import Final

from msgspec.structs import replace

from statemachine.change import change_partition
from statemachine.commands import (
    AlterReassignments,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
)
from statemachine.configs import min_isr, unclean_election_allowed
from statemachine.draft import Draft
from statemachine.errors import Error, Refusal
from statemachine.index import Topic
from statemachine.leadership import Election
from statemachine.partition import NO_STAGE, Partition
from statemachine.vocabulary import BrokerId, Replicas

_LISTED_MAX: Final = 20
"""Brokers that a message names one by one: a request may name as many as a frame holds."""


def alter_reassignments(draft: Draft, command: AlterReassignments) -> ReassignmentsAltered:
    """Begin, redirect or cancel, each part on its own and in the order asked."""
    return ReassignmentsAltered(
        partitions=tuple(
            [_altered(draft, asked, command.may_change_factor) for asked in command.reassignments]
        )
    )


def grown(partition: Partition, target: Replicas) -> Partition:
    """The partition as it sets out for `target`, from the replicas as they are.

    Replicas that an earlier move was adding go at once, unless they are in sync or asked for again.
    In sync, they count for the ISR until the completion: then they are removed like any other.
    """
    kept = tuple(
        replica
        for replica in partition.replicas
        if replica in target or replica not in partition.adding or replica in partition.isr
    )
    added = tuple(replica for replica in target if replica not in kept)
    return replace(
        partition,
        replicas=kept + added,
        adding=tuple(r for r in target if r in added or r in partition.adding),
        removing=tuple(replica for replica in kept if replica not in target),
        target=target,
        original=partition.original or _before_the_move(partition),
    )


def reverted(partition: Partition) -> Partition:
    """The partition without what its reassignment has added, in the order of before.

    After a redirection that is more than the adding ones: what an earlier target brought in and the
    present one removes again was never asked for by anyone who now cancels.
    """
    kept = tuple(
        replica
        for replica in _before_the_move(partition)
        if not (
            partition.original
            and replica in partition.removing
            and replica not in partition.original
        )
    )
    return replace(
        partition,
        replicas=kept,
        isr=tuple(replica for replica in partition.isr if replica in kept),
        adding=(),
        removing=(),
        target=(),
        original=(),
        stage=NO_STAGE,
    )


def _before_the_move(partition: Partition) -> Replicas:
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def assignment_refusal(
    replicas: Replicas, brokers: Collection[BrokerId], *, where: str = ""
) -> Refusal | None:
    """Why no partition may have these replicas, or None; `where` begins the sentence."""
    if not replicas:
        reason = f"{where}the replica list is empty; name at least one broker"
    elif negative := [replica for replica in replicas if replica < 0]:
        reason = f"{where}broker ids are not negative: {_listed(negative)}"
    elif repeated := sorted(each for each, count in Counter(replicas).items() if count > 1):
        reason = (
            f"{where}the replica list {_listed(replicas)} names more than once: {_listed(repeated)}"
        )
    elif unknown := [replica for replica in replicas if replica not in brokers]:
        reason = (
            f"The manual partition assignment includes broker {_listed(unknown)}, but no such"
            " broker is registered."
        )
    else:
        return None
    return Refusal(Error.INVALID_REPLICA_ASSIGNMENT, reason)


def _listed(broker_ids: Collection[BrokerId]) -> str:
    words = [str(broker_id) for broker_id in islice(broker_ids, _LISTED_MAX)]
    if len(broker_ids) > _LISTED_MAX:
        words.append(f"and {len(broker_ids) - _LISTED_MAX:,} more")
    return ", ".join(words)


def _altered(draft: Draft, asked: Reassignment, may_change_factor: bool) -> ReassignmentAltered:
    topic = draft.image.topic_named(asked.topic)
    if topic is None:
        return _refused(
            asked, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.topic}")
        )
    partition = draft.partition(topic, asked.partition)
    if partition is None:
        unknown = f"topic {asked.topic} has no partition {asked.partition}"
        return _refused(asked, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    outcome: Partition | Refusal
    if asked.replicas is None:
        outcome = _cancelled(draft, topic, asked.partition, partition)
    elif not may_change_factor and len(asked.replicas) != len(partition.aimed):
        change = f"from {len(partition.aimed)} to {len(asked.replicas)}"
        outcome = Refusal(
            Error.INVALID_REPLICATION_FACTOR,
            f"the number of replicas would change {change}, which the request does not allow",
        )
    else:
        outcome = _directed(draft, topic, asked.partition, partition, asked.replicas)
    if isinstance(outcome, Refusal):
        return _refused(asked, outcome)
    return ReassignmentAltered(
        topic=asked.topic, partition=asked.partition, replicas=outcome.replicas
    )


def _refused(asked: Reassignment, refusal: Refusal) -> ReassignmentAltered:
    return ReassignmentAltered(
        topic=asked.topic, partition=asked.partition, error=refusal.error, message=refusal.message
    )


def _directed(
    draft: Draft, topic: Topic, number: int, partition: Partition, target: Replicas
) -> Partition | Refusal:
    refusal = assignment_refusal(target, draft.image.brokers)
    if refusal is not None:
        return refusal
    if target == partition.aimed:
        return partition
    return change_partition(draft, topic, number, grown(partition, target))


def _cancelled(
    draft: Draft, topic: Topic, number: int, partition: Partition
) -> Partition | Refusal:
    if not partition.moving:
        return Refusal(
            Error.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{number} is not being reassigned"
        )
    wish = reverted(partition)
    needed = min_isr(draft, topic.name, wish)
    unclean = unclean_election_allowed(draft.image, topic.name)
    if len(wish.isr) < needed and not unclean:
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"going back to {_listed(wish.replicas)} would leave {len(wish.isr)} in sync where"
            f" {needed} must be, and unclean leader election is off",
        )
    if not wish.isr and not any(draft.live(replica) for replica in wish.replicas):
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"none of {_listed(wish.replicas)} is in sync or alive, so nobody could lead",
        )
    election = Election.UNCLEAN if unclean else Election.CLEAN
    return change_partition(draft, topic, number, wish, election=election, finished=True)
