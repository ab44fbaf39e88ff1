"""Write the first record to every partition of a new topic as early as possible.

One request to each leader holds the records of all its partitions, like that of a client that
batches records. Records that a broker cannot write yet are retried after a pause that is short
compared with the measured time.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from admin.client.channels import Channels, Form
from admin.model import TopicDescription
from bench.faults import RunFailed
from quorum.clocks import wall_ms
from quorum.protocol.apis import ApiKey
from quorum.records.encode import ClientRecord, encode_client
from quorum.transport.address import Address

RETRIABLE: Final = frozenset({3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 75, 76, 78, 100, 103})
"""Errors of a partition that pass: unknown yet, no leader yet, moved, too few in sync, fenced."""
PAUSE_MS: Final = 5
TIMEOUT_MS: Final = 30_000
ACKS_ALL: Final = -1
VALUE: Final = b"first"


class FirstRecords:
    """A writer with acks=all and its own connections; close it with `aclose`."""

    def __init__(self) -> None:
        self._channels = Channels("bench-first-records")

    async def write(self, topic: TopicDescription, brokers: dict[int, Address]) -> None:
        """Return once every partition has acknowledged one record; raises `RunFailed`."""
        led: dict[int, set[int]] = {}
        for each in topic.partitions:
            led.setdefault(each.leader, set()).add(each.partition)
        async with asyncio.timeout(TIMEOUT_MS / 1_000), asyncio.TaskGroup() as tasks:
            for leader, partitions in led.items():
                tasks.create_task(self._write(topic, brokers[leader], partitions))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._channels.close()

    async def _write(
        self, topic: TopicDescription, leader: Address, partitions: Collection[int]
    ) -> None:
        missing = set(partitions)
        while missing:
            missing -= await self._try(topic, leader, sorted(missing))
            if missing:
                await asyncio.sleep(PAUSE_MS / 1_000)

    async def _try(
        self, topic: TopicDescription, leader: Address, partitions: Collection[int]
    ) -> set[int]:
        """Try to write; return the partitions that acknowledged."""
        record = ClientRecord(timestamp_ms=wall_ms(), key=None, value=VALUE)
        batch = bytes(encode_client([record], producer_id=-1, producer_epoch=-1, base_sequence=-1))

        def fill(form: Form) -> Any:
            data = tuple({"index": each, "records": batch} for each in partitions)
            part = {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partition_data": data,
            }
            return form.request(
                transactional_id=None,
                acks=ACKS_ALL,
                timeout=timedelta(milliseconds=TIMEOUT_MS),
                topic_data=(part,),
            )

        answer = await self._channels.ask(leader, ApiKey.PRODUCE, fill, timeout_ms=TIMEOUT_MS)
        done = set()
        for found in answer.value.responses[0].partition_responses:
            code = found.error_code.value
            if code == 0:
                done.add(found.index)
            elif code not in RETRIABLE:
                raise RunFailed(f"{topic.name}-{found.index} failed with {found.error_code.name}")
        return done
