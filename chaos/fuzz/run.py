"""One run: start the nodes, warm them up, send the frames, and judge what is left."""

import asyncio
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from admin.client.admin_client import AdminClient, AdminError
from chaos.fuzz.attack import Orders, Sent, Target, frames_of
from chaos.fuzz.cluster import BROKER, USER, Caller, FuzzedCluster
from chaos.fuzz.judge import (
    GROWTH_BYTES_MAX,
    Culprits,
    NodeState,
    Observation,
    Report,
    name_of,
    problems,
    written_records,
)
from chaos.fuzz.values import FUZZED_TOPIC
from chaos.fuzz.witness import TOPIC, Probe, Witness
from chaos.processes.nodes import PROGRAM, NodeEnded
from controller.quorum_description import QuorumDescription

START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 15.0
"""The time after the last frame in which memory may be given back."""
POLL_SECONDS: Final = 0.2
WARM_UP_SHARE: Final = 20
"""The frames of the warm-up are one for so many."""
WARM_UP_MIN: Final = 400
_WARM_UP: Final = 1 << 40


class RunFailed(Exception):
    """The run cannot go on; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run."""

    seed: int
    first: int
    frames: int
    targets: Sequence[Target]
    caller: Caller
    controllers: int
    program: Sequence[str] = PROGRAM


async def until_up(cluster: FuzzedCluster, witness: Witness) -> None:
    """Wait until all nodes serve, and create the topics; raises `RunFailed` or `NodeEnded`."""
    client = witness.client
    await _until(lambda: _is_up(client), cluster, "the nodes were not up")
    for name in (TOPIC, FUZZED_TOPIC):
        await client.create_topic(name, partitions=1, replication_factor=1)
    await _until(witness.is_served, cluster, f"nobody led {TOPIC}-0")


async def _until(
    condition: Callable[[], Awaitable[bool]], cluster: FuzzedCluster, otherwise: str
) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await condition():
                cluster.nodes.check()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise RunFailed(f"{otherwise} after {START_SECONDS:g} s") from None


async def _is_up(client: AdminClient) -> bool:
    try:
        brokers = await client.brokers()
        quorum = await client.describe_quorum()
    except AdminError:
        return False
    alive = [each for each in brokers if each.id == BROKER]
    return bool(alive) and all(each.last_fetch_ms >= 0 for each in quorum.voters)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The frames at one listener, and what was seen meanwhile, by the id of each node."""

    target: Target
    orders: Orders
    sent: Sent
    seconds: float
    before: QuorumDescription
    after: QuorumDescription
    rss_before: Mapping[int, int]
    rss_after: Mapping[int, int]
    said: Mapping[int, str]
    probes: Sequence[Probe]


class Run:
    """One run in a new folder."""

    def __init__(self, settings: RunSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._cluster = FuzzedCluster(
            folder / "cluster",
            settings.caller,
            controllers=settings.controllers,
            rng=random.Random(settings.seed),
            program=settings.program,
        )

    async def carry_out(self) -> list[Report]:
        """Carry out the run; raises `RunFailed` or `NodeEnded` if it cannot begin."""
        cluster = self._cluster
        witness = Witness(cluster)
        try:
            await cluster.start()
            await until_up(cluster, witness)
            return await self._fuzz(witness)
        finally:
            await witness.close()
            await cluster.nodes.close()

    async def _fuzz(self, witness: Witness) -> list[Report]:
        async with witness:
            stages = [await self._stage(witness, target) for target in self._settings.targets]
        lost = await witness.read_back()
        end = await witness.client.describe_quorum()
        codes = self._cluster.nodes.exit_codes()
        await self._cluster.nodes.stop()
        data = self._cluster.nodes.data(end.leader_id)
        ends = [*(each.before.high_watermark for each in stages[1:]), end.high_watermark]
        return [
            self._report(stage, lost, codes, written_records(data, stage.before.high_watermark, to))
            for stage, to in zip(stages, ends, strict=True)
        ]

    async def _stage(self, witness: Witness, target: Target) -> "_Stage":
        """Send the frames to one listener."""
        settings, loop = self._settings, asyncio.get_running_loop()
        orders = self._orders(target)
        warm_up = max(settings.frames // WARM_UP_SHARE, min(WARM_UP_MIN, settings.frames))
        said = self._said()
        await self._send(msgspec.structs.replace(orders, first=_WARM_UP, frames=warm_up))
        rss = self._rss()
        before = await witness.client.describe_quorum()
        begun = loop.time()
        sent = await self._send(orders)
        seconds = loop.time() - begun
        after_rss = await self._settled(rss)
        after = await witness.client.describe_quorum()
        since = {id: text[len(said[id]) :] for id, text in self._said().items()}
        probes = witness.take_probes()
        return _Stage(target, orders, sent, seconds, before, after, rss, after_rss, since, probes)

    def _report(
        self,
        stage: "_Stage",
        lost: Sequence[str],
        codes: Mapping[int, int],
        written: Mapping[str, int],
    ) -> Report:
        seen = Observation(
            caller=self._settings.caller,
            nodes=[
                NodeState(
                    name_of(id),
                    stage.rss_before[id],
                    stage.rss_after[id],
                    stage.said[id],
                    codes.get(id),
                )
                for id in self._cluster.nodes.ids
            ],
            leader_before=(stage.before.leader_id, stage.before.leader_epoch),
            leader_after=(stage.after.leader_id, stage.after.leader_epoch),
            probes=stage.probes,
            lost=lost,
            written=written,
        )
        culprits = Culprits(Path(stage.orders.journal), frames_of(stage.orders))
        return Report(
            seed=self._settings.seed,
            listener=stage.target.value,
            seconds=stage.seconds,
            sent=stage.sent,
            seen=seen,
            problems=problems(seen, culprits),
        )

    def _orders(self, target: Target) -> Orders:
        settings, cluster = self._settings, self._cluster
        match target:
            case Target.CONTROLLER:
                places = [cluster.address_of(id) for id in cluster.controllers]
            case Target.BROKER:
                places = [cluster.address_of(BROKER)]
            case Target.HTTP:
                places = [cluster.http_of(id) for id in cluster.controllers]
        is_http, is_user = target is Target.HTTP, settings.caller is Caller.USER
        return Orders(
            seed=settings.seed,
            first=settings.first,
            frames=settings.frames,
            target=target,
            is_harmless=settings.caller is Caller.STRANGER,
            addresses=tuple(places),
            is_tls=settings.caller.protocol.has_tls,
            login=cluster.login(USER) if is_user and not is_http else None,
            authorization=f"Bearer {cluster.token(USER)}" if is_user and is_http else None,
            journal=str(self._folder / f"{target.value}.journal"),
        )

    async def _send(self, orders: Orders) -> Sent:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chaos.fuzz.attack"), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        try:
            out, said = await process.communicate(msgspec.json.encode(orders))
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise RunFailed(f"the sender of the frames failed: {said.decode()}")
        return msgspec.json.decode(out, type=Sent)

    def _said(self) -> Mapping[int, str]:
        return {id: self._cluster.nodes.said(id) for id in self._cluster.nodes.ids}

    def _rss(self) -> Mapping[int, int]:
        return {id: self._cluster.rss_bytes(id) for id in self._cluster.nodes.ids}

    async def _settled(self, before: Mapping[int, int]) -> Mapping[int, int]:
        """Return the memory once it is within its bound, or has had its time."""
        deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while True:
            after = self._rss()
            settled = all(after[id] - before[id] <= GROWTH_BYTES_MAX for id in after)
            if settled or asyncio.get_running_loop().time() >= deadline:
                return after
            await asyncio.sleep(POLL_SECONDS)


__all__ = ["NodeEnded", "Run", "RunFailed", "RunSettings", "Target"]
