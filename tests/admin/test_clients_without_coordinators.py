"""Clients that ask the embedded brokers for groups and transactions: an error at once, with words.

The clients are unmodified. Each call is bounded by its client; none of the errors is a time-out.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonError

from tests.admin.embedded_brokers import embedded
from tests.support.broker_requests import created
from tests.support.kafka_client import kafka_client

PATIENCE_SECONDS = 30
NO_GROUPS = "the embedded brokers of metaquorum have no consumer groups"
NO_TRANSACTIONS = "the embedded brokers of metaquorum have no transactions"

pytestmark = [
    pytest.mark.thorough,
    # kafka-python forgets the sockets of clients that failed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def subscribed_confluent(server: str) -> str:
    consumer = Consumer({"bootstrap.servers": server, "group.id": "g"})
    consumer.subscribe(["t"])
    message = consumer.poll(PATIENCE_SECONDS)
    consumer.close()
    assert message is not None, "it waits for ever"
    error = message.error()
    assert error is not None
    assert (error.code(), error.retriable()) == (KafkaError.UNSUPPORTED_VERSION, False)
    return error.str()


def transactional_confluent(server: str) -> str:
    producer = Producer({"bootstrap.servers": server, "transactional.id": "x", "log_level": 0})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(PATIENCE_SECONDS)
    error = raised.value.args[0]
    assert error.fatal()
    return str(error.str())


def subscribed_python(server: str) -> str:
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=server,
        group_id="g",
        consumer_timeout_ms=PATIENCE_SECONDS * 1_000,
    )
    with pytest.raises(PythonError) as raised:
        next(consumer)
    consumer.close()
    return str(raised.value)


def transactional_python(server: str) -> str:
    producer = KafkaProducer(bootstrap_servers=server, transactional_id="x")
    with pytest.raises(PythonError) as raised:
        producer.init_transactions()
    producer.close(timeout=1)
    return str(raised.value)


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (subscribed_confluent, NO_GROUPS),
        (transactional_confluent, NO_TRANSACTIONS),
        (subscribed_python, "UnsupportedVersionError"),
        (transactional_python, "ClusterAuthorizationFailedError"),
    ],
)
async def test_a_client_is_told_at_once(
    tmp_path: Path,
    client: Callable[[str], str],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    async with embedded(tmp_path, 101) as it:
        async with kafka_client(it.node.address) as raw:
            await created(raw, "t", (101,))
        said = await asyncio.to_thread(client, f"127.0.0.1:{it.brokers[101].port}")
    assert words in said
