"""A controller that decides with the state machine and keeps its log in memory."""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from quorum.protocol import codec
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.transport.inbound import InboundRequest
from statemachine.commands import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    BrokerRegistered,
    Command,
    CreateTopics,
    DeleteTopics,
    DirectoryAssignment,
    FenceBrokers,
    FoundCluster,
    IsrMember,
    IsrProposal,
    NewTopic,
    PartitionsAltered,
    ProducerIdsAllocated,
    Reassignment,
    RegisterBroker,
    ReplicasAssigned,
)
from statemachine.decide import decide
from statemachine.features.features import RANGES
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records import kafka_records
from statemachine.replay import replay
from tests.support.kio_values import make, nested

CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
RNG: Final = random.Random(20)
LEVEL: Final = 25
"""The default metadata.version of a test."""

CONTROLLER_APIS: Final[Mapping[int, VersionRange]] = {
    key: SPOKEN[key]
    for key in (
        int(ApiKey.API_VERSIONS),
        int(ApiKey.ALTER_PARTITION),
        int(ApiKey.ALLOCATE_PRODUCER_IDS),
        int(ApiKey.ASSIGN_REPLICAS_TO_DIRS),
        int(ApiKey.ENVELOPE),
    )
}


class Learner(Protocol):
    """A broker that replays what was decided."""

    def learn(self) -> None: ...


class TheController:
    """Decides, replays, and answers what brokers ask of a controller."""

    def __init__(self, level: int = LEVEL) -> None:
        self.image = Image()
        self.log: list[kafka_records.Record] = []
        self.nodes: list[Learner] = []
        self.altered: list[AlterPartition] = []
        self.assigned: list[AssignReplicasToDirs] = []
        self.is_deaf = False
        self.unheard: list[InboundRequest] = []
        """Proposals that came while it was deaf."""
        self.envelopes: list[InboundRequest] = []
        self.port = 0
        self.decide(FoundCluster(metadata_version=level))

    def decide(self, command: Command) -> Any:
        """The answer to `command`, whose records every broker now knows."""
        decision = decide(self.image, command)
        for record in decision.records:
            replay(self.image, record, self.image.end_offset)
            self.log.append(record)
        for node in self.nodes:
            node.learn()
        return decision.answer

    def register(self, broker_id: int, port: int, incarnation: UUID, directory_id: UUID) -> int:
        """A new incarnation of a broker, alive; returns its broker epoch."""
        answer = self.decide(
            RegisterBroker(
                broker_id=broker_id,
                cluster_id=CLUSTER,
                our_cluster_id=CLUSTER,
                incarnation_id=incarnation,
                endpoints=(
                    kafka_records.Endpoint(
                        name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0
                    ),
                ),
                features=RANGES,
                log_dirs=(directory_id,),
            )
        )
        assert isinstance(answer, BrokerRegistered)
        assert not answer.error.code, answer
        self.decide(
            BrokerHeartbeat(
                broker_id=broker_id,
                broker_epoch=answer.broker_epoch,
                metadata_offset=self.image.end_offset,
            )
        )
        return answer.broker_epoch

    def create(self, topic: str, *replicas: tuple[int, ...], **configs: str) -> UUID:
        """A topic whose partitions have these replicas; configurations with _ for dots."""
        topic_id = UUID(int=RNG.getrandbits(128), version=4)
        answer = self.decide(
            CreateTopics(
                topics=(
                    NewTopic(
                        name=topic,
                        topic_id=topic_id,
                        assignments=tuple(enumerate(replicas)),
                        configs=tuple((k.replace("_", "."), v) for k, v in configs.items()),
                    ),
                )
            )
        )
        assert not answer.topics[0].error.code, answer
        return topic_id

    def fence(self, *broker_ids: int) -> None:
        """These brokers have been silent for too long."""
        self.decide(FenceBrokers(broker_ids=broker_ids))

    def delete(self, topic: str) -> None:
        self.decide(DeleteTopics(topics=(topic,)))

    def reassign(self, topic: str, *replicas: int, number: int = 0) -> None:
        """Move a partition to these brokers."""
        move = Reassignment(topic=topic, partition=number, replicas=replicas)
        answer = self.decide(AlterReassignments(reassignments=(move,)))
        assert not answer.partitions[0].error.code, answer

    def of(self, topic: str, number: int = 0) -> PartitionRegistration:
        """The registration of a partition."""
        found = self.image.topic_named(topic)
        partition = None if found is None else found.partition(number)
        assert partition is not None
        return partition

    def handle(self, request: InboundRequest) -> None:
        match request.api_key:
            case ApiKey.API_VERSIONS:
                request.respond(write_offer(request.api_version, CONTROLLER_APIS))
            case ApiKey.ALTER_PARTITION:
                self._alter_partition(request)
            case ApiKey.ALLOCATE_PRODUCER_IDS:
                self._allocate(request)
            case ApiKey.ASSIGN_REPLICAS_TO_DIRS:
                self._assign_replicas(request)
            case _:
                self.envelopes.append(request)

    def hear(self) -> None:
        """Take what came while it was deaf, and all that comes from now on."""
        self.is_deaf = False
        unheard, self.unheard = self.unheard, []
        for request in unheard:
            self.handle(request)

    def _alter_partition(self, request: InboundRequest) -> None:
        if self.is_deaf:
            self.unheard.append(request)
            return
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        command = AlterPartition(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            proposals=tuple(
                IsrProposal(
                    topic_id=topic.topic_id,
                    partition=each.partition_index,
                    leader_epoch=each.leader_epoch,
                    partition_epoch=each.partition_epoch,
                    recovery=each.leader_recovery_state,
                    isr=tuple(
                        IsrMember(member.broker_id, member.broker_epoch)
                        for member in each.new_isr_with_epochs
                    ),
                )
                for topic in message.topics
                for each in topic.partitions
            ),
        )
        self.altered.append(command)
        answer = self.decide(command)
        assert isinstance(answer, PartitionsAltered)
        schema = codec.response_schema(request.api_key, request.api_version)
        of_topic, of_partition = (nested(schema, n) for n in ("TopicData", "PartitionData"))
        self._respond(
            request,
            error_code=codec.error_code(answer.error.code),
            topics=tuple(
                make(
                    of_topic,
                    topic_id=each.topic_id,
                    partitions=(
                        make(
                            of_partition,
                            partition_index=each.partition,
                            error_code=codec.error_code(each.error.code),
                            leader_id=each.leader,
                            leader_epoch=each.leader_epoch,
                            isr=each.isr,
                            partition_epoch=each.partition_epoch,
                        ),
                    ),
                )
                for each in answer.partitions
            ),
        )

    def _assign_replicas(self, request: InboundRequest) -> None:
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        (directory,) = message.directories
        command = AssignReplicasToDirs(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            assignments=tuple(
                DirectoryAssignment(
                    directory_id=directory.id_,
                    topic_id=topic.topic_id,
                    partition=each.partition_index,
                )
                for topic in directory.topics
                for each in topic.partitions
            ),
        )
        self.assigned.append(command)
        answer = self.decide(command)
        assert isinstance(answer, ReplicasAssigned)
        schema = codec.response_schema(request.api_key, request.api_version)
        of_directory, of_topic, of_partition = (
            nested(schema, name) for name in ("DirectoryData", "TopicData", "PartitionData")
        )
        topics = tuple(
            make(
                of_topic,
                topic_id=asked.topic_id,
                partitions=(
                    make(
                        of_partition,
                        partition_index=asked.partition,
                        error_code=codec.error_code(each.error.code),
                    ),
                ),
            )
            for asked, each in zip(command.assignments, answer.replicas, strict=False)
        )
        self._respond(
            request,
            error_code=codec.error_code(answer.error.code),
            directories=(make(of_directory, id_=directory.id_, topics=topics),),
        )

    def _allocate(self, request: InboundRequest) -> None:
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        answer = self.decide(
            AllocateProducerIds(broker_id=message.broker_id, broker_epoch=message.broker_epoch)
        )
        assert isinstance(answer, ProducerIdsAllocated)
        self._respond(
            request,
            error_code=codec.error_code(answer.error.code),
            producer_id_start=answer.first_id,
            producer_id_len=answer.count,
        )

    def _respond(self, request: InboundRequest, **values: Any) -> None:
        schema = codec.response_schema(request.api_key, request.api_version)
        payload = make(schema, throttle_time=timedelta(0), **values)
        request.respond(codec.encode_response_body(request.api_key, request.api_version, payload))
