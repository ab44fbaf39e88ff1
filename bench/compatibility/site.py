"""A cluster that is up, and an administrator who prepares the calls of clients and judges them.

The administrator asks the controllers, with our client; librdkafka writes and reads the records.
All methods block: the cluster and its connections live on an event loop in another thread.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from admin.capabilities.brokers import ListBrokers, UnregisterBrokers
from admin.client.admin_client import AdminClient
from admin.faults import AdminError
from admin.model import Assignment, TopicDescription
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import log_dir
from bench.brokers import Brokers
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.transport.address import Address
from statemachine.vocabulary import TOPIC_RESOURCE

ANSWER_SECONDS: Final = 60
PATIENCE_SECONDS: Final = 20
"""The time until something that was asked for must be true."""
LOOK_AGAIN_SECONDS: Final = 0.1
READ_SECONDS: Final = 15
FIRST_REGISTERED_ID: Final = 901
_ATTRIBUTES: Final = slice(21, 23)
"""The bytes of the attributes in a record batch; their lowest three bits are the codec."""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

T = TypeVar("T")


class Site:
    """A cluster with an administrator."""

    def __init__(
        self,
        cluster: LocalCluster,
        client: AdminClient,
        heard: Sequence[AdminClient],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`heard` asks each broker; everything runs on `loop`."""
        self.cluster = cluster
        self._client = client
        self._heard = heard
        self._loop = loop
        self._registered = FIRST_REGISTERED_ID

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers."""
        return [node.id for node in self.cluster.plan.brokers]

    @property
    def servers(self) -> str:
        """The bootstrap servers of clients."""
        return ",".join(map(str, self.cluster.brokers))

    @property
    def controllers(self) -> str:
        """The addresses of the controllers, as bootstrap servers."""
        return ",".join(map(str, self.cluster.controllers))

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self.cluster.plan.cluster_id

    def data(self, node_id: int) -> Path:
        """The data folder of a node."""
        (node,) = (each for each in self.cluster.plan.nodes if each.id == node_id)
        return log_dir(self.cluster.folder, node)

    def ask(self, step: Callable[[AdminClient], Coroutine[Any, Any, T]]) -> T:
        """The answer of the controllers."""
        return self._done(step(self._client))

    def _done(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(ANSWER_SECONDS)

    # --- topics ---------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicDescription | None:
        """The topic as the controllers see it."""
        return self.ask(lambda client: client.describe_topics([name])).get(name)

    def create(
        self, name: str, layout: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic, and wait until each broker knows its leaders."""
        placed = dict(enumerate(layout))
        self.ask(lambda client: client.create_topic(name, assignments=placed, configs=configs))
        for each in self._heard:
            until(partial(self._is_led, each, name), f"a broker that knows {name}")

    def _is_led(self, broker: AdminClient, name: str) -> bool:
        found = self._done(broker.describe_topics([name])).get(name)
        return found is not None and all(each.leader >= 0 for each in found.partitions)

    def delete(self, name: str) -> None:
        """Delete a topic, if it is there."""
        with suppress(AdminError):
            if self.topic(name) is not None:
                self.ask(lambda client: client.delete_topic(name))

    def config(self, kind: int, name: str, key: str) -> str | None:
        """A setting in force."""
        found = self.ask(lambda client: client.describe_configs(kind, name))
        return next((each.value for each in found if each.name == key), None)

    def topic_config(self, name: str, key: str) -> str | None:
        """A setting of a topic that is in force."""
        return self.config(TOPIC_RESOURCE, name, key)

    # --- moves ----------------------------------------------------------------------------------

    def move(self, topic: str, replicas: Sequence[int]) -> None:
        """Begin to move the first partition of a topic."""
        wanted = [Assignment(topic=topic, partition=0, replicas=tuple(replicas))]
        (result,) = self.ask(lambda client: client.alter_reassignments(wanted))
        assert not result.kafka_error_code, result

    def is_moving(self, topic: str) -> bool:
        """True while the topic is being reassigned."""
        found = self.ask(lambda client: client.list_reassignments())
        return any(each.topic == topic for each in found)

    def register_fenced(self) -> int:
        """Register a broker that never sends a heartbeat; return its id."""
        broker_id, self._registered = self._registered, self._registered + 1
        leader_id = self.quorum().leader_id
        (leader,) = (each for each in self.cluster.plan.controllers if each.id == leader_id)

        async def register() -> None:
            brokers = Brokers(leader.kafka, self.cluster_id)
            try:
                await brokers.register_fenced([broker_id])
            finally:
                await brokers.close()

        self._done(register())
        return broker_id

    def is_registered(self, broker_id: int) -> bool:
        """True while the broker is registered."""
        found = self.ask(lambda client: client.ask(ListBrokers()))
        return any(each.broker_id == broker_id for each in found.brokers)

    def unregister(self, broker_id: int) -> None:
        """Forget a broker, if it is registered."""
        if self.is_registered(broker_id):
            self.ask(lambda client: client.ask(UnregisterBrokers(broker_ids=(broker_id,))))

    # --- the quorum -----------------------------------------------------------------------------

    def quorum(self) -> QuorumDescription:
        """The quorum as its leader sees it."""
        return self.ask(lambda client: client.describe_quorum())

    def a_follower(self) -> ReplicaKey:
        """A voter that does not lead, or the controller that has been removed from the voters."""
        quorum = self.quorum()
        voters = {each.id: each for each in quorum.voters}
        observers = {each.id: each for each in quorum.observers}
        ids = [node.id for node in self.cluster.plan.controllers]
        id = next(
            (each for each in ids if each not in voters),
            next(each for each in ids if each != quorum.leader_id),
        )
        found = voters.get(id) or observers[id]
        return ReplicaKey(ReplicaId(found.id), found.directory_id)

    def controller(self, id: int) -> Address:
        """The address of a controller."""
        (node,) = (each for each in self.cluster.plan.controllers if each.id == id)
        return node.kafka

    def is_voter(self, id: int) -> bool:
        """True if the controller is a voter."""
        return any(each.id == id for each in self.quorum().voters)

    def remove_voter(self, voter: ReplicaKey) -> None:
        """Remove a voter, and wait until it is one no longer."""
        self.ask(lambda client: client.remove_voter(voter))
        until(lambda: voter.id in {each.id for each in self.quorum().observers}, "an observer")

    def restore_voters(self) -> None:
        """Make every controller a voter again."""
        for node in self.cluster.plan.controllers:
            if not self.is_voter(node.id):
                self._done(self._client.add_voter(self.a_follower(), [("CONTROLLER", node.kafka)]))
                until(partial(self.is_voter, node.id), f"voter {node.id}")

    # --- records, groups and transactions -------------------------------------------------------

    def write(self, topic: str, values: Sequence[str], codec: str = "none") -> None:
        """Write these records to the first partition, in one batch."""
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 20,
            }
        )
        failures: list[object] = []
        for value in values:
            producer.produce(
                topic,
                value.encode(),
                partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert not producer.flush(PATIENCE_SECONDS), f"{topic} took no records"
        assert not failures, failures

    def _consumer(self, group: str) -> Consumer:
        """A consumer that commits nothing by itself."""
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": group,
            "enable.auto.commit": False,
        }
        return Consumer(settings)

    def read(self, topic: str, count: int) -> list[str]:
        """The committed records of a topic, `count` of them if they come in time."""
        consumer = self._consumer("judge")
        found = self.topic(topic)
        assert found is not None, topic
        values: list[str] = []
        ends = perf_counter() + READ_SECONDS
        try:
            consumer.assign([TopicPartition(topic, each.partition, 0) for each in found.partitions])
            while len(values) < count and perf_counter() < ends:
                for message in consumer.consume(count, 0.2):
                    if message.error() is None:
                        values.append((message.value() or b"").decode())
        finally:
            consumer.close()
        return values

    def earliest(self, topic: str) -> int:
        """The first offset of the first partition."""
        consumer = self._consumer("judge")
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), READ_SECONDS)[0])
        finally:
            consumer.close()

    def codec(self, topic: str) -> str:
        """The codec of the first batch on the disk of a leader that has any."""
        found = self.topic(topic)
        assert found is not None, topic
        for partition in found.partitions:
            folder = self.data(partition.leader) / f"{topic}-{partition.partition}"
            for path in sorted(folder.glob("*.log")):
                attributes = path.read_bytes()[_ATTRIBUTES]
                if attributes:
                    return _CODECS[int.from_bytes(attributes, "big") & 7]
        return "no batch"

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of the first partition for a group without members."""
        at = [TopicPartition(topic, 0, offset)]

        def committed() -> bool:
            consumer = self._consumer(group)
            try:
                consumer.commit(offsets=at, asynchronous=False)
            except KafkaException:
                # The coordinator may still be loading the topic of offsets.
                return False
            finally:
                consumer.close()
            return True

        until(committed, f"a coordinator of group {group}")

    def committed(self, group: str, topic: str) -> int:
        """The committed offset of the first partition, negative if there is none.

        Raises `TimeoutError` if nobody knows the group.
        """
        consumer = self._consumer(group)
        try:
            (found,) = consumer.committed([TopicPartition(topic, 0)], READ_SECONDS)
            return int(found.offset)
        except KafkaException as error:
            raise TimeoutError(f"group {group} cannot be looked at: {error}") from None
        finally:
            consumer.close()

    def write_transaction(self, transactional_id: str, topic: str, values: Sequence[str]) -> None:
        """Write these records in one transaction, and commit it."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": transactional_id}
        )
        producer.init_transactions(PATIENCE_SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value.encode(), partition=0)
        producer.commit_transaction(PATIENCE_SECONDS)


def until(holds: Callable[[], object], wanted: str) -> None:
    """Ask again and again, at most `PATIENCE_SECONDS`; raises `TimeoutError`."""
    ends = perf_counter() + PATIENCE_SECONDS
    while not holds():
        if perf_counter() > ends:
            raise TimeoutError(f"there is not {wanted} after {PATIENCE_SECONDS} s")
        Event().wait(LOOK_AGAIN_SECONDS)


@asynccontextmanager
async def opened(cluster: LocalCluster) -> AsyncIterator[Site]:
    """The administrator of a cluster that is up."""
    asked = [
        AdminClient(cluster.controllers, is_controller=True),
        *(AdminClient([each], is_controller=False) for each in cluster.brokers),
    ]
    try:
        yield Site(cluster, asked[0], asked[1:], asyncio.get_running_loop())
    finally:
        for each in asked:
            await each.close()
