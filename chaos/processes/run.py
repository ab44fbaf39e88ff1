"""One run, from the first process to the verdict: rounds of faults under load, then the checks."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from chaos.processes.faults import Fault, Kind, fault, schedule
from chaos.processes.load import Load
from chaos.processes.log_checker import committed_log, disagreements, missing
from chaos.processes.network import FaultyNetwork
from chaos.processes.nodes import NodeEnded, Nodes
from chaos.processes.report import Report, Round

GIVE_UP_SECONDS: Final = 60.0
"""The longest time that a healthy cluster may take to start, or to recover after a fault."""
POLL_SECONDS: Final = 0.05
ASK_MS: Final = 1_000


class RunFailed(Exception):
    """The run cannot continue: the cluster did not start, or did not recover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """A fault to carry out, and its victims."""

    seed: int
    rounds: int
    nodes: int
    kinds: Sequence[Kind]
    settings: Mapping[str, str]


class Run:
    """One run; `carry_out` does it once, in a new folder."""

    def __init__(
        self, wish: RunSettings, folder: Path, network: FaultyNetwork, say: Callable[[str], None]
    ) -> None:
        self._wish = wish
        self._rng = random.Random(wish.seed)
        self._ids = range(1, wish.nodes + 1)
        self._network = network
        self._nodes = Nodes(folder, self._ids, network, wish.settings, self._rng)
        self._addresses = {id: network.listener_of(id) for id in self._ids}
        self._load = Load(self._addresses)
        self._say = say
        self._down: set[int] = set()

    async def carry_out(self) -> Report:
        """Carry out all rounds and the checks; raises `RunFailed` or `NodeEnded` when it breaks
        off."""
        try:
            await self._nodes.start(self._ids)
            await self._until_all_have_caught_up()
            rounds = await self._rounds()
            committed = await self._until_all_have_caught_up()
            problems = await self._load.read_back(self._addresses.values())
            self._nodes.check()
            await self._nodes.stop()
        finally:
            await self._nodes.close()
        return self._report(rounds, committed, problems)

    async def _rounds(self) -> list[Round]:
        done: list[Round] = []
        kinds = schedule(self._wish.kinds, self._rng)
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._load.run())
            await self._goes_on(_now())
            for number in range(1, self._wish.rounds + 1):
                leader = await self._leader()
                chosen = fault(next(kinds), self._ids, leader, self._rng)
                recovery_ms = await self._suffer(chosen)
                await self._until_all_have_caught_up()
                self._nodes.check()
                done.append(
                    Round(
                        number=number,
                        kind=chosen.kind.value,
                        fault=str(chosen),
                        recovery_ms=recovery_ms,
                    )
                )
                self._say(str(done[-1]))
            writing.cancel()
        return done

    async def _suffer(self, chosen: Fault) -> float:
        """Carry out one fault; return the ms until the cluster went on."""
        await self._inflict(chosen)
        # The cluster acknowledges every later write in spite of the fault.
        begun = _now()
        if chosen.leaves_majority:
            went_on = await self._goes_on(begun)
        left = chosen.hold_ms / 1_000 - (_now() - begun)
        await asyncio.sleep(max(0.0, left))
        if not chosen.leaves_majority:
            begun = _now()
        await self._relieve(chosen)
        if not chosen.leaves_majority:
            went_on = await self._goes_on(begun)
        return (went_on - begun) * 1_000

    async def _inflict(self, chosen: Fault) -> None:
        if chosen.kind.cuts:
            await self._network.cut(chosen.links)
        elif chosen.kind is Kind.PAUSE_LEADER:
            self._nodes.pause(chosen.nodes)
        else:
            self._nodes.kill(chosen.nodes)

    async def _relieve(self, chosen: Fault) -> None:
        if chosen.kind.cuts:
            await self._network.heal()
        elif chosen.kind is Kind.PAUSE_LEADER:
            self._nodes.resume(chosen.nodes)
        else:
            await self._nodes.reap()
            await self._nodes.start(chosen.nodes)

    async def _goes_on(self, moment: float) -> float:
        """The time at which a write that began after `moment` was acknowledged."""
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                return await self._load.success_after(moment)
        except TimeoutError:
            self._nodes.check()
            raise RunFailed(f"nothing was acknowledged for {GIVE_UP_SECONDS:g} s") from None

    async def _leader(self) -> int:
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS), self._anybody() as client:
                while True:
                    try:
                        return (await client.describe_quorum()).leader_id
                    except AdminError:
                        self._nodes.check()
        except TimeoutError:
            raise RunFailed(f"nobody led for {GIVE_UP_SECONDS:g} s") from None

    async def _until_all_have_caught_up(self) -> int:
        """Return a high watermark that every node has reached."""
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS), self._anybody() as client:
                while True:
                    try:
                        quorum = await client.describe_quorum()
                    except AdminError:
                        self._nodes.check()
                        continue
                    ends = [each.log_end_offset for each in quorum.voters]
                    if 0 < quorum.high_watermark <= min(ends):
                        return quorum.high_watermark
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            self._nodes.check()
            raise RunFailed(f"not every node had caught up after {GIVE_UP_SECONDS:g} s") from None

    def _anybody(self) -> AdminClient:
        return AdminClient(list(self._addresses.values()), is_controller=True, timeout_ms=ASK_MS)

    def _report(self, rounds: Sequence[Round], committed: int, problems: list[str]) -> Report:
        logs = {id: committed_log(self._nodes.data(id), committed) for id in self._ids}
        problems += disagreements(logs, committed)
        for id, (start, log) in logs.items():
            problems += [f"node {id}: {each}" for each in missing(self._load.registers, start, log)]
        return Report(
            seed=self._wish.seed,
            nodes=self._wish.nodes,
            network=type(self._network).__name__.lower(),
            settings=self._wish.settings,
            rounds=rounds,
            acknowledged=self._load.acknowledged,
            unknown=self._load.unknown,
            committed=committed,
            log_bytes=len(logs[1][1]),
            problems=problems,
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


__all__ = ["NodeEnded", "Run", "RunFailed", "RunSettings"]
