"""The clients of the table, in its order."""

from collections.abc import Sequence

from bench.compatibility import confluent, kafka_python, kafka_tools, kafkajs, kcl
from bench.compatibility.model import Client


def clients() -> Sequence[Client]:
    """Every client in every version."""
    return (
        *map(kafka_tools.client, kafka_tools.VERSIONS),
        kafka_python.client(),
        confluent.client(),
        kafkajs.client(),
        kcl.client(),
    )
