"""Log directories of replicas: assigned (KIP-858), failed, and cordoned (KIP-1066).

A replica in an offline directory can neither lead nor be in sync, even if its broker is alive. The
broker reports the directories of its replicas, and the directories that have failed or that get no
new replicas.
"""

from collections.abc import Collection
from uuid import UUID

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.commands import (
    AssignReplicasToDirs,
    DirectoryAssignment,
    Done,
    ReplicasAssigned,
)
from statemachine.errors import Error
from statemachine.image.partition_index import in_order
from statemachine.limits import LEAVING_PARTITIONS_MAX
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.elect_leaders import elect_each
from statemachine.partitions.isr import stale_broker
from statemachine.partitions.leader_election import election_for, isr_without
from statemachine.partitions.registration import PartitionRegistration, directory_of
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.slices import CHANGED_US, PASSED_US, Slices
from statemachine.vocabulary import (
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    BrokerId,
    Directories,
)


def assign_replicas_to_dirs(
    pending: PendingDecision, command: AssignReplicasToDirs
) -> Slices[ReplicasAssigned]:
    """Record the directories of the broker's replicas, each independently."""
    if pending.level < LEVEL_DIRECTORIES:
        return ReplicasAssigned(
            error=Error.UNSUPPORTED_VERSION,
            message=f"metadata.version is {pending.level}, directories are assigned from"
            f" {LEVEL_DIRECTORIES} on",
        )
    stale = stale_broker(pending.image, command.broker_id, command.broker_epoch)
    if stale is not None:
        return ReplicasAssigned.from_refusal(stale)
    replicas = []
    for each in command.assignments:
        replicas.append(_assigned(pending, command.broker_id, each))
        yield CHANGED_US
    return ReplicasAssigned(replicas=tuple(replicas))


def _assigned(pending: PendingDecision, broker_id: BrokerId, asked: DirectoryAssignment) -> Done:
    topic = pending.image.topics.get(asked.topic_id)
    if topic is None:
        unknown = f"no topic has the id {asked.topic_id}"
        return Done(error=Error.UNKNOWN_TOPIC_ID, message=unknown)
    partition = pending.partition(topic, asked.partition)
    if partition is None:
        unknown = f"topic {topic.name} has no partition {asked.partition}"
        return Done(error=Error.UNKNOWN_TOPIC_OR_PARTITION, message=unknown)
    if broker_id not in partition.replicas:
        return Done(
            error=Error.NOT_LEADER_OR_FOLLOWER,
            message=f"broker {broker_id} is not among the replicas {partition.replicas} of"
            f" {topic.name}-{asked.partition}",
        )
    directories = _with_directory(partition, broker_id, asked.directory_id)
    desired = replace(partition, directories=directories)
    if not pending.is_online(broker_id, asked.directory_id):
        desired = replace(desired, isr=isr_without(pending, desired, (broker_id,)))
    election = election_for(pending.image, topic)
    change_partition(pending, topic, asked.partition, desired, election=election)
    return Done()


def _with_directory(
    partition: PartitionRegistration, broker_id: BrokerId, directory_id: UUID
) -> Directories:
    return tuple(
        directory_id if replica == broker_id else directory_of(partition, replica)
        for replica in partition.replicas
    )


def lose_directories(
    pending: PendingDecision, broker: kafka_records.RegisterBroker, offline: Collection[UUID]
) -> Slices[bool]:
    """Remove a broker from the ISRs of its replicas in failed directories.

    Return False if it has no other directory: nothing is recorded, and it must be fenced.
    """
    if not offline or pending.level < LEVEL_DIRECTORIES:
        return True
    online = tuple(directory for directory in broker.log_dirs if directory not in offline)
    if online == broker.log_dirs:
        return True
    if not online:
        return False
    pending.set_log_dirs(broker.broker_id, online)
    yield from _leave_lost(pending, broker)
    if not pending.is_complete:
        return True
    pending.records.append(
        kafka_records.BrokerRegistrationChange(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=online
        )
    )
    return True


def cordon_directories(
    pending: PendingDecision, broker: kafka_records.RegisterBroker, cordoned: Directories | None
) -> None:
    """Record the directories that get no new replicas, if the broker reports other ones.

    As in Kafka, ids that are not directories of the broker are recorded too, and mean nothing.
    """
    if cordoned is None or pending.level < LEVEL_CORDONED_DIRECTORIES:
        return
    known = broker.cordoned_log_dirs
    if known is None or set(known) != set(cordoned):
        pending.records.append(
            kafka_records.BrokerRegistrationChange(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                cordoned_log_dirs=cordoned,
            )
        )


def _leave_lost(pending: PendingDecision, broker: kafka_records.RegisterBroker) -> Slices[None]:
    index, leaving = pending.image.index, (broker.broker_id,)
    lost = BitMap()
    for topic, number in (yield from in_order(index, index.of_any(index.isr_of, leaving))):
        partition = pending.partition(topic, number)
        assert partition is not None
        if not pending.is_online(broker.broker_id, directory_of(partition, broker.broker_id)):
            lost.add(topic.keys[number])
        yield PASSED_US
    yield from elect_each(
        pending,
        lost,
        lambda each: replace(each, isr=isr_without(pending, each, leaving)),
        at_most=LEAVING_PARTITIONS_MAX,
    )
