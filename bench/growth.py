"""The cost per partition of a batched move, by the number of its partitions.

The benchmark does the work of one controller in this process: decide, write, replay. The partitions
move from three brokers to three others, with at most two replicas per step and 500 partitions at a
time (KIP-435). Every added replica is in sync at once.
"""

from collections.abc import Sequence
from time import process_time
from typing import Final
from uuid import UUID

from statemachine import commands
from statemachine.decide import decide
from statemachine.features.features import RANGES
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT

FEW: Final = 1_000
MANY: Final = 10_000
AT_ONCE: Final = 500
REPLICAS_A_STEP: Final = 2
LEVEL: Final = 29
_TOPIC_ID: Final = UUID(int=0x70 << 100)
_OLD: Final = (1, 2, 3)
_NEW: Final = (4, 5, 6)
_NAME: Final = "moved"


class Moved:
    """An image with `count` partitions, and the cost of the decisions on it."""

    def __init__(self, count: int) -> None:
        self.image = Image()
        self.scheduler = Scheduler(self.image)
        self.count = count
        self._ask(commands.FoundCluster(metadata_version=LEVEL))
        for broker_id in (*_OLD, *_NEW):
            self._join(broker_id)
        self._limit()
        self._create()

    def move(self) -> float:
        """Move all partitions; return the seconds of processor time per partition."""
        begun = process_time()
        asked = tuple(
            commands.Reassignment(topic=_NAME, partition=number, replicas=_NEW)
            for number in range(self.count)
        )
        self._ask(commands.AlterReassignments(reassignments=asked))
        index = self.image.index
        while index.moving:
            by_leader: dict[int, list[tuple[Topic, int, PartitionRegistration]]] = {}
            for topic, number in index.partitions(index.stepping):
                partition = topic.partition(number)
                assert partition is not None
                by_leader.setdefault(partition.leader, []).append((topic, number, partition))
            for leader, held in sorted(by_leader.items()):
                self._catch_up(leader, held)
            self._ask(commands.AdvanceMoves())
        return (process_time() - begun) / self.count

    def _catch_up(
        self, leader: int, held: Sequence[tuple[Topic, int, PartitionRegistration]]
    ) -> None:
        epoch = self.image.brokers[leader].broker_epoch
        proposals = tuple(
            commands.IsrProposal(
                topic_id=topic.topic_id,
                partition=number,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr=tuple(commands.IsrMember(each, -1) for each in partition.replicas),
            )
            for topic, number, partition in held
        )
        self._ask(
            commands.AlterPartition(broker_id=leader, broker_epoch=epoch, proposals=proposals)
        )

    def _join(self, broker_id: int) -> None:
        self._ask(
            commands.RegisterBroker(
                broker_id=broker_id,
                cluster_id="",
                our_cluster_id="",
                incarnation_id=UUID(int=broker_id),
                endpoints=(),
                features=RANGES,
                log_dirs=(UUID(int=0xD1 << 100 | broker_id),),
            )
        )
        epoch = self.image.brokers[broker_id].broker_epoch
        self._ask(
            commands.BrokerHeartbeat(
                broker_id=broker_id, broker_epoch=epoch, metadata_offset=self.image.end_offset
            )
        )

    def _limit(self) -> None:
        for name, value in ((PARALLEL_PARTITIONS, AT_ONCE), (PARALLEL_REPLICAS, REPLICAS_A_STEP)):
            self._replay(
                kafka_records.Config(
                    resource_type=BROKER_RESOURCE,
                    resource_name=CLUSTER_DEFAULT,
                    name=name,
                    value=str(value),
                )
            )

    def _create(self) -> None:
        new = commands.NewTopic(
            name=_NAME,
            topic_id=_TOPIC_ID,
            assignments=tuple((number, _OLD) for number in range(self.count)),
        )
        self._ask(commands.CreateTopics(topics=(new,)))

    def _ask(self, command: commands.Command) -> None:
        for record in decide(self.image, command, scheduler=self.scheduler).records:
            encode(record, LEVEL)
            self._replay(record)

    def _replay(self, record: kafka_records.Record) -> None:
        replay(self.image, record, self.image.end_offset)


def growth() -> float:
    """The cost per partition in a large move, divided by that in a small one."""
    few = Moved(FEW).move()
    return Moved(MANY).move() / few
