"""AlterPartition: the leader says who is in sync, and here is when that is not believed.

KIP-903: a replica with a stale broker epoch may not join the ISR. One bad member rejects the whole
change of its partition; other partitions of the request go on.
"""

from functools import partial

from msgspec.structs import replace

from statemachine.brokers.registration import BrokerRegistration
from statemachine.commands import AlterPartition, IsrProposal, PartitionAltered, PartitionsAltered
from statemachine.configs.effective import min_isr
from statemachine.errors import Error, Refusal
from statemachine.image.partition_table import Topic
from statemachine.partitions.change_builder import Alike, change_partition
from statemachine.partitions.isr_rows import decide_rows
from statemachine.partitions.registration import PartitionRegistration, directory_of
from statemachine.pending_decision import PendingDecision
from statemachine.records.kafka_records import PartitionChange
from statemachine.slices import Slices
from statemachine.vocabulary import NO_EPOCH, RECOVERED, RECOVERING, BrokerId, Replicas


def alter_partition(draft: PendingDecision, command: AlterPartition) -> Slices[PartitionsAltered]:
    """Change the ISRs that the sender leads, each on its own."""
    stale = stale_broker(draft, command.broker_id, command.broker_epoch)
    if stale is not None:
        return PartitionsAltered(error=stale.error, message=stale.message)
    plain = yield from decide_rows(draft, command, partial(_plain, draft, command.broker_id))
    if plain is not None:
        return PartitionsAltered(partitions=plain)
    partitions, alike = [], Alike(draft)
    topic_id, topic = None, None
    for proposal in command.proposals:
        if proposal.topic_id is not topic_id:
            # Those of one topic follow each other, and its id is slow to hash.
            topic_id = proposal.topic_id
            topic = draft.image.topics.get(topic_id)
        partitions.append(_altered(draft, alike, topic, command.broker_id, proposal))
        yield alike.cost_us
    return PartitionsAltered(partitions=tuple(partitions))


def alter_one(draft: PendingDecision, command: AlterPartition) -> PartitionsAltered | None:
    """As `alter_partition`, of one partition and at once; None where there may be more to it.

    What no request asks for more often: the partition is as its leader says, may have the ISR that
    is asked for, and nothing follows from that. Otherwise nothing is recorded.
    """
    image = draft.image
    # Those that wait for a step may have their turn with the next change of any partition.
    if len(command.proposals) != 1 or image.index.waiting or draft.scheduler.has_queue:
        return None
    (proposal,) = command.proposals
    topic = image.topics.get(proposal.topic_id)
    partition = None if topic is None else topic.partition(proposal.partition)
    if topic is None or partition is None or _outdated(partition, command.broker_id, proposal):
        return None
    if stale_broker(draft, command.broker_id, command.broker_epoch) is not None:
        return None
    isr = _wanted(draft, partition, proposal)
    if isinstance(isr, Refusal):
        return None
    after = _only_isr(draft, topic, proposal, partition, isr)
    return None if after is None else PartitionsAltered(partitions=(_accepted(proposal, after),))


def stale_broker(draft: PendingDecision, broker_id: BrokerId, broker_epoch: int) -> Refusal | None:
    """Why the sender is not the broker that it says it is, or None."""
    broker = draft.image.brokers.get(broker_id)
    if broker is None:
        return Refusal(Error.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        return Refusal(
            Error.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}",
        )
    return None


def _altered(
    draft: PendingDecision,
    alike: Alike,
    topic: Topic | None,
    sender: BrokerId,
    proposal: IsrProposal,
) -> PartitionAltered:
    if topic is None:
        return _refused(
            proposal, Refusal(Error.UNKNOWN_TOPIC_ID, f"no topic has the id {proposal.topic_id}")
        )
    partition = draft.partition(topic, proposal.partition)
    if partition is None:
        unknown = f"topic {topic.name} has no partition {proposal.partition}"
        return _refused(proposal, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    refusal = _outdated(partition, sender, proposal)
    if refusal is not None:
        return _refused(proposal, refusal)
    after = alike.change(
        topic,
        proposal.partition,
        partition,
        (proposal.isr, proposal.recovery),
        partition.stage.move,
        lambda: _changed(draft, topic, partition, proposal),
    )
    if isinstance(after, Refusal):
        return _refused(proposal, after)
    if after.leader != sender:
        done = "a step of the reassignment" if after.target else "the reassignment"
        moved = f"{done} is complete and {after.leader} leads"
        return _refused(proposal, Refusal(Error.NEW_LEADER_ELECTED, moved))
    return _accepted(proposal, after)


def _accepted(proposal: IsrProposal, after: PartitionRegistration) -> PartitionAltered:
    return PartitionAltered(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        recovery=after.recovery,
        partition_epoch=after.partition_epoch,
    )


def _plain(
    draft: PendingDecision,
    sender: BrokerId,
    topic: Topic,
    partition: PartitionRegistration,
    proposal: IsrProposal,
) -> Replicas | None:
    """The ISR that the partition then has; None where that is refused, or more follows."""
    if _outdated(partition, sender, proposal) is not None:
        return None
    isr = _wanted(draft, partition, proposal)
    if isinstance(isr, Refusal) or not _is_all(draft, topic, proposal, partition, isr):
        return None
    return isr


def _changed(
    draft: PendingDecision, topic: Topic, partition: PartitionRegistration, proposal: IsrProposal
) -> PartitionRegistration | Refusal:
    """The partition with the ISR that its leader wants; its epochs say nothing about that."""
    isr = _wanted(draft, partition, proposal)
    if isinstance(isr, Refusal):
        return isr
    after = _only_isr(draft, topic, proposal, partition, isr)
    if after is None:
        wish = replace(partition, isr=isr, recovery=proposal.recovery)
        after = change_partition(draft, topic, proposal.partition, wish)
    return after


def _wanted(
    draft: PendingDecision, partition: PartitionRegistration, proposal: IsrProposal
) -> Replicas | Refusal:
    """The ISR that is asked for, or why the partition may not have it."""
    isr = tuple([member.broker_id for member in proposal.isr])
    refusal = (
        _impossible(partition, proposal, isr)
        or _ineligible(draft.image.brokers, proposal)
        or _misplaced(draft, partition, proposal)
    )
    if refusal is not None:
        return refusal
    # The order says nothing: a change of it alone would only cost an epoch.
    return partition.isr if set(isr) == set(partition.isr) else isr


def _only_isr(
    draft: PendingDecision,
    topic: Topic,
    proposal: IsrProposal,
    partition: PartitionRegistration,
    isr: Replicas,
) -> PartitionRegistration | None:
    """The partition with this ISR, where nothing can follow from it; else None.

    What `change_partition` would come to, at half its cost: no request comes more often. The ISR
    has been checked, and its members are alive.
    """
    if not _is_all(draft, topic, proposal, partition, isr):
        return None
    if isr is partition.isr:
        return partition
    after = replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
    draft.put_partition(topic, proposal.partition, partition, after, partition.stage.move)
    draft.records.append(
        PartitionChange(partition_id=proposal.partition, topic_id=topic.topic_id, isr=isr)
    )
    return after


def _is_all(
    draft: PendingDecision,
    topic: Topic,
    proposal: IsrProposal,
    partition: PartitionRegistration,
    isr: Replicas,
) -> bool:
    """Whether nothing can follow from this ISR of the partition."""
    if partition.moving or partition.elr or partition.last_known_elr:
        return False
    if proposal.recovery != partition.recovery:
        return False
    # The minimum is never more than all replicas.
    is_short = len(isr) < len(partition.replicas)
    if is_short and draft.has_elr and len(isr) < min_isr(draft, topic.name, partition):
        return False
    # A leader whose directory has failed is replaced with whatever changes first.
    return draft.is_online(partition.leader, directory_of(partition, partition.leader))


def _refused(proposal: IsrProposal, refusal: Refusal) -> PartitionAltered:
    return PartitionAltered(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        error=refusal.error,
        message=refusal.message,
    )


def _outdated(
    partition: PartitionRegistration, sender: BrokerId, proposal: IsrProposal
) -> Refusal | None:
    """Why the sender and this controller do not speak of the same moment, or None."""
    if proposal.leader_epoch > partition.leader_epoch:
        return Refusal(
            Error.NOT_CONTROLLER,
            f"leader epoch {proposal.leader_epoch} is ahead of {partition.leader_epoch}",
        )
    if proposal.partition_epoch > partition.partition_epoch:
        return Refusal(
            Error.NOT_CONTROLLER,
            f"partition epoch {proposal.partition_epoch} is ahead of {partition.partition_epoch}",
        )
    if proposal.leader_epoch < partition.leader_epoch:
        return Refusal(
            Error.FENCED_LEADER_EPOCH,
            f"leader epoch {proposal.leader_epoch} is over, {partition.leader_epoch} is current",
        )
    if sender != partition.leader:
        return Refusal(Error.INVALID_REQUEST, f"the leader is {partition.leader}, not {sender}")
    if proposal.partition_epoch < partition.partition_epoch:
        return Refusal(
            Error.INVALID_UPDATE_VERSION,
            f"partition epoch {proposal.partition_epoch} is over,"
            f" {partition.partition_epoch} is current",
        )
    return None


def _impossible(
    partition: PartitionRegistration, proposal: IsrProposal, isr: Replicas
) -> Refusal | None:
    """Why no partition like this can have such an ISR, or None."""
    members = set(isr)
    if len(members) != len(isr):
        return Refusal(Error.INVALID_REQUEST, f"the ISR {isr} repeats a replica")
    if not members.issubset(partition.replicas):
        strangers = [broker_id for broker_id in isr if broker_id not in partition.replicas]
        return Refusal(
            Error.INVALID_REQUEST,
            f"{strangers} of the ISR {isr} are not among the replicas {partition.replicas}",
        )
    if partition.leader not in isr:
        return Refusal(Error.INVALID_REQUEST, f"the ISR {isr} lacks the leader {partition.leader}")
    if proposal.recovery not in (RECOVERED, RECOVERING):
        return Refusal(
            Error.INVALID_REQUEST, f"leader recovery state {proposal.recovery} is neither 0 nor 1"
        )
    if proposal.recovery == RECOVERING and len(isr) > 1:
        return Refusal(
            Error.INVALID_REQUEST, f"the ISR {isr} grows while the leader is still recovering"
        )
    if proposal.recovery == RECOVERING and partition.recovery == RECOVERED:
        return Refusal(Error.INVALID_REQUEST, "a leader that has recovered cannot be recovering")
    return None


def _ineligible(
    brokers: dict[BrokerId, BrokerRegistration], proposal: IsrProposal
) -> Refusal | None:
    """Why a proposed member may not be in sync, or None (KIP-903)."""
    for member in proposal.isr:
        broker = brokers.get(member.broker_id)
        if broker is None:
            reason = "is not registered"
        elif broker.fenced:
            reason = "is fenced"
        elif broker.stopping_at is not None:
            reason = "is shutting down"
        elif member.broker_epoch not in (NO_EPOCH, broker.epoch):
            reason = f"fetched with epoch {member.broker_epoch}, {broker.epoch} is registered"
        else:
            continue
        return Refusal(Error.INELIGIBLE_REPLICA, f"broker {member.broker_id} {reason}")
    return None


def _misplaced(
    draft: PendingDecision, partition: PartitionRegistration, proposal: IsrProposal
) -> Refusal | None:
    """Why a member that is new may not be in sync for where it is, or None (KIP-858).

    It could not lead, and would count where it matters how many could. Who is in sync already is
    put out by whoever says that its directory has failed.
    """
    for member in proposal.isr:
        if member.broker_id in partition.isr:
            continue
        directory = directory_of(partition, member.broker_id)
        if not draft.is_online(member.broker_id, directory):
            return Refusal(
                Error.INELIGIBLE_REPLICA,
                f"broker {member.broker_id} has its replica in directory {directory}, "
                "which has failed or is not one that it has registered",
            )
    return None
