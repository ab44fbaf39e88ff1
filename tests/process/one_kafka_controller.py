"""A controller of Apache Kafka as a process, beside our controllers."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import as_properties
from quorum.log.segment import TORN_BYTES_MAX
from quorum.log.segment_reader import batches_of
from quorum.persistent_state import LOG_FOLDER
from quorum.records.batch import CorruptBatch
from quorum.transport.address import Address
from tests.process.joining_nodes import nap
from tests.process.kafka_tools_process import ToolsRoom

PATIENCE_SECONDS = 60
FORMAT = "kafka.tools.StorageTool"


@dataclass
class KafkaController:
    """Its files, and the processes that it has been: the last one may run."""

    id: int
    address: Address
    runtime: Runtime
    home: Path
    processes: list[Process] = field(default_factory=list)

    async def __aenter__(self) -> "KafkaController":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()
        if error is not None and self.processes:
            lines = [each for each in self.said.splitlines() if "] INFO " not in each[:40]]
            error.add_note("--- Kafka's controller\n" + "\n".join(lines)[-4_000:])

    @property
    def settings(self) -> Path:
        return self.home / "server.properties"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def said(self) -> str:
        """All that it has logged so far."""
        return (self.home / "node.log").read_text(encoding="utf-8")

    @property
    def faults(self) -> list[str]:
        """Records that it could not read or replay; it logs its refusals as errors, too."""
        marks = (" FATAL ", "Encountered ")
        return [line for line in self.said.splitlines() if any(mark in line for mark in marks)]

    def format(
        self, tools: ToolsRoom, cluster_id: str, controllers: Sequence[Address], *how: str
    ) -> str:
        """Write its settings, and let Kafka's tool format its storage; returns what that says."""
        self.home.mkdir()
        values = {
            "process.roles": "controller",
            "node.id": str(self.id),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "listeners": f"CONTROLLER://{self.address}",
            "advertised.listeners": f"CONTROLLER://{self.address}",
            "controller.quorum.bootstrap.servers": ",".join(map(str, controllers)),
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.fetch.timeout.ms": "1500",
            "log.dirs": str(self.data),
            # It takes snapshots of its own all the time.
            "metadata.log.max.record.bytes.between.snapshots": "2048",
        }
        self.settings.write_text(as_properties(values), encoding="utf-8")
        logging = self.home / "logging.properties"
        logging.write_text(self.runtime.release.logging_file, encoding="utf-8")
        said = tools.run(FORMAT, ("format", "-t", cluster_id, "-c", str(self.settings), *how))
        assert said.code == 0, said.text
        return said.text

    def move(self, address: Address) -> None:
        """Let it listen there from its next start on."""
        text = self.settings.read_text(encoding="utf-8")
        self.settings.write_text(text.replace(str(self.address), str(address)), encoding="utf-8")
        self.address = address

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.processes[-1].send_signal(number)

    async def start(self) -> None:
        """Run it."""
        command = self.runtime.broker(self.settings, self.home / "logging.properties")
        with (self.home / "node.log").open("ab") as said:
            self.processes.append(
                await asyncio.create_subprocess_exec(*command, stdout=said, stderr=said)
            )

    async def until_said(self, words: str) -> None:
        """Return once it has logged these words."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while words not in self.said:
                assert self.processes[-1].returncode is None, self.said[-3_000:]
                await nap()

    async def kill(self) -> None:
        """End it as a loss of power would, if it runs."""
        for process in self.processes[-1:]:
            if process.returncode is None:
                process.kill()
            await process.wait()


def stored_batches(data: Path) -> dict[int, bytes]:
    """Every whole batch of the log in the folder of a node, ours or Kafka's, by its first offset.

    A node that was killed may have left the last batch of its log half-written.
    """
    found: dict[int, bytes] = {}
    segments = sorted((data / LOG_FOLDER).glob("*.log"))
    for segment in segments:
        try:
            for batch in batches_of(segment):
                found[batch.header.base_offset] = batch.data
        except CorruptBatch as torn:
            if segment != segments[-1] or _bytes_behind(segment, torn) >= TORN_BYTES_MAX:
                raise
    return found


def _bytes_behind(segment: Path, torn: CorruptBatch) -> int:
    return segment.stat().st_size - torn.position
