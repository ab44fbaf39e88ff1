"""Controllers as processes, without brokers: three that are up, and single ones that may refuse."""

import asyncio
import os
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.outcomes import RequestFailed
from tests.support.kafka_client import Form, kafka_client
from tests.support.tree import ROOT

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
HOST: Final = "127.0.0.1"
END_SECONDS: Final = 30
SILENCE_MS: Final = 600_000
"""The session of the brokers of a test, which send no heartbeats."""


@dataclass(frozen=True)
class Ended:
    """The end of a process: its exit code, and its stderr."""

    code: int
    said: str

    @property
    def error(self) -> str:
        """The one sentence that says why; fails if there is another, or a trace of the stack."""
        assert "Traceback" not in self.said, self.said
        lines = self.said.splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]
        assert errors == lines[-1:], self.said
        return errors[0]


@dataclass(frozen=True)
class Single:
    """A controller that is a quorum by itself: how it is started."""

    folder: Path
    port: int
    node_id: int = 1
    cluster_id: str = CLUSTER_ID

    async def spawn(self) -> Process:
        settings = {
            "process.roles": "controller",
            "node.id": self.node_id,
            "cluster.id": self.cluster_id,
            "listeners": f"{HOST}:{self.port}",
            "log.dir": self.folder,
            "quorum.voters": f"{self.node_id}@{HOST}:{self.port}",
            "quorum.election.timeout.ms": 50,
        }
        overrides = [f"--override={name}={value}" for name, value in settings.items()]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "admin.cli.main", "start", *overrides),
            stdin=DEVNULL,
            stderr=PIPE,
            cwd=ROOT,
            start_new_session=True,
        )

    async def try_to_start(self) -> Ended:
        """Start it, and wait until it has ended by itself."""
        return await ended(await self.spawn())


async def ended(process: Process) -> Ended:
    """Wait for the end of the process; kill it if it does not end."""
    communicating = asyncio.get_running_loop().create_task(process.communicate())
    done, _ = await asyncio.wait({communicating}, timeout=END_SECONDS)
    if not done:
        process.kill()
    _, said = await communicating
    assert done, f"it did not end: {said.decode()}"
    assert process.returncode is not None
    return Ended(process.returncode, said.decode())


@asynccontextmanager
async def up(single: Single) -> AsyncIterator[Process]:
    """The process, once it is the active controller; it is killed if a test has not ended it."""
    process = await single.spawn()
    try:
        await until_active(process, Address(HOST, single.port))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def until_active(process: Process, address: Address) -> None:
    """Return once the node at this address is the active controller of a founded cluster."""
    form = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    question = form.request(topics=None, timeout=timedelta(seconds=END_SECONDS))
    async with asyncio.timeout(END_SECONDS), kafka_client(address) as client:
        while process.returncode is None:
            try:
                answer = await client.send(form, question)
            except RequestFailed:
                continue  # The channel waits by itself, longer each time, before it tries again.
            if answer.error_code.value == 0:
                return
    raise AssertionError((await ended(process)).said)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[LocalCluster]:
    """Controllers 1, 2 and 3, which are up."""
    plan = settle(folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random(str(folder)))
    settings = {"broker.session.timeout.ms": str(SILENCE_MS)}
    async with LocalCluster(folder, plan, settings=settings) as cluster:
        yield cluster


def log_of(data: Path) -> bytes:
    """All that the log in this folder holds; nobody else may use it meanwhile."""
    log = SegmentedLog(data / LOG_FOLDER)
    try:
        return log.read(Offset(0), log.end.offset, 1 << 30)
    finally:
        log.close()


def send_signal(process_id: int, number: int) -> None:
    """Send a signal to a process that this test has started."""
    os.kill(process_id, number)
