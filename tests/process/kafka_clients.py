"""Unmodified clients of Kafka, two kinds of them, for tests: each writes and reads in its thread.

What they are told to do differently from their defaults is to be quick: to ask again soon when a
broker is away, and to commit often; but for two faults of a client (`ConfluentProducer`,
`ConfluentMember`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import RetriableError

from admin.client.producer import NO_OFFSET

Told = Callable[[int], None]
"""Hears the offset of a record that was acknowledged, or `NO_OFFSET`."""

Settings = Mapping[str, Any]
NO_SECURITY: Final[Settings] = MappingProxyType({})

POLL_SECONDS: Final = 0.1
POLL_PYTHON_SECONDS: Final = 1
"""kafka-python joins its group inside a poll, and forgets the answer to one that was too short."""
COMMIT_MS: Final = 500
RECONNECT_MS_MAX: Final = 500
REBALANCE_MS: Final = 500
"""The time until a member of a group learns of another one."""
SESSION_PYTHON_MS: Final = 10_000
"""The time for which its group waits for a stalled member (see `POLL_PYTHON_SECONDS`)."""
CLOSE_SECONDS: Final = 60
RECORDS_MAX: Final = 500
WITHOUT_OFFSETS: Final = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)
"""The errors after which a `ConfluentMember` repeats its assignment."""


class Given(NamedTuple):
    """A record as a consumer hands it over."""

    partition: int
    offset: int
    value: bytes


class Writes(Protocol):
    """A producer that repeats nothing of its own accord, and wants all replicas in sync."""

    def send(self, topic: str, partition: int, value: bytes, told: Told) -> None:
        """Hand a record over; `told` hears of it when it is acknowledged, else never."""
        ...

    def close(self) -> None:
        """Wait until everything is acknowledged, or given up."""
        ...


class Reads(Protocol):
    """A member of a consumer group, or a reader of its own."""

    def poll(self) -> Iterable[Given]:
        """The next records, if any come soon."""
        ...

    def close(self) -> None:
        """Commit, and leave the group."""
        ...


Assigned = Callable[[Iterable[int]], None]
"""Hears which partitions of the topic a member has been assigned."""


OF_KAFKA_PYTHON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "security.protocol": "security_protocol",
        "ssl.ca.location": "ssl_cafile",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
    }
)
"""By the names of librdkafka's settings: those of kafka-python."""


def _of_kafka_python(security: Settings) -> Settings:
    return {own: security[name] for name, own in OF_KAFKA_PYTHON.items() if name in security}


class PythonProducer:
    """kafka-python's."""

    def __init__(self, servers: str, security: Settings = NO_SECURITY) -> None:
        """`security` are settings of librdkafka."""
        self._producer = KafkaProducer(
            **_of_kafka_python(security),
            bootstrap_servers=servers.split(","),
            enable_idempotence=True,
            acks="all",
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )

    def send(self, topic: str, partition: int, value: bytes, told: Told) -> None:
        sent = self._producer.send(topic, value=value, partition=partition)
        sent.add_callback(lambda metadata: told(metadata.offset))

    def close(self) -> None:
        self._producer.close(timeout=CLOSE_SECONDS)


class ConfluentProducer:
    """confluent-kafka's, with one request under way to a broker.

    With more, it may itself write a record twice when leaders change (librdkafka's issue 4953, open
    in 2.16): what it sent and was not told of, it sends again, is refused for want of replicas in
    sync, and takes it for not written; the next request comes to a leader that has it, is out of
    order there, and the producer begins a new epoch with all of them.
    """

    def __init__(self, servers: str, security: Settings = NO_SECURITY) -> None:
        self._producer = Producer(
            {
                **security,
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight.requests.per.connection": 1,
                "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
            }
        )

    def send(self, topic: str, partition: int, value: bytes, told: Told) -> None:
        def report(error: object, message: Message) -> None:
            if error is None:
                # Of a record that a leader had already, it says that it is there, but not where.
                offset = message.offset()
                told(NO_OFFSET if offset is None else offset)

        self._producer.produce(topic, value, partition=partition, on_delivery=report)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(CLOSE_SECONDS)


class PythonMember:
    """kafka-python's."""

    def __init__(
        self,
        servers: str,
        group: str,
        topic: str,
        assigned: Assigned,
        security: Settings = NO_SECURITY,
    ) -> None:
        """`security` are settings of librdkafka."""
        self._consumer = KafkaConsumer(
            **_of_kafka_python(security),
            bootstrap_servers=servers.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=COMMIT_MS,
            session_timeout_ms=SESSION_PYTHON_MS,
            heartbeat_interval_ms=REBALANCE_MS,
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        self._consumer.subscribe([topic], listener=_Listener(assigned))

    def poll(self) -> Iterator[Given]:
        yield from _polled(self._consumer)

    def close(self) -> None:
        self._consumer.close(timeout_ms=CLOSE_SECONDS * 1_000)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, assigned: Assigned) -> None:
        self._assigned = assigned

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Do nothing: the next run of a partition begins with its assignment."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._assigned(each.partition for each in assigned)


class ConfluentMember:
    """confluent-kafka's. It repeats an assignment whose committed offsets it failed to get.

    The library asks the coordinator once for the committed offsets of an assignment. If the broker
    answers that it is not the coordinator, the library finds the new one, but never repeats the
    request (librdkafka's issue 5586, open in 2.16): the member keeps its partitions, sends
    heartbeats, and fetches nothing. A test that kills all brokers during a rebalance meets this.
    """

    def __init__(
        self,
        servers: str,
        group: str,
        topic: str,
        assigned: Assigned,
        security: Settings = NO_SECURITY,
    ) -> None:
        self._assigned = assigned
        self._consumer = Consumer(
            {
                **security,
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": COMMIT_MS,
                "heartbeat.interval.ms": REBALANCE_MS,
                "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=lambda _, found: assigned(each.partition for each in found)
        )

    def poll(self) -> Iterator[Given]:
        messages = self._consumer.consume(RECORDS_MAX, POLL_SECONDS)
        yield from _given(messages)
        # The messages above belong to the runs that end here.
        if any(_says(message, WITHOUT_OFFSETS) for message in messages):
            self._assign_again()

    def _assign_again(self) -> None:
        partitions = self._consumer.assignment()
        self._assigned(each.partition for each in partitions)
        self._consumer.assign([TopicPartition(each.topic, each.partition) for each in partitions])

    def close(self) -> None:
        self._consumer.close()


class PythonReader:
    """kafka-python's, assigned the partitions of a topic from their beginning, in no group."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers.split(","),
            group_id=None,
            auto_offset_reset="earliest",
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        self._consumer.assign([PythonPartition(topic, number) for number in range(partitions)])
        self._consumer.seek_to_beginning()

    def poll(self) -> Iterator[Given]:
        yield from _polled(self._consumer)

    def close(self) -> None:
        self._consumer.close(timeout_ms=CLOSE_SECONDS * 1_000)


class ConfluentReader:
    """confluent-kafka's, the same. It names a group because it must, and leaves nothing there."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{topic}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        )

    def poll(self) -> Iterator[Given]:
        yield from _given(self._consumer.consume(RECORDS_MAX, POLL_SECONDS))

    def close(self) -> None:
        self._consumer.close()


def _polled(consumer: KafkaConsumer) -> Iterator[Given]:
    try:
        found = consumer.poll(POLL_PYTHON_SECONDS * 1_000, max_records=RECORDS_MAX)
    except RetriableError:
        return  # No broker answers; the caller polls again.
    for record in chain.from_iterable(found.values()):
        yield Given(record.partition, record.offset, record.value)


def _given(messages: Iterable[Message]) -> Iterator[Given]:
    for message in messages:
        error = message.error()
        if error is None:
            yield given(message)
        else:
            # After any other, the library goes on by itself (but see `ConfluentMember`).
            assert not error.fatal(), error


def _says(message: Message, codes: Collection[int]) -> bool:
    error = message.error()
    return error is not None and error.code() in codes


def given(message: Message) -> Given:
    """A message of confluent-kafka that is no error."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return Given(partition, offset, value)
