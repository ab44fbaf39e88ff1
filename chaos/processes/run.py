"""One run, from the first process to the verdict: rounds of faults under load, then the checks."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from admin.client.admin_client import AdminClient, AdminError
from chaos.linearizability.checker import Verdict
from chaos.processes.faults import Fault, Kind, fault, schedule
from chaos.processes.injector import Injector
from chaos.processes.judge import Judgement, judge
from chaos.processes.load import Load
from chaos.processes.log_checker import committed_log, disagreements, missing
from chaos.processes.machine import description
from chaos.processes.network import FaultyNetwork
from chaos.processes.nodes import NodeEnded, Nodes
from chaos.processes.preload import Preload
from chaos.processes.report import Course, Report, Round
from chaos.processes.timeline import LeaderWatch, longest_stall_ms, windows
from quorum.clocks import wall_ms

GIVE_UP_SECONDS: Final = 60.0
"""The longest time that a healthy cluster may take to start, or to recover after a fault."""
POLL_SECONDS: Final = 0.05
ASK_MS: Final = 1_000


class RunFailed(Exception):
    """The run cannot continue: the cluster did not start, or did not recover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The wish of whoever starts a run."""

    seed: int
    rounds: int
    nodes: int
    kinds: Sequence[Kind]
    settings: Mapping[str, str]
    target: str = "metaquorum"
    version: str = ""
    tag: str = "fire"
    """The beginning of all names that the run makes in the cluster."""
    left_out: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The cluster of a run, and what can be done to it."""

    nodes: Nodes
    network: FaultyNetwork
    preload: Preload
    points: Path


class Run:
    """One run; `carry_out` does it once, in a new folder."""

    def __init__(
        self,
        wish: RunSettings,
        stage: Stage,
        say: Callable[[str], None],
        ends: asyncio.Event | None = None,
    ) -> None:
        """`ends` asks for an orderly end before all rounds are done."""
        self._wish = wish
        self._rng = schedule_rng(wish.seed)
        self._ids = stage.nodes.ids
        self._nodes = stage.nodes
        self._addresses = {id: stage.network.listener_of(id) for id in self._ids}
        self._load = Load(self._addresses, wish.tag)
        self._watch = LeaderWatch(self._addresses)
        self._injector = Injector(
            stage.nodes, stage.network, stage.preload, stage.points, self._anybody
        )
        self._say = say
        self._ends = asyncio.Event() if ends is None else ends
        self._began = 0.0
        self._began_wall_ms = 0

    async def carry_out(self) -> Report:
        """Carry out all rounds and the checks; raises `RunFailed` or `NodeEnded` when it breaks
        off."""
        try:
            await self._nodes.prepare()
            await self._nodes.start(self._ids)
            await self._until_all_have_caught_up()
            rounds = await self._rounds()
            ended = _now()
            committed = await self._until_all_have_caught_up()
            problems = []
            # A controller of Kafka answers from its own image, which may be old (KIP-919).
            if not self._load.is_of_kafka:
                problems = await self._load.read_back(self._addresses.values())
            self._nodes.check()
            if not self._nodes.HAS_DISKS:
                await self._within(self._load.remove_all(), "not every object could be removed")
            await self._nodes.stop()
        finally:
            await self._nodes.close()
        return await asyncio.to_thread(self._report, rounds, committed, problems, ended)

    async def _rounds(self) -> list[Round]:
        done: list[Round] = []
        self._began, self._began_wall_ms = _now(), wall_ms()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._load.run()),
                tasks.create_task(self._watch.run()),
            ]
            await self._goes_on(_now())
            suffering = tasks.create_task(self._suffer_all(done))
            ending = tasks.create_task(self._ends.wait())
            await asyncio.wait({suffering, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not suffering.done():
                self._say("ending: all faults are healed, and what was done is judged")
                suffering.cancel()
                await asyncio.wait({suffering})
                await self._heal_all()
            for each in (*running, ending):
                each.cancel()
        return done

    async def _suffer_all(self, done: list[Round]) -> None:
        kinds = schedule(self._wish.kinds, self._rng)
        for number in range(1, self._wish.rounds + 1):
            # Asked for in any case, so that the schedule does not depend on what a round took.
            leader = await self._leader()
            done.append(
                await self._suffer(number, fault(next(kinds), self._ids, leader, self._rng))
            )
            self._nodes.check()
            self._say(str(done[-1]))

    async def _suffer(self, number: int, chosen: Fault) -> Round:
        """Carry out one fault, and wait until the cluster is whole again."""
        await self._within(self._injector.inflict(chosen), f"{chosen} could not be begun")
        # The cluster acknowledges every later write in spite of the fault.
        first = begun = _now()
        if chosen.leaves_majority:
            went_on = await self._goes_on(begun)
        left = chosen.hold_ms / 1_000 - (_now() - begun)
        await asyncio.sleep(max(0.0, left))
        if not chosen.leaves_majority:
            begun = _now()
        await self._within(self._injector.relieve(chosen), f"{chosen} could not be ended")
        if not chosen.leaves_majority:
            went_on = await self._goes_on(begun)
        relieved = _now()
        await self._until_all_have_caught_up()
        return Round(
            number=number,
            kind=chosen.kind.value,
            fault=str(chosen),
            recovery_ms=(went_on - begun) * 1_000,
            stall_ms=longest_stall_ms(self._load.commits, first, _now()),
            start_ms=self._ms(first),
            end_ms=self._ms(relieved),
            note=self._injector.note,
        )

    async def _heal_all(self) -> None:
        await self._within(self._injector.heal_all(), "not everything could be healed")

    async def _within(self, act: Coroutine[Any, Any, None], failing: str) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await act
        except TimeoutError:
            self._nodes.check()
            raise RunFailed(f"{failing} in {GIVE_UP_SECONDS:g} s") from None

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
                    if 0 < quorum.high_watermark <= min(ends) and len(ends) == len(self._ids):
                        return quorum.high_watermark
                    self._nodes.check()
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            self._nodes.check()
            raise RunFailed(f"not every node had caught up after {GIVE_UP_SECONDS:g} s") from None

    def _anybody(self) -> AdminClient:
        return AdminClient(list(self._addresses.values()), is_controller=True, timeout_ms=ASK_MS)

    def _ms(self, moment: float) -> int:
        return round((moment - self._began) * 1_000)

    def _report(
        self, rounds: Sequence[Round], committed: int, problems: list[str], ended: float
    ) -> Report:
        read = self._ids if self._nodes.HAS_DISKS else ()
        logs = {id: committed_log(self._nodes.data(id), committed) for id in read}
        if logs:
            problems += disagreements(logs, committed)
        for id, (start, log) in logs.items():
            problems += [f"node {id}: {each}" for each in missing(self._load.registers, start, log)]
        judgement = judge(self._load.history)
        problems += self._broken(judgement)
        return Report(
            seed=self._wish.seed,
            nodes=self._wish.nodes,
            network=type(self._nodes.network).__name__.lower(),
            settings=self._wish.settings,
            rounds=rounds,
            acknowledged=self._load.acknowledged,
            unknown=self._load.unknown,
            committed=committed,
            log_bytes=max((len(log) for _, log in logs.values()), default=0),
            disks=len(logs),
            problems=problems,
            target=self._wish.target,
            version=self._wish.version,
            machine=description(),
            command=self._wish.command,
            left_out=self._wish.left_out,
            refusals=dict(sorted(self._load.refusals.items())),
            interrupted=self._ends.is_set(),
            judgement=judgement,
            course=Course(
                began_ms=self._began_wall_ms,
                duration_ms=self._ms(ended),
                windows=windows(self._load.commits, self._began, ended),
                leaders=self._watch.spans(self._began),
            ),
        )

    def _broken(self, judgement: Judgement) -> list[str]:
        """The verdicts that break a promise of the target."""
        if judgement.changes == Verdict.NO.value:
            return [f"the changes are {judgement.changes}: {judgement.findings[0]}"]
        if judgement.with_reads == Verdict.NO.value and not self._load.is_of_kafka:
            return [f"with reads it is {judgement.with_reads}: {judgement.findings[0]}"]
        return []


def schedule_rng(seed: int) -> random.Random:
    """The source of a schedule, of which nothing else takes."""
    return random.Random(f"{seed} schedule")


def _now() -> float:
    return asyncio.get_running_loop().time()


__all__ = ["NodeEnded", "Run", "RunFailed", "RunSettings", "Stage"]
