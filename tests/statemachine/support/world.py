"""A cluster for tests: an image, and commands that are decided, written, read and replayed.

Every decision made here is checked against the invariants, by `reference_checks`. It uses
no mock: records are encoded and decoded before they are replayed.
"""

from uuid import UUID

from statemachine import commands
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.features.features import ELR_VERSION, RANGES
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import EMBEDDED_BROKER, TOPIC_RESOURCE, Replicas
from tests.statemachine.support.reference_checks import check_change, check_image, contents

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TOPIC_ID = UUID(int=0x7A3B_5C11_9000_4000_8000_0000_0000_0001)
LEVEL = 30


def feature(low: int = 1, high: int = LEVEL) -> kafka_records.FeatureRange:
    """A range of metadata.version."""
    return kafka_records.FeatureRange(
        name="metadata.version", min_supported=low, max_supported=high
    )


FEATURES = (
    feature(),
    *(each for each in RANGES if each.name != "metadata.version"),
)
"""The features of a broker that can follow any cluster."""

EMBEDDED_FEATURES = (
    *FEATURES,
    kafka_records.FeatureRange(name=EMBEDDED_BROKER, min_supported=0, max_supported=1),
)
"""Those of an embedded one."""


def directory(broker_id: int) -> UUID:
    """The only log directory of a broker."""
    return UUID(int=0xD17 << 100 | broker_id)


def incarnation(broker_id: int, number: int = 1) -> UUID:
    """The id of a broker's process, the n-th one."""
    return UUID(int=broker_id << 64 | number)


class World:
    """A cluster with brokers 1 to n, all of them unfenced, founded at `level`.

    Without `elr` it is one without eligible leader replicas (KIP-966).
    """

    def __init__(self, broker_count: int = 0, level: int = LEVEL, *, elr: bool = False) -> None:
        self.image = Image()
        self.scheduler = Scheduler(self.image)
        self.now_ms = 1_000_000
        """The wall clock; tests move it."""
        features = ((ELR_VERSION, int(elr)),)
        self.ask(commands.FoundCluster(metadata_version=level, features=features))
        for broker_id in range(1, broker_count + 1):
            self.join(broker_id)

    def ask(self, command: commands.Command) -> commands.Decision:
        """Decide, check the decision, and replay its records."""
        before = contents(self.image)
        decision = decide(self.image, command, now_ms=self.now_ms, scheduler=self.scheduler)
        assert contents(self.image) == before, "decide changed the image"
        level = self.image.level
        for record in decision.records:
            self.replay(decode(encode(record, level)), written=record)
        check_image(self.image)
        return decision

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        """Replay one record at the end of the log, as it was read back."""
        assert written is None or record == written
        if isinstance(record, kafka_records.PartitionChange):
            before = self.image.topics[record.topic_id].partition(record.partition_id)
            replay(self.image, record, self.image.end_offset)
            after = self.image.topics[record.topic_id].partition(record.partition_id)
            assert before is not None
            assert after is not None
            check_change(before, record, after)
        else:
            replay(self.image, record, self.image.end_offset)

    # Brokers.

    def register(self, broker_id: int, number: int = 1, /, **fields: object) -> commands.Decision:
        """An incarnation registers; `fields` override those of the command."""
        known: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "our_cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation(broker_id, number),
            "endpoints": (),
            "features": FEATURES,
            "log_dirs": (directory(broker_id),),
        }
        return self.ask(commands.RegisterBroker(**{**known, **fields}))  # type: ignore[arg-type]

    def heartbeat(self, broker_id: int, **fields: object) -> commands.HeartbeatAnswered:
        """A broker that has applied all of the log sends a heartbeat."""
        known: dict[str, object] = {
            "broker_id": broker_id,
            "broker_epoch": self.epoch(broker_id),
            "metadata_offset": self.image.end_offset - 1,
        }
        command = commands.BrokerHeartbeat(**{**known, **fields})  # type: ignore[arg-type]
        answer = self.ask(command).answer
        assert isinstance(answer, commands.HeartbeatAnswered)
        return answer

    def join(self, broker_id: int, number: int = 1, /, **fields: object) -> None:
        """A broker registers and is unfenced."""
        self.register(broker_id, number, **fields)
        assert not self.heartbeat(broker_id).fenced

    def epoch(self, broker_id: int) -> int:
        """The broker epoch that is registered."""
        return self.image.brokers[broker_id].broker_epoch

    def fence(self, *broker_ids: int) -> commands.Decision:
        """The sessions of the brokers expire."""
        return self.ask(commands.FenceBrokers(broker_ids=broker_ids))

    # Topics and partitions.

    def given(self, *, configs: dict[str, str] | None = None, **fields: object) -> None:
        """Topic "t" exists with one partition more, which is as `fields` say."""
        if TOPIC_ID not in self.image.topics:
            self.replay(kafka_records.Topic(name="t", topic_id=TOPIC_ID))
        for name, value in (configs or {}).items():
            self.configure(name, value)
        number = len(self.image.topics[TOPIC_ID].partitions)
        known: dict[str, object] = {
            "partition_id": number,
            "topic_id": TOPIC_ID,
            "leader_epoch": 1,
            "partition_epoch": 2,
        }
        self.replay(kafka_records.Partition(**{**known, **fields}))  # type: ignore[arg-type]
        check_image(self.image)

    def configure(self, name: str, value: str | None) -> None:
        """A configuration of topic "t"."""
        self.replay(
            kafka_records.Config(
                resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=value
            )
        )

    def partition(self, number: int = 0) -> PartitionRegistration:
        """A partition of topic "t"."""
        partition = self.image.topics[TOPIC_ID].partition(number)
        assert partition is not None
        return partition

    def proposal(
        self, members: Replicas, number: int = 0, **fields: object
    ) -> commands.IsrProposal:
        """The request of the leader for this ISR; `fields` override."""
        partition = self.partition(number)
        known: dict[str, object] = {
            "topic_id": TOPIC_ID,
            "partition": number,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "isr": tuple(self.member(broker_id) for broker_id in members),
        }
        return commands.IsrProposal(**{**known, **fields})  # type: ignore[arg-type]

    def member(self, broker_id: int) -> commands.IsrMember:
        """A replica that has fetched in its present incarnation."""
        broker = self.image.brokers.get(broker_id)
        return commands.IsrMember(broker_id, -1 if broker is None else broker.broker_epoch)

    def propose(
        self, *proposals: commands.IsrProposal, sender: int | None = None, epoch: int | None = None
    ) -> tuple[commands.PartitionAltered, ...]:
        """The leader (of partition 0, unless it is named) sends proposals."""
        sender = self.partition().leader if sender is None else sender
        epoch = self.epoch(sender) if epoch is None else epoch
        answer = self.ask(
            commands.AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=proposals)
        ).answer
        assert isinstance(answer, commands.PartitionsAltered)
        assert answer.error is Error.NONE, answer
        return answer.partitions

    def sync(self, *isr: int, number: int = 0) -> commands.PartitionAltered:
        """The leader asks for this ISR and gets an answer."""
        leader = self.partition(number).leader
        (answer,) = self.propose(self.proposal(isr, number), sender=leader)
        return answer

    def reassign(
        self, *replicas: int, number: int = 0, topic: str = "t"
    ) -> commands.ReassignmentAltered:
        """Ask for these replicas."""
        return self._reassign(
            commands.Reassignment(topic=topic, partition=number, replicas=replicas)
        )

    def cancel(self, number: int = 0, topic: str = "t") -> commands.ReassignmentAltered:
        """Cancel what is under way."""
        return self._reassign(commands.Reassignment(topic=topic, partition=number, replicas=None))

    def _reassign(self, asked: commands.Reassignment) -> commands.ReassignmentAltered:
        answer = self.ask(commands.AlterReassignments(reassignments=(asked,))).answer
        assert isinstance(answer, commands.ReassignmentsAltered)
        (part,) = answer.partitions
        return part
