"""Clients that write continuously and record the answers.

Each writer sends to one node, which forwards the request, and owns one register: the subscription
`fire-N` to clients' metrics, whose `metrics` are set to n1, n2, n3 ... A number is used once: one
without an answer stays unknown.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from quorum.transport.address import Address

CLIENT_METRICS: Final = 16
"""Kafka's number of this kind of resource."""
NAME: Final = "metrics"
WRITERS_PER_NODE: Final = 2
WRITE_MS: Final = 400
"""The time a writer waits for an answer before it takes the next number."""
PAUSE_MS: Final = 5
READ_MS: Final = 10_000


@dataclass(slots=True)
class Register:
    """The writes of one writer, and their outcomes."""

    name: str
    asked: int = 0
    """The last number that was sent."""
    acknowledged: list[int] = field(default_factory=list)

    def may_hold(self, value: int) -> bool:
        """True if a reader may see this number once all writing has ended."""
        last = self.acknowledged[-1] if self.acknowledged else 0
        unknown = value not in self.acknowledged
        return value == last or (0 < value <= self.asked and unknown)


def number_of(value: str | None) -> int:
    """The number in a register's value; 0 for none."""
    return int(value.removeprefix("n")) if value else 0


class Load:
    """The writers of a run."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self._addresses = dict(addresses)
        self.registers = [
            Register(f"fire-{node}-{place}")
            for node in addresses
            for place in range(WRITERS_PER_NODE)
        ]
        self._successes: list[tuple[float, float]] = []
        self._progress = asyncio.Event()

    @property
    def acknowledged(self) -> int:
        return sum(len(each.acknowledged) for each in self.registers)

    @property
    def unknown(self) -> int:
        """The writes without an answer."""
        return sum(each.asked for each in self.registers) - self.acknowledged

    async def run(self) -> None:
        """Write until cancelled."""
        nodes = [node for node in self._addresses for _ in range(WRITERS_PER_NODE)]
        async with asyncio.TaskGroup() as tasks:
            for node, register in zip(nodes, self.registers, strict=True):
                tasks.create_task(self._write(self._addresses[node], register))

    async def success_after(self, moment: float) -> float:
        """Wait for a write that was begun after `moment` and acknowledged; return when that was."""
        while True:
            ended = [end for begun, end in self._successes if begun >= moment]
            if ended:
                return min(ended)
            # Drop older entries: `moment` never goes back between calls.
            self._successes = [each for each in self._successes if each[0] >= moment]
            self._progress.clear()
            await self._progress.wait()

    async def _write(self, address: Address, register: Register) -> None:
        now = asyncio.get_running_loop().time
        client = AdminClient([address], is_controller=True, timeout_ms=WRITE_MS)
        async with client:
            while True:
                register.asked += 1
                begun, value = now(), f"n{register.asked}"
                try:
                    await client.alter_configs(CLIENT_METRICS, register.name, {NAME: value})
                except AdminError:
                    continue
                register.acknowledged.append(register.asked)
                self._successes.append((begun, now()))
                self._progress.set()
                await asyncio.sleep(PAUSE_MS / 1_000)

    async def read_back(self, addresses: Iterable[Address]) -> list[str]:
        """Return the errors in the registers, as read from each of these nodes."""
        problems = []
        for address in addresses:
            async with AdminClient([address], is_controller=True, timeout_ms=READ_MS) as client:
                for register in self.registers:
                    found = await client.describe_configs(CLIENT_METRICS, register.name)
                    values = [each.value for each in found if each.name == NAME]
                    shown = number_of(values[0] if values else None)
                    if not register.may_hold(shown):
                        last = register.acknowledged[-1]
                        problems.append(
                            f"{address} shows {shown} in {register.name}, acknowledged was {last}"
                        )
        return problems
