"""Traffic whose readers are assigned all partitions of a topic, and read from the beginning.

It needs no consumer groups, so that brokers that offer none serve it as well.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from admin.tools.demo.workload import Written
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_clients import ConfluentReader, PythonReader, Reads
from tests.process.kafka_traffic import PRODUCERS, ReaderGroup, Runs, Traffic, flow

READERS: Final[dict[str, Callable[[str, str, int], Reads]]] = {
    "kafka-python": PythonReader,
    "confluent-kafka": ConfluentReader,
}


def assigned_traffic(
    servers: str, topic: str, written: Sequence[Written], logs: Sequence[Path]
) -> AbstractAsyncContextManager[Traffic]:
    """Such traffic that flows; at the end it is compared, and a fault fails the test."""
    count = len(written)
    # That something written since comes through, and not only what was there before.
    begun = [each.given + 1 for each in written[: len(PRODUCERS)]]
    begun += [0] * (count - len(begun))

    def joining(reader: Callable[[str, str, int], Reads]) -> Callable[[Runs], Reads]:
        def join(runs: Runs) -> Reads:
            runs.update((partition, Run()) for partition in range(count))
            return reader(servers, topic, count)

        return join

    readers = [
        ReaderGroup(name, joining(reader), 1, begun, Deliveries(count))
        for name, reader in READERS.items()
    ]
    return flow(Traffic(servers, topic, written, readers, logs))
