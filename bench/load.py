"""Many connections at work for a while, and what was measured of it."""

import asyncio
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admin.addresses import Address
from bench import machine
from bench.asker import Asker, Claim
from bench.faults import RunFailed
from bench.report import Row

WARM_UP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Processes:
    """The controllers by their process ids; the client is this process."""

    leader: int
    followers: tuple[int, ...]

    @property
    def all(self) -> list[int]:
        """Those of the run, the client's too."""
        return [os.getpid(), self.leader, *self.followers]


class Load:
    """Connections to `leader`, each with a partition of its own. Call `run` once."""

    def __init__(self, leader: Address, claims: Sequence[Claim], processes: Processes) -> None:
        self._leader = leader
        self._processes = processes
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._askers = [Asker(claim, self._fail) for claim in claims]

    async def run(self, seconds: float) -> Row:
        """Warm up, measure, and return once nothing is under way; raises `RunFailed`."""
        loop = asyncio.get_running_loop()
        for asker in self._askers:
            await loop.create_connection(asker.itself, *self._leader)
        for asker in self._askers:
            asker.go()
        await self._pass(WARM_UP_SECONDS)
        latencies: array[float] = array("d")
        used, begun = machine.used(self._processes.all), loop.time()
        for asker in self._askers:
            asker.latencies = latencies
        await self._pass(seconds)
        for asker in self._askers:
            asker.latencies = None
        passed, spent = loop.time() - begun, machine.used(self._processes.all).since(used)
        await self._halt()
        return self._row(latencies, passed, spent)

    async def _pass(self, seconds: float) -> None:
        await asyncio.wait({self._failure}, timeout=seconds)
        if self._failure.done():
            self._failure.result()

    async def _halt(self) -> None:
        """Let what is under way be answered, so that every partition's last change is known."""
        for halted in [asker.halt() for asker in self._askers]:
            await asyncio.wait({halted, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
        for asker in self._askers:
            asker.close()

    def _fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_exception(RunFailed(reason))

    def _row(self, latencies: "array[float]", passed: float, used: machine.Used) -> Row:
        if not latencies:
            raise RunFailed("nothing was committed while it was measured")
        leader = used.by_pid[self._processes.leader] / passed
        followers = sum(used.by_pid[pid] for pid in self._processes.followers) / passed
        client = used.by_pid[os.getpid()] / passed
        return Row(
            outstanding=len(self._askers),
            commits_per_second=len(latencies) / passed,
            p50_ms=machine.percentile(latencies, 50) * 1_000,
            p99_ms=machine.percentile(latencies, 99) * 1_000,
            leader=leader,
            followers=followers,
            client=client,
            others=max(0.0, used.machine / passed - leader - followers - client),
            cores=os.cpu_count() or 1,
        )
