"""One broker of Apache Kafka as a process, on the controller of a test."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from admin.client.admin_client import AdminClient
from admin.client.producer import Producer
from admin.setting_kinds import Role
from admin.tools import kafka_brokers
from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import ClusterPlan, MoreOfNode, NodePlan, log_dir
from quorum.records.encode import ClientRecord
from quorum.transport.address import Address
from statemachine.image.image import Image
from tests.process.joining_nodes import nap
from tests.support.controllers import CLUSTER_ID, HOST, Node
from tests.support.ports import free_ports

BROKER_ID = 101
PATIENCE_SECONDS = 60
STOP_SECONDS = 20


@dataclass(frozen=True)
class KafkaBroker:
    """A broker's process and files."""

    process: asyncio.subprocess.Process
    address: Address
    log: Path
    storage: Path

    @property
    def said(self) -> str:
        """All that it has logged so far."""
        return self.log.read_text()

    @property
    def complaints(self) -> list[str]:
        """Lines at which an operator would look."""
        marks = (" ERROR ", " FATAL ")
        return [line for line in self.said.splitlines() if any(mark in line for mark in marks)]

    async def until(self, node: Node, holds: Callable[[Image], bool]) -> None:
        """Wait until the controller's image is as wanted, as long as the broker lives."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not holds(node.controller.image):
                    assert self.process.returncode is None, self.said[-3_000:]
                    await node.opened.quorum.leader_changed(within_seconds=0.02)
        except TimeoutError:
            raise AssertionError(f"in vain; the broker said: {self.said[-3_000:]}") from None


@asynccontextmanager
async def kafka_broker(
    folder: Path,
    runtime: Runtime,
    controller: Address,
    *,
    metadata_version: int,
    cluster_id: str = CLUSTER_ID,
    broker_id: int = BROKER_ID,
    voters: Mapping[int, Address] | None = None,
    more: Mapping[str, object] | None = None,
) -> AsyncIterator[KafkaBroker]:
    """A broker that is starting; it is killed at the end.

    It is told of one controller, or of these voters, where they are given. `more` are further
    settings.
    """
    address = Address(HOST, free_ports(folder / f"port-{broker_id}", 1)[1])
    node = NodePlan(role=Role.BROKER, id=broker_id, kafka=address)
    first = NodePlan(role=Role.CONTROLLER, id=1, kafka=Address(*controller))
    home = folder / node.name
    plan = ClusterPlan(cluster_id=cluster_id, nodes=(first, node), kafka=runtime.release.version)
    settings = {"metadata.version": str(metadata_version)}
    kafka_brokers.write_files(
        folder,
        plan,
        runtime,
        settings,
        random.Random(broker_id),
        MoreOfNode(lambda _: more or {}),
    )
    if voters is not None:
        _tell_of_voters(home / kafka_brokers.SETTINGS_FILE, voters)
    log = home / "node.log"
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *kafka_brokers.command(folder, node, runtime), stdout=out, stderr=out
        )
    broker = KafkaBroker(process, address, log, log_dir(folder, node))
    try:
        yield broker
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def is_unfenced(image: Image) -> bool:
    """The broker of this module may lead."""
    broker = image.brokers.get(BROKER_ID)
    return broker is not None and not broker.fenced


async def serve(broker: KafkaBroker, topic: str, broker_id: int = BROKER_ID) -> None:
    """The active controller creates a topic for the broker, which keeps a record of it."""
    async with AdminClient([broker.address], is_controller=False) as client:
        await client.create_topic(topic, assignments={0: (broker_id,)})
        # It tells that the topic exists before it has replayed that itself.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while topic not in await client.describe_topics([topic]):
                await nap()
    async with Producer([broker.address]) as producer:
        sent = await producer.send(topic, 0, [ClientRecord(1, None, b"value")])
        assert (await sent)[0].offset == 0


def _tell_of_voters(settings: Path, voters: Mapping[int, Address]) -> None:
    named = ",".join(f"{each}@{address}" for each, address in voters.items())
    text = settings.read_text(encoding="utf-8")
    told = re.sub(
        r"^controller\.quorum\..*$", f"controller.quorum.voters={named}", text, flags=re.MULTILINE
    )
    assert told != text
    settings.write_text(told, encoding="utf-8")
