"""Our controllers: what is committed is an ISR, asked for as the leader of a partition does."""

import contextlib
import random
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from admin import local_plan
from admin.addresses import Address
from admin.client import AdminClient, AdminError
from admin.kinds import Role
from admin.local_plan import ClusterPlan, NodePlan
from bench import agreement
from bench.asker import Asker
from bench.commits import TOPIC, claim_partitions
from bench.load import Make
from bench.peers import controllers
from bench.peers.cluster import NODES
from quorum.log.uuids import uuid_to_text

PROBE_MS: Final = controllers.PROBE_MS


def plan_of(addresses: Sequence[Address]) -> ClusterPlan:
    """A new cluster of controllers alone, at these addresses."""
    return ClusterPlan(
        cluster_id=uuid_to_text(UUID(int=random.SystemRandom().getrandbits(128), version=4)),
        nodes=[
            NodePlan(role=Role.CONTROLLER, id=node, kafka=address)
            for node, address in zip(NODES, addresses, strict=True)
        ],
    )


class Ours:
    """Three controllers of ours, with the settings that `metaquorum local` gives them."""

    name = "metaquorum"

    def __init__(self, more: dict[str, str] | None = None) -> None:
        """`more` settings than those of every local cluster."""
        self._more = more or {}
        self.folder = Path()
        self._plan: ClusterPlan | None = None
        self._written = 0

    @property
    def plan(self) -> ClusterPlan:
        assert self._plan is not None, "prepare comes first"
        return self._plan

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        self.folder = folder
        self._plan = plan_of(addresses)
        local_plan.write_settings(folder, self.plan, self._more)

    def command(self, node: int) -> list[str]:
        file = self.folder / self._node(node).name / local_plan.SETTINGS_FILE
        return [sys.executable, "-m", "admin.cli.main", "start", "--config", str(file)]

    async def leader(self) -> int | None:
        quorum = await controllers.quorum_of(self._addresses)
        return None if quorum is None else quorum.leader_id

    async def has_everything(self, node: int) -> bool:
        quorum = await controllers.quorum_of(self._addresses)
        if quorum is None:
            return False
        try:
            async with AdminClient(
                [self.client_address(node)], is_controller=True, timeout_ms=PROBE_MS
            ) as admin:
                applied = (await admin.reassignments(stale=True)).as_of
        except AdminError:
            return False
        return applied is not None and applied >= quorum.high_watermark > 0

    def client_address(self, node: int) -> Address:
        return self._node(node).kafka

    @contextlib.asynccontextmanager
    async def work(self, leader: int, connections: int) -> AsyncIterator[Sequence[Make]]:
        at = self.client_address(leader)
        async with controllers.living_brokers(at, self.plan.cluster_id) as brokers:
            claims = await claim_partitions(at, brokers, connections)
            yield [partial(Asker, claim) for claim in claims]
            await agreement.check(TOPIC, self._addresses, at, claims)

    async def write(self, node: int) -> None:
        self._written += 1
        await controllers.change_quota(self.client_address(node), self._written)

    @property
    def _addresses(self) -> list[Address]:
        return [node.kafka for node in self.plan.controllers]

    def _node(self, node: int) -> NodePlan:
        return self.plan.controllers[NODES.index(node)]
