"""An ordinary client's transactions on a real cluster, and what readers see of them.

Everything here blocks: it is run in a thread.
"""

from collections.abc import Sequence
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.process.kafka_clients import POLL_SECONDS, given

ANSWER_SECONDS: Final = 60
POLLS_MAX: Final = round(ANSWER_SECONDS / POLL_SECONDS)

Values = list[list[bytes]]
"""By partition: the records in the order in which they lie there."""


class Transactional:
    """A producer whose records count when their transaction is committed."""

    def __init__(self, servers: str, name: str) -> None:
        """It takes over from any other of this name, and fences it off."""
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        self._producer.init_transactions(ANSWER_SECONDS)

    def write(self, topic: str, values: Values) -> None:
        """Begin a transaction, and write; whoever does not ask for committed records sees them."""
        self._producer.begin_transaction()
        for partition, those in enumerate(values):
            for value in those:
                self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(ANSWER_SECONDS) == 0

    def consume(self, group: Consumer, topic: str, offset: int) -> None:
        """As part of the transaction, the group has read the first partition up to `offset`."""
        self._producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], group.consumer_group_metadata(), ANSWER_SECONDS
        )

    def commit(self) -> None:
        """Let the transaction count."""
        self._producer.commit_transaction(ANSWER_SECONDS)

    def abort(self) -> None:
        """Let it never have been."""
        self._producer.abort_transaction(ANSWER_SECONDS)


def values(name: str, partitions: int, count: int) -> Values:
    """Records that say whose they are and where they belong."""
    return [[f"{name} {place} {n}".encode() for n in range(count)] for place in range(partitions)]


def together(parts: Sequence[Values]) -> Values:
    """The records of several transactions, one after the other in each partition."""
    return [[value for part in each for value in part] for each in zip(*parts, strict=True)]


def read(servers: str, topic: str, partitions: int, isolation: str) -> Values:
    """All that a reader sees who asks for this isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic} {isolation}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: Values = [[] for _ in range(partitions)]
    ended = set()
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        for _ in range(POLLS_MAX):
            for message in consumer.consume(1_000, POLL_SECONDS):
                error = message.error()
                if error is None:
                    partition, _, value = given(message)
                    found[partition].append(value)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
            if len(ended) == partitions:
                return found
    finally:
        consumer.close()
    raise AssertionError(f"the ends of {topic} were not reached, but {sorted(map(str, ended))}")


def tell_the_story(servers: str, topic: str, partitions: int) -> None:
    """Commit, abort, take over, and leave one open: exactly what was committed is seen."""
    first, aborted, last, still_open = (
        values(name, partitions, count=20) for name in ("first", "aborted", "last", "open")
    )
    before = Transactional(servers, topic)
    group = Consumer({"bootstrap.servers": servers, "group.id": f"{topic} group"})
    try:
        before.write(topic, first)
        before.consume(group, topic, 7)
        before.commit()
        before.write(topic, aborted)
        before.consume(group, topic, 11)
        before.abort()
        assert read(servers, topic, partitions, "read_committed") == first
        assert read(servers, topic, partitions, "read_uncommitted") == together([first, aborted])
        (stands,) = group.committed([TopicPartition(topic, 0)], ANSWER_SECONDS)
        assert stands.offset == 7
    finally:
        group.close()

    # The unfinished transaction of the one before is aborted when another takes over.
    before.write(topic, aborted)
    after = Transactional(servers, topic)
    after.write(topic, last)
    after.commit()
    fenced_off(before)
    after.write(topic, still_open)
    assert read(servers, topic, partitions, "read_committed") == together([first, last])
    after.abort()


def fenced_off(producer: Transactional) -> None:
    """It is told that another has taken over, and cannot commit."""
    with pytest.raises(KafkaException) as refused:
        producer.commit()
    code = refused.value.args[0].code()
    assert code in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
