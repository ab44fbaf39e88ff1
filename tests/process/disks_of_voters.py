"""Three controllers as processes whose folders are exchanged, put back and wiped by a test."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminClient, AdminError
from chaos.processes.load import CLIENT_METRICS, NAME
from chaos.processes.nodes import Nodes
from chaos.processes.proxies import Proxies
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from tests.process.joining_nodes import nap

IDS: Final = (1, 2, 3)
WITHIN_SECONDS: Final = 60
ASK_MS: Final = 30_000
"""The timeout of the client: longer than anything takes that does arrive, on any machine."""
STEADY: Final = {"quorum.fetch.timeout.ms": "10000"}
"""A leader keeps its lead on a busy machine; only a node that is gone is given up."""


@dataclass(frozen=True)
class Controllers:
    """The processes, and a client of them."""

    nodes: Nodes
    client: AdminClient

    async def write(self, *numbers: int) -> None:
        """Change something as often as there are numbers; returns when all is acknowledged."""
        for number in numbers:
            await self.client.alter_configs(CLIENT_METRICS, f"disk-{number}", {NAME: f"n{number}"})

    async def lost(self, *numbers: int) -> list[int]:
        """Those of the records that cannot be read back."""
        lost = []
        for number in numbers:
            found = await self.client.describe_configs(CLIENT_METRICS, f"disk-{number}")
            if [each.value for each in found if each.name == NAME] != [f"n{number}"]:
                lost.append(number)
        return lost

    async def led(self) -> QuorumDescription:
        """The quorum, once it has a leader that answers."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                try:
                    return await self.client.describe_quorum()
                except AdminError:
                    self.nodes.check()

    async def until_voters_have_caught_up(self) -> QuorumDescription:
        """The quorum, once each voter is known by its directory and has all that is committed."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                quorum = await self.led()
                ends = [each.log_end_offset for each in quorum.voters]
                known = all(each.directory_id.int for each in quorum.voters)
                if known and 0 < quorum.high_watermark <= min(ends):
                    return quorum
                await nap()

    async def until_voters_are(self, wanted: Sequence[int]) -> None:
        """Ask for these voters, and return when they are."""
        keys = [ReplicaKey(ReplicaId(each)) for each in wanted]
        await self.client.alter_voters(keys)
        async with asyncio.timeout(WITHIN_SECONDS):
            while {each.id for each in (await self.led()).voters} != set(wanted):
                self.nodes.check()
                await nap()

    async def follower(self) -> int:
        """A voter that does not lead."""
        leader = (await self.led()).leader_id
        return next(id for id in IDS if id != leader)

    async def kill(self, id: int) -> None:
        """End this one at once."""
        self.nodes.kill([id])
        await self.nodes.reap()

    def keep_copy(self, id: int) -> Path:
        """A copy of the folder of a node that does not run."""
        copy = self.nodes.home(id) / "copy"
        shutil.copytree(self.nodes.data(id), copy)
        return copy

    def put_back(self, id: int, copy: Path) -> None:
        """Let this copy be the folder of a node that does not run."""
        shutil.rmtree(self.nodes.data(id))
        shutil.copytree(copy, self.nodes.data(id))


@asynccontextmanager
async def controllers(
    folder: Path,
    ids: Sequence[int] = IDS,
    voters: Sequence[int] | None = None,
    settings: Mapping[str, str] = STEADY,
) -> AsyncIterator[Controllers]:
    """Controllers that are up; all of them vote unless it is said which ones do."""
    network = Proxies(ids)
    nodes = Nodes(folder, ids, network, settings, random.Random(str(folder)), voters)
    addresses = [network.listener_of(id) for id in ids]
    try:
        async with AdminClient(addresses, is_controller=True, timeout_ms=ASK_MS) as client:
            running = Controllers(nodes, client)
            await nodes.start(ids)
            await running.until_voters_have_caught_up()
            yield running
    finally:
        await nodes.close()
        await network.close()
