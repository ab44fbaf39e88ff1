"""Our controllers: what is committed is an ISR, asked for as the leader of a partition does."""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from admin import local_plan
from admin.addresses import Address
from admin.channels import Channels, Form, Unanswered
from admin.client import AdminClient, AdminError
from admin.kinds import Role
from admin.local_plan import ClusterPlan, NodePlan
from bench import agreement
from bench.asker import Asker
from bench.brokers import Brokers
from bench.commits import BROKER_IDS, TOPIC, claim_partitions
from bench.load import Make
from bench.peers.cluster import NODES, NotDone
from quorum.log.uuids import uuid_to_text
from quorum.wire.apis import ApiKey

PROBE_MS: Final = 1_000
WRITE_MS: Final = 10_000


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
        self._plan = ClusterPlan(
            cluster_id=uuid_to_text(UUID(int=random.SystemRandom().getrandbits(128), version=4)),
            nodes=[
                NodePlan(role=Role.CONTROLLER, id=node, kafka=address)
                for node, address in zip(NODES, addresses, strict=True)
            ],
        )
        local_plan.write_settings(folder, self.plan, self._more)

    def command(self, node: int) -> list[str]:
        file = self.folder / self._node(node).name / local_plan.SETTINGS_FILE
        return [sys.executable, "-m", "admin.cli.main", "start", "--config", str(file)]

    async def leader(self) -> int | None:
        try:
            async with AdminClient(
                self._addresses, is_controller=True, timeout_ms=PROBE_MS
            ) as admin:
                return (await admin.describe_quorum()).leader_id
        except AdminError:
            return None

    async def has_everything(self, node: int) -> bool:
        try:
            async with AdminClient(
                self._addresses, is_controller=True, timeout_ms=PROBE_MS
            ) as admin:
                quorum = await admin.describe_quorum()
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
        brokers = Brokers(at, self.plan.cluster_id)
        await brokers.register(BROKER_IDS)
        claims = await claim_partitions(at, brokers, connections)
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(brokers.beat())
            yield [partial(Asker, claim) for claim in claims]
            await agreement.check(TOPIC, self._addresses, at, claims)
            beating.cancel()
        await brokers.close()
        async with AdminClient([at], is_controller=True) as admin:
            await admin.delete_topic(TOPIC)

    async def write(self, node: int) -> None:
        self._written += 1
        channels = Channels("bench-write")
        try:
            answer = await channels.ask(
                self.client_address(node),
                ApiKey.ALTER_CLIENT_QUOTAS,
                _quota(self._written),
                timeout_ms=WRITE_MS,
            )
        except Unanswered as error:
            raise NotDone(str(error)) from None
        finally:
            await channels.close()
        for entry in answer.entries:
            if entry.error_code.value:
                raise NotDone(f"{entry.error_code.name}: {entry.error_message}")

    @property
    def _addresses(self) -> list[Address]:
        return [node.kafka for node in self.plan.controllers]

    def _node(self, node: int) -> NodePlan:
        return self.plan.controllers[NODES.index(node)]


def _quota(value: int) -> Any:
    """A change of one user's quota: a record that needs no broker."""

    def fill(form: Form) -> Any:
        entry = form.part(
            "EntryData",
            entity=(form.part("EntityData", entity_type="user", entity_name="bench"),),
            ops=(form.part("OpData", key="request_percentage", value=float(value), remove=False),),
        )
        return form.request(entries=(entry,), validate_only=False)

    return fill
