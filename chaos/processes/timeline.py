"""The time line of a run: windows of throughput and latency, and who led when."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from admin.client.admin_client import Incompatible
from admin.client.channels import Channels, Form, NoResponse
from chaos.processes.load import Commit
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address

WINDOW_MS: Final = 100
LOOK_SECONDS: Final = 0.1
LOOK_MS: Final = 400
METADATA_TOPIC: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of a run: commits, and the 99th percentile of their latency in ms."""

    commits: Sequence[int]
    p99_ms: Sequence[float | None]
    """None for a window without a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A stretch of time in which the same node led in the same epoch, as the cluster said."""

    start_ms: int
    end_ms: int
    leader: int
    epoch: int


def percentile(rising: Sequence[float], percent: int) -> float:
    """Return the percentile: the least value that this share of the values does not exceed."""
    return rising[max(0, -(-len(rising) * percent // 100) - 1)]


def windows(commits: Sequence[Commit], start: float, end: float) -> Windows:
    """The commits by the window in which they were acknowledged."""
    size = WINDOW_MS / 1_000
    latencies: list[list[float]] = [[] for _ in range(int((end - start) / size) + 1)]
    for each in commits:
        if start <= each.ended <= end:
            latencies[int((each.ended - start) / size)].append((each.ended - each.begun) * 1_000)
    return Windows(
        commits=[len(each) for each in latencies],
        p99_ms=[round(percentile(sorted(each), 99), 1) if each else None for each in latencies],
    )


def longest_stall_ms(commits: Sequence[Commit], start: float, end: float) -> float:
    """The longest time between two acknowledgements in a stretch of time."""
    moments = [start, *(each.ended for each in commits if start <= each.ended <= end), end]
    return max(b - a for a, b in pairwise(moments)) * 1_000


class LeaderWatch:
    """Asks the nodes who leads, again and again, until it is cancelled."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self._addresses = dict(addresses)
        self._seen: list[tuple[float, int, int]] = []
        """Moment, epoch and leader."""

    async def run(self) -> None:
        """Ask until cancelled."""
        now = asyncio.get_running_loop().time
        channels = Channels("fire-watch")
        try:
            while True:
                answers = await asyncio.gather(
                    *(self._ask(channels, each) for each in self._addresses.values())
                )
                known = [each for each in answers if each is not None]
                if known:
                    self._seen.append((now(), *max(known)))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await channels.close()

    def spans(self, start: float) -> list[Leadership]:
        """The stretches in which a node led; one ends when another is seen, or nobody answers."""
        found: list[Leadership] = []
        for moment, epoch, leader in self._seen:
            at = round((moment - start) * 1_000)
            last = found[-1] if found else None
            goes_on = (
                last is not None
                and (last.leader, last.epoch) == (leader, epoch)
                and at - last.end_ms < 5 * LOOK_MS
            )
            if last is not None and goes_on:
                found[-1] = Leadership(
                    start_ms=last.start_ms, end_ms=at, leader=leader, epoch=epoch
                )
            else:
                found.append(Leadership(start_ms=at, end_ms=at, leader=leader, epoch=epoch))
        return found

    async def _ask(self, channels: Channels, address: Address) -> tuple[int, int] | None:
        """The epoch and the leader that this node knows of, from the leader itself."""

        def fill(form: Form) -> Any:
            partitions = [{"partition_index": 0}]
            topic = {"topic_name": METADATA_TOPIC, "partitions": partitions}
            return form.request(topics=[topic])

        try:
            answer = await channels.ask(address, ApiKey.DESCRIBE_QUORUM, fill, timeout_ms=LOOK_MS)
        except (NoResponse, Incompatible):
            return None
        if answer.value.error_code.value or not answer.value.topics:
            return None
        (partition,) = answer.value.topics[0].partitions
        if partition.error_code.value:
            return None
        return int(partition.leader_epoch), int(partition.leader_id)
