"""Observations from outside: the leader, the progress of a move, the bytes copied."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from admin.addresses import Address
from admin.client import cluster
from admin.client.channels import Channels, NoResponse
from admin.model import Assignment, PartitionId
from admin.tools.local_plan import ClusterPlan, log_dir
from quorum.clocks import monotonic_ms
from quorum.protocol.apis import ApiKey

PROBE_MS: Final = 150
"""A node may keep a question until it knows a leader; whoever asks anew hears it sooner."""
PAUSE_MS: Final = 5


@dataclass(frozen=True, slots=True)
class Succession:
    """A new active controller, and when it first answered after its predecessor was killed."""

    leader_id: int
    epoch: int
    after_ms: int


async def await_successor(
    survivors: Sequence[Address], killed_id: int, killed_at_ms: int, within_ms: int
) -> Succession | None:
    """Ask `survivors` again and again who leads, until a new leader says so itself."""
    channels = Channels("metaquorum-demo")
    question = cluster.describe_quorum()
    found: asyncio.Future[Succession] = asyncio.get_running_loop().create_future()

    async def probe(address: Address) -> None:
        while not found.done():
            try:
                response = await channels.ask(
                    address, ApiKey.DESCRIBE_QUORUM, question.fill, timeout_ms=PROBE_MS
                )
            except NoResponse:
                response = None
            if response is not None and not question.judge(response).code:
                quorum = cluster.read_quorum(response, None)
                if quorum.leader_id not in (killed_id, -1) and not found.done():
                    after_ms = monotonic_ms() - killed_at_ms
                    found.set_result(Succession(quorum.leader_id, quorum.leader_epoch, after_ms))
            await asyncio.sleep(PAUSE_MS / 1_000)

    loop = asyncio.get_running_loop()
    probes = [loop.create_task(probe(address)) for address in survivors]
    try:
        # A probe ends before that only by an error, which is then ours to raise.
        waiting: set[asyncio.Future[Any]] = {found, *probes}
        done, _ = await asyncio.wait(
            waiting, timeout=within_ms / 1_000, return_when=asyncio.FIRST_COMPLETED
        )
        for each in done - {found}:
            each.result()
        return found.result() if found in done else None
    finally:
        for task in probes:
            task.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        await channels.close()


@dataclass(frozen=True, slots=True)
class Copy:
    """The progress of one new replica."""

    id: PartitionId
    broker: int
    copied_bytes: int
    whole_bytes: int


class Copies:
    """The logs on disk of the replicas that a plan adds, beside those that they are copied from."""

    def __init__(
        self,
        folder: Path,
        cluster: ClusterPlan,
        plan: Sequence[Assignment],
        before: Mapping[PartitionId, Sequence[int]],
    ) -> None:
        self._log_dirs = {node.id: log_dir(folder, node) for node in cluster.brokers}
        self._new = [
            (one.id, broker, before[one.id][0])
            for one in plan
            for broker in one.replicas or ()
            if broker not in before[one.id]
        ]

    def look(self) -> list[Copy]:
        """The sizes as they are now. A log that is gone again after the move counts as before."""
        return [
            Copy(id, broker, self._size_bytes(id, broker), self._size_bytes(id, source))
            for id, broker, source in self._new
        ]

    def _size_bytes(self, id: PartitionId, broker: int) -> int:
        return sum(size_bytes(path) for path in (self._log_dirs[broker] / str(id)).glob("*.log"))


def size_bytes(path: Path) -> int:
    """The size of a file; 0 for one that has just gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
