"""A wake-up in the turn in which a wait of the fetcher ends is not lost."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from broker.replication.replica_fetcher import ReplicaFetcher
from quorum.transport.channel import Channel
from quorum.transport.outcomes import Cause, Failure, Outcome
from tests.broker.embedded_cluster import cluster
from tests.support.bell import Bell

WAIT_SECONDS = 0.01
"""The time for which a fetcher waits while one of its partitions is truncated."""


class Line:
    """The requests of one fetcher, which the test answers when it likes."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.asked: list[Callable[[Outcome], None]] = []

    def request(
        self, _api_key: int, _body: object, on_done: Callable[[Outcome], None], **_: Any
    ) -> None:
        self.asked.append(on_done)
        self.bell.ring()


async def test_an_answer_in_the_turn_in_which_the_wait_ends_is_handled(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), (1, 2))
        node, line = brokers[2], Line()
        await node.fetchers.close()
        fetcher = ReplicaFetcher(
            1, cast(Channel, line), node.manager, node.disk, partition_bytes_max=1 << 20
        )
        for number in range(2):
            fetcher.add(node.partition("t", number))
        # One partition that cannot be asked for now makes the fetcher look again in a moment.
        node.partition("t", 1).begin_truncation()
        running = brokers.spawn(fetcher.run())
        await line.bell.until(lambda: line.asked)
        loop = asyncio.get_running_loop()
        # Timers that are due together run in one turn, in the order of their times.
        answered_at = loop.time() + 2 * WAIT_SECONDS
        loop.call_at(answered_at, line.asked[0], Failure(Cause.CLOSED, "on purpose"))
        while loop.time() <= answered_at:
            pass
        await line.bell.until(lambda: len(line.asked) > 1)
        node.partition("t", 1).truncated()
        running.cancel()
