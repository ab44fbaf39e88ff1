"""Clients that are the first ones of their kind on a cluster, all at once.

Groups and transactions need topics of the cluster's own, which brokers have created when the first
client comes; here several come at the same moment, each to a broker of its own.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Final

from quorum.persistent_state import LOG_FOLDER
from quorum.records.batch import whole_bytes
from quorum.records.decode import decode as decode_records
from statemachine.records import codec, kafka_records
from tests.process.kafka_clients import ConfluentMember, PythonMember, PythonProducer, Reads
from tests.process.kafka_transactions import Transactional

TOPIC: Final = "first"
VALUE: Final = b"a record"
POLLS_MAX: Final = 60
MEMBERS_MAX: Final = 5
"""So many may join in place of each other, because kafka-python's may stop in the middle of it. One
that joined a second time while the group's topic was loaded sent nothing for ten minutes, not even
a heartbeat, although the broker had answered.
"""
MEMBERS: Final[tuple[Callable[..., Reads], ...]] = (PythonMember, ConfluentMember)


async def come_all_at_once(brokers: Sequence[str]) -> None:
    """At each broker a group of each kind reads a record, and a transaction can be begun."""
    everywhere = ",".join(brokers)
    works = [
        lambda at=at, number=number: _join(MEMBERS[number % 2], at, f"first-{number}")
        for number, at in enumerate(brokers)
    ]
    works += [
        lambda at=at, number=number: _take_over(at, f"first-{number}")
        for number, at in enumerate(brokers)
    ]
    start = Barrier(len(works))

    def work(each: Callable[[], None]) -> None:
        start.wait()
        each()

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(works)) as pool:
        await loop.run_in_executor(pool, _write, everywhere)
        await asyncio.gather(*(loop.run_in_executor(pool, work, each) for each in works))


def _write(servers: str) -> None:
    told: list[int] = []
    producer = PythonProducer(servers)
    producer.send(TOPIC, 0, VALUE, told.append)
    producer.close()
    assert told == [0]


def _join(member: Callable[..., Reads], server: str, group: str) -> None:
    for _ in range(MEMBERS_MAX):
        reads = member(server, group, TOPIC, lambda assigned: None)
        try:
            for _ in range(POLLS_MAX):
                found = [each.value for each in reads.poll()]
                if found:
                    assert found == [VALUE]
                    return
        finally:
            reads.close()
    raise AssertionError(f"group {group} was given nothing")


def _take_over(server: str, name: str) -> None:
    producer = Transactional(server, name)
    producer.write(TOPIC, [])
    producer.commit()


def creations(data: Path) -> list[str]:
    """Names of topics in the order in which they were created, as this controller's log has it."""
    found = []
    for path in sorted((data / LOG_FOLDER).glob("*.log")):
        data_bytes = path.read_bytes()
        # The controller runs, and may be in the middle of writing a batch.
        for each in decode_records(data_bytes[: whole_bytes(data_bytes)]):
            if not each.control and each.value is not None:
                record = codec.decode(each.value)
                if isinstance(record, kafka_records.Topic):
                    found.append(record.name)
    return found
