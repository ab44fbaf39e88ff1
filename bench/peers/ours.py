"""Our controllers: each commit is an ISR change, requested like by the leader of a partition."""

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from admin.tools import local_plan
from admin.tools.certificates import write_new
from admin.tools.local_security import LocalSecurity
from bench import agreement
from bench.commits import TOPIC, claim_partitions
from bench.isr_connection import IsrConnection
from bench.load import Make
from bench.peers import controllers
from bench.peers.controllers import Controllers
from quorum.transport.address import Address
from statemachine.limits import METADATA_VERSION_MAX

PROBE_MS: Final = controllers.PROBE_MS


class Ours(Controllers):
    """Three of our controllers with the settings of `metaquorum local`."""

    name = "metaquorum"

    def __init__(self, more: dict[str, str] | None = None) -> None:
        """`more` are settings in addition to those of every local cluster."""
        super().__init__()
        self._more = more or {}
        self.folder = Path()

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        self.folder = folder
        self._plan = controllers.plan_of(addresses)
        local_plan.write_settings(folder, self.plan, self._more)

    def command(self, node: int) -> list[str]:
        file = self.folder / self.node(node).name / local_plan.SETTINGS_FILE
        return [sys.executable, "-m", "admin.cli.main", "start", "--config", str(file)]

    async def has_everything(self, node: int) -> bool:
        quorum = await controllers.quorum_of(self.addresses, self.security)
        if quorum is None:
            return False
        try:
            async with AdminClient(
                [self.client_address(node)],
                is_controller=True,
                timeout_ms=PROBE_MS,
                security=self.security,
            ) as admin:
                applied = (await admin.reassignments(stale=True)).as_of
        except AdminError:
            return False
        return applied is not None and applied >= quorum.high_watermark > 0

    @contextlib.asynccontextmanager
    async def work(self, leader: int, connections: int) -> AsyncIterator[Sequence[Make]]:
        at = self.client_address(leader)
        async with controllers.living_brokers(at, self.plan.cluster_id) as brokers:
            claims = await claim_partitions(at, brokers, connections)
            yield [partial(IsrConnection, claim) for claim in claims]
            await agreement.check(TOPIC, self.addresses, at, claims)


class Secured(Ours):
    """The same as `metaquorum local --secure` sets them up: TLS, SASL, an authorizer, audit."""

    name = "metaquorum, secured"

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        self.folder = folder
        self._plan = replace(controllers.plan_of(addresses), is_secure=True)
        files = LocalSecurity(folder)
        files.prepare(self.plan, METADATA_VERSION_MAX)
        of_node = local_plan.MoreOfNode(partial(files.settings, self.plan), write_new)
        local_plan.write_settings(folder, self.plan, self._more, of_node)
        self.security = files.admin().security
