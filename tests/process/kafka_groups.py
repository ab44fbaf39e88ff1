"""Traffic that consumer groups read, two members in each, and where the groups stand afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_STORED, Consumer, TopicPartition

from admin.tools.demo.workload import Written
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_clients import (
    CLOSE_SECONDS,
    NO_SECURITY,
    POLL_SECONDS,
    RECORDS_MAX,
    ConfluentMember,
    PythonMember,
    Reads,
    Settings,
    given,
)
from tests.process.kafka_traffic import ReaderGroup, Runs, Traffic, flow

PARTITIONS: Final = 6
MEMBERS: Final = 2
POLLS_MAX: Final = 600
"""The limit of polls of a member that reads the rest."""

GROUPS: Final[dict[str, Callable[..., Reads]]] = {
    "python": PythonMember,
    "confluent": ConfluentMember,
}


@asynccontextmanager
async def group_traffic(
    servers: str, topic: str, logs: Sequence[Path], security: Settings = NO_SECURITY
) -> AsyncIterator[Traffic]:
    """Such traffic that flows over a new topic of so many `PARTITIONS`; a fault fails the test.

    `security` are the settings of librdkafka with which all clients log in.
    """
    groups = [_group(servers, topic, name, security) for name in GROUPS]
    written = [Written() for _ in range(PARTITIONS)]
    async with flow(Traffic(servers, topic, written, groups, logs, security)) as it:
        yield it
    await asyncio.to_thread(_check_where_they_stand, servers, topic, groups, security)


def _group(servers: str, topic: str, kind: str, security: Settings) -> ReaderGroup:
    name = f"{topic}-{kind}"

    def join(runs: Runs) -> Reads:
        return GROUPS[kind](
            servers,
            name,
            topic,
            lambda assigned: runs.update((partition, Run()) for partition in assigned),
            security,
        )

    return ReaderGroup(name, join, MEMBERS, [1] * PARTITIONS, Deliveries(PARTITIONS))


def _check_where_they_stand(
    servers: str, topic: str, groups: Sequence[ReaderGroup], security: Settings
) -> None:
    """No group stands beyond what it was given, and it is given what it stands before."""
    for group in groups:
        left = _left_to(servers, group.name, topic, security)
        ends = [each.end for each in left]
        assert ends == group.deliveries.ends(), group.name
        # A member that leaves while the group is being balanced anew may be refused its last
        # commit; what it had is then given again, and nothing else is.
        for each in left:
            assert 0 < each.committed <= each.end, f"{group.name}: {each}"
            assert each.given == list(range(each.committed, each.end)), f"{group.name}: {each}"


@dataclass
class Left:
    """The records that a group has left of a partition for a member that joins late."""

    committed: int
    end: int
    given: list[int] = field(default_factory=list)
    """The offsets of the records that the member was given."""


def _left_to(servers: str, group: str, topic: str, security: Settings) -> list[Left]:
    """By partition, what is left to this member, who goes on from where the group stands."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = Consumer({**security, "bootstrap.servers": servers, "group.id": group})
    try:
        ends = [consumer.get_watermark_offsets(each, CLOSE_SECONDS)[1] for each in partitions]
        committed = consumer.committed(partitions, CLOSE_SECONDS)
        left = [Left(each.offset, end) for each, end in zip(committed, ends, strict=True)]
        consumer.assign([TopicPartition(topic, n, OFFSET_STORED) for n in range(PARTITIONS)])
        for _ in range(POLLS_MAX):
            if all(len(each.given) >= each.end - each.committed for each in left):
                break
            for message in consumer.consume(RECORDS_MAX, POLL_SECONDS):
                one = given(message)
                left[one.partition].given.append(one.offset)
    finally:
        consumer.close()
    return left
