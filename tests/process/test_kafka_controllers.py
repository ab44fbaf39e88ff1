"""A real controller of Kafka among ours: it observes, votes, leads, and is removed again.

One story, because Java takes seconds to start. Every election has one outcome alone: who may win it
is the only one that runs and has all that was committed.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from admin.cli.main import group
from admin.client.admin_client import AdminClient
from admin.faults import Refused
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaId, ReplicaKey, uuid_to_text
from quorum.persistent_state import LISTENER_NAME, LOG_FOLDER
from statemachine.limits import METADATA_VERSION_MAX
from tests.process.joining_nodes import Nodes
from tests.process.kafka_tools_process import ToolsRoom, tools_room
from tests.process.one_kafka_broker import kafka_broker, serve
from tests.process.one_kafka_controller import KafkaController, stored_batches
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

VERSION: Final = "4.3.1"
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
COMMAND: Final = "kafka-metadata-quorum.sh"
KAFKAS: Final = 4
NEW: Final = 5
"""One of ours that joins while Kafka's leads."""
CLIENT_METRICS: Final = 16
UNSUPPORTED_VERSION: Final = 35


@dataclass
class Mixed:
    """Controllers 1, 2 and 3, which are ours, and 4, which is Kafka's."""

    nodes: Nodes
    kafkas: KafkaController
    tools: ToolsRoom
    written: int = 0

    async def start(self, *ids: int) -> None:
        """Run these of ours; they take snapshots all the time, and cut their logs."""
        for id in ids:
            await self.nodes.start(
                id,
                cluster_id=CLUSTER_ID,
                quorum_voters=",".join(f"{n}@{self.nodes.address(n)}" for n in (1, 2, 3)),
                metadata_log_max_record_bytes_between_snapshots="2KiB",
                metadata_max_retention_bytes="1KiB",
            )

    @asynccontextmanager
    async def client(self, id: int) -> AsyncIterator[AdminClient]:
        address = self.nodes.address(id)
        async with AdminClient([address], is_controller=True, timeout_ms=5_000) as client:
            yield client

    async def write(self, through: int) -> None:
        """Commit something."""
        self.written += 1
        async with self.client(through) as client:
            await client.alter_configs(
                CLIENT_METRICS, f"m{self.written}", {"metrics": f"n{self.written}"}
            )

    async def until_led(self, *, by: list[int], voters: list[int], seen_by: int) -> None:
        """Return once one of these leads, and those vote."""

        def holds(quorum: QuorumDescription) -> bool:
            return quorum.leader_id in by and sorted(e.id for e in quorum.voters) == voters

        await self.nodes.until(lambda: self.nodes.quorum(seen_by), holds)

    async def until_has_all(self, id: int, seen_by: int) -> QuorumDescription:
        """The quorum once this replica has all that is committed."""

        def holds(quorum: QuorumDescription) -> bool:
            replicas = (*quorum.voters, *quorum.observers)
            ends = {each.id: each.log_end_offset for each in replicas}
            return ends.get(id, -1) >= quorum.high_watermark > 0

        return await self.nodes.until(lambda: self.nodes.quorum(seen_by), holds)

    async def kafkas_command(self, at: int, *arguments: str) -> str:
        """The output of Kafka's tool, which must succeed."""
        whom = ("--bootstrap-controller", str(self.nodes.address(at)))
        said = await asyncio.to_thread(self.tools.run, COMMAND, (*whom, *arguments))
        assert said.code == 0, said.text
        return said.text

    async def stop(self) -> None:
        """End everyone, so that nothing is written any more."""
        for id in (1, 2, 3, NEW):
            await self.nodes.kill(id)
        await self.kafkas.kill()

    async def our_command(self, at: int, *arguments: str) -> None:
        """Our own tool; it must succeed."""
        whom = ("--bootstrap-controller", str(self.nodes.address(at)))
        said = await asyncio.to_thread(
            CliRunner().invoke, group, ["metadata-quorum", *arguments, *whom]
        )
        assert said.exit_code == 0, said.output


@asynccontextmanager
async def mixed(folder: Path) -> AsyncIterator[Mixed]:
    """Ours run; Kafka's is formatted."""
    java = runtime(VERSION)
    with tools_room(java, folder) as tools:
        async with Nodes(folder) as nodes:
            nodes.reserve(1, 2, 3, KAFKAS, NEW)
            kafkas = KafkaController(KAFKAS, nodes.address(KAFKAS), java, folder / "kafka")
            async with kafkas:
                cluster = Mixed(nodes, kafkas, tools)
                await cluster.start(1, 2, 3)
                ours = [nodes.address(each) for each in (1, 2, 3)]
                await asyncio.to_thread(
                    kafkas.format, tools, CLUSTER_ID, ours, "--no-initial-controllers"
                )
                yield cluster


async def test_a_controller_of_kafka_observes_votes_leads_and_is_removed(tmp_path: Path) -> None:
    async with mixed(tmp_path) as cluster:
        nodes = cluster.nodes
        quorum = await nodes.until(lambda: nodes.quorum(1), lambda found: found.leader_id > 0)
        first = quorum.leader_id
        second, third = (each for each in (1, 2, 3) if each != first)
        await until_cut(cluster, first)
        where = nodes.address(first)
        async with kafka_broker(
            tmp_path,
            cluster.kafkas.runtime,
            where,
            metadata_version=METADATA_VERSION_MAX,
            cluster_id=CLUSTER_ID,
        ) as broker:
            await it_observes(cluster, first)
            await it_is_added(cluster, first, third)
            await serve(broker, "before")
            await it_comes_back_elsewhere(cluster, first)
            await it_votes(cluster, first, second)
            await it_leads(cluster, first, second)
            await serve(broker, "under-kafkas-lead")
            await it_is_removed(cluster, first, second)
            await serve(broker, "after")
            assert broker.process.returncode is None
        await cluster.stop()
        all_hold_the_same(cluster)


async def until_cut(cluster: Mixed, leader: int) -> None:
    """Write until the log no longer begins at 0: there are two snapshots."""
    while len(list((cluster.nodes.data(leader) / LOG_FOLDER).glob("*.checkpoint"))) < 2:
        await cluster.write(leader)


async def it_observes(cluster: Mixed, leader: int) -> None:
    """It boots from our snapshot, and follows."""
    await cluster.kafkas.start()
    quorum = await cluster.until_has_all(KAFKAS, leader)
    assert KAFKAS in {each.id for each in quorum.observers}
    await cluster.kafkas.until_said("Our registration has been persisted to the metadata log")


async def it_is_added(cluster: Mixed, leader: int, third: int) -> None:
    """By Kafka's tool. With it three of four commit, after which one of ours is removed."""
    settings = ("--command-config", str(cluster.kafkas.settings))
    said = await cluster.kafkas_command(leader, *settings, "add-controller")
    assert said.startswith(f"Added controller {KAFKAS} with directory id ")
    await cluster.until_led(by=[leader], voters=[1, 2, 3, KAFKAS], seen_by=leader)
    await cluster.nodes.kill(third)
    await cluster.write(leader)
    await cluster.our_command(leader, "remove-controller", "--controller-id", str(third))
    await cluster.start(third)


async def it_comes_back_elsewhere(cluster: Mixed, leader: int) -> None:
    """It says so itself, by UpdateRaftVoter, and has what it had."""
    await cluster.kafkas.kill()
    cluster.nodes.reserve(KAFKAS)
    place = cluster.nodes.address(KAFKAS)
    cluster.kafkas.move(place)
    await cluster.kafkas.start()
    await cluster.nodes.until(
        lambda: cluster.nodes.quorum(leader),
        lambda found: found.addresses[KAFKAS] == ((LISTENER_NAME, place),),
    )
    await cluster.until_has_all(KAFKAS, leader)


async def it_votes(cluster: Mixed, first: int, second: int) -> None:
    """It stood still, so that it cannot win; but without its vote nobody can."""
    cluster.kafkas.signal(signal.SIGSTOP)
    # What is on its way to it may be the first of these, and no more.
    await cluster.write(first)
    await cluster.write(first)
    await cluster.nodes.kill(first)
    cluster.kafkas.signal(signal.SIGCONT)
    voters = sorted([first, second, KAFKAS])
    await cluster.until_led(by=[second], voters=voters, seen_by=second)
    await cluster.until_has_all(KAFKAS, second)


async def it_leads(cluster: Mixed, first: int, second: int) -> None:
    """It has records that the other running voter lacks: it alone can win."""
    await cluster.write(second)
    await cluster.nodes.kill(second)
    await cluster.start(first)
    voters = sorted([first, second, KAFKAS])
    await cluster.until_led(by=[KAFKAS], voters=voters, seen_by=first)
    # Ours follow it, and pass on to it what they are asked; a new one boots from its snapshot.
    await cluster.write(first)
    await cluster.until_has_all(first, first)
    await cluster.start(second)
    await cluster.until_has_all(second, second)
    await cluster.nodes.start(NEW, bootstrap_servers=str(cluster.nodes.address(first)))
    await cluster.until_has_all(NEW, first)
    await cluster.nodes.until_said(NEW, " installed: ")
    async with cluster.client(first) as client:
        with pytest.raises(Refused, match="accepts no forwarded AlterQuorum") as refused:
            await client.alter_voters([ReplicaKey(ReplicaId(each)) for each in (1, 2, 3)])
        assert refused.value.code == UNSUPPORTED_VERSION
    described = await cluster.kafkas_command(KAFKAS, "describe", "--status")
    assert f"LeaderId:               {KAFKAS}\n" in described


async def it_is_removed(cluster: Mixed, first: int, second: int) -> None:
    """It leads until its removal is committed; then ours do, add it again, and remove it."""
    (its_id,) = [e for e in (await cluster.nodes.quorum(first)).voters if e.id == KAFKAS]
    directory = uuid_to_text(its_id.directory_id)
    it = ("--controller-id", str(KAFKAS), "--controller-directory-id", directory)
    removed = f"Removed  KRaft controller {KAFKAS} with directory id {directory}\n"
    assert await cluster.kafkas_command(KAFKAS, "remove-controller", *it) == removed
    ours = sorted([first, second])
    await cluster.until_led(by=ours, voters=ours, seen_by=first)
    await cluster.until_has_all(KAFKAS, first)
    where = ("--listener", str(cluster.kafkas.address))
    await cluster.our_command(first, "add-controller", *it, *where)
    await cluster.our_command(first, "alter", "--voters", f"{first},{second}")
    await cluster.our_command(first, "alter", "--voters", f"{first},{second},{KAFKAS}")
    assert await cluster.kafkas_command(first, "remove-controller", *it) == removed
    await cluster.until_led(by=ours, voters=ours, seen_by=first)
    await cluster.write(first)
    quorum = await cluster.until_has_all(KAFKAS, first)
    assert KAFKAS in {each.id for each in quorum.observers}


def all_hold_the_same(cluster: Mixed) -> None:
    """Batch by batch, byte by byte, as far as two logs reach over the same offsets."""
    assert cluster.kafkas.faults == []
    theirs = stored_batches(cluster.kafkas.data)
    for each in (1, 2, 3, NEW):
        ours = stored_batches(cluster.nodes.data(each))
        start, end = max(min(ours), min(theirs)), min(max(ours), max(theirs))
        # How much they share is a matter of when each was cut; the last one began at a snapshot.
        assert end > start
        assert {at: ours[at] for at in ours if start <= at <= end} == {
            at: theirs[at] for at in theirs if start <= at <= end
        }
