"""Leader election of partitions. A leader stays as long as it is eligible."""

from collections.abc import Callable
from enum import Enum

from statemachine.configs.effective import HoldsConfigs, unclean_election_allowed
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.vocabulary import NO_LEADER, BrokerId, Replicas


class Election(Enum):
    """The replicas that an election may choose."""

    ONLINE = "only members of the ISR, or of the ELR where the ISR is empty"
    PREFERRED = "only such members too, the preferred leader before the present one"
    UNCLEAN = "such members, and if none is alive any replica: acknowledged data may be lost"


def elect(
    partition: PartitionRegistration, live: Callable[[BrokerId], bool], election: Election
) -> tuple[BrokerId, bool]:
    """Return the leader or NO_LEADER, and whether the election is unclean.

    Replicas that stay after the step under way come first: a leader that is about to be removed
    would be replaced again. If no replica is in sync or eligible, the last known leader leads
    again, although it may have lost records (KIP-966).
    """
    eligible = partition.isr or partition.elr
    if election is Election.PREFERRED and partition.replicas[0] in eligible:
        preferred = partition.replicas[0]
        if live(preferred):
            return preferred, False
    if partition.leader in eligible and live(partition.leader):
        return partition.leader, False
    candidates = [replica for replica in _in_order(partition) if live(replica)]
    for candidate in candidates:
        if candidate in eligible:
            return candidate, False
    if not eligible and len(partition.last_known_elr) == 1:
        (known,) = partition.last_known_elr
        if known in candidates:
            return known, True
    if election is Election.UNCLEAN and candidates:
        return _least_loss(partition, candidates), True
    return NO_LEADER, False


def _in_order(partition: PartitionRegistration) -> Replicas:
    aimed = partition.aimed
    rest = tuple(replica for replica in partition.replicas if replica not in aimed)
    return tuple(replica for replica in aimed if replica in partition.replicas) + rest


def _least_loss(partition: PartitionRegistration, candidates: list[BrokerId]) -> BrokerId:
    # A replica that is only being added may hold nothing at all.
    return next((c for c in candidates if c not in partition.adding), candidates[0])


def isr_without(
    pending: PendingDecision, partition: PartitionRegistration, leaving: Replicas
) -> Replicas:
    """Return the ISR without these replicas; its last member stays unless there is an ELR."""
    isr = tuple(replica for replica in partition.isr if replica not in leaving)
    if isr or not partition.isr or pending.has_elr:
        return isr
    # All leave at once: the last leader has everything that was acknowledged.
    last: BrokerId = partition.leader if partition.leader in partition.isr else partition.isr[0]
    return (last,)


def election_for(holder: HoldsConfigs, topic: Topic) -> Election:
    """Return UNCLEAN if the configurations of the topic allow it, otherwise ONLINE."""
    return Election.UNCLEAN if unclean_election_allowed(holder, topic.name) else Election.ONLINE
