"""The longest time without an acknowledgement for a producer that writes continuously.

It is measured per partition, so that acknowledgements of other partitions cannot hide the silence
of one.
"""

import asyncio
from array import array
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Final

from admin.client.admin_client import AdminError
from admin.client.producer import Producer, Sent
from quorum.clocks import wall_ms
from quorum.records.encode import ClientRecord

INTERVAL_MS: Final = 20
"""The interval between two records to the same partition."""
OUTSTANDING_MAX: Final = 5_000
"""The limit of unacknowledged records per partition."""
_VALUE: Final = b"x" * 64


def longest_silence(moments: Sequence[float], begin: float, end: float) -> float:
    """The longest stretch from `begin` to `end` without any of the rising `moments`."""
    inside = [each for each in moments if begin <= each <= end]
    edges = [begin, *inside, end]
    return max(after - before for before, after in pairwise(edges))


class SteadyProducer:
    """A producer with acks=all and a steady rate for every partition; `run` is its task."""

    def __init__(self, producer: Producer, topic: str, partitions: int) -> None:
        self._producer = producer
        self._topic = topic
        self._acknowledged = [array("d") for _ in range(partitions)]
        self._outstanding = [0] * partitions
        self._failure: AdminError | None = None

    async def run(self) -> None:
        """Write until cancelled; raises `AdminError` if a record is lost."""
        next_at = perf_counter()
        while True:
            if self._failure is not None:
                raise self._failure
            for partition, outstanding in enumerate(self._outstanding):
                if outstanding < OUTSTANDING_MAX:
                    await self._send(partition)
            next_at += INTERVAL_MS / 1_000
            await asyncio.sleep(max(0.0, next_at - perf_counter()))

    def silence_ms(self, begin: float, end: float) -> float:
        """The longest silence of any partition between two times of `perf_counter`."""
        return 1_000 * max(longest_silence(each, begin, end) for each in self._acknowledged)

    def heard_since(self, moment: float) -> bool:
        """True if every partition has acknowledged a record since `moment`."""
        return all(len(each) > 0 and each[-1] > moment for each in self._acknowledged)

    async def _send(self, partition: int) -> None:
        record = ClientRecord(timestamp_ms=wall_ms(), key=None, value=_VALUE)
        sent = await self._producer.send(self._topic, partition, [record])
        self._outstanding[partition] += 1

        def acknowledged(sent: "asyncio.Future[Sent]") -> None:
            self._outstanding[partition] -= 1
            if sent.cancelled():
                return
            error = sent.exception()
            if isinstance(error, AdminError):
                self._failure = error
            else:
                self._acknowledged[partition].append(perf_counter())

        sent.add_done_callback(acknowledged)
