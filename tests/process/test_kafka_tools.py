"""Kafka's command-line tools on our controllers, with brokers of the same release.

What they must answer is in tests/transcripts/kafka_*.txt, which were first recorded with Kafka's
own controllers, and only then played on ours.
"""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from admin.client.admin_client import AdminClient
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, log_dir, settle
from quorum.core.vocabulary import uuid_to_text
from quorum.log.meta_properties import look
from statemachine.vocabulary import METADATA_VERSION
from tests.process.joining_nodes import Nodes as Joining
from tests.process.kafka_cluster import started
from tests.process.kafka_shell import Shell
from tests.process.kafka_tools_process import tools_room
from tests.support.kafka_tools import runtime
from tests.support.transcript import Transcripts

pytestmark = pytest.mark.process

STEP_SECONDS: Final = 60
JOINING_ID: Final = 4
"""The controller that is not there from the beginning."""
# A broker that is killed shall soon be missed.
SETTINGS: Final = {"broker.session.timeout.ms": "5s", "broker.heartbeat.interval.ms": "1s"}

T = TypeVar("T")


class Nodes:
    """The nodes of a cluster that lives on a loop, for a thread beside it."""

    def __init__(
        self, cluster: LocalCluster, joining: Joining, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._cluster = cluster
        self._joining = joining
        self._loop = loop

    @property
    def ports(self) -> Mapping[int, int]:
        ports = {node.id: node.kafka.port for node in self._cluster.plan.nodes}
        return ports | self._joining.ports

    def directory(self, name: str) -> str:
        (node,) = (each for each in self._cluster.plan.nodes if each.name == name)
        meta = look(log_dir(self._cluster.folder, node))
        assert meta is not None
        return uuid_to_text(meta.directory_id)

    def active(self) -> str:
        async def found() -> str:
            async with AdminClient(self._cluster.controllers, is_controller=True) as client:
                return f"controller-{(await client.describe_quorum()).leader_id}"

        return self._done(found())

    def kill(self, name: str) -> None:
        self._done(self._cluster.kill(name))

    def stop(self, name: str) -> None:
        assert self._done(self._cluster.stop_node(name)), f"{name} had to be killed"

    def start(self, name: str) -> None:
        if name == f"controller-{JOINING_ID}":
            self._done(self._join())
        else:
            self._done(self._cluster.restart(name))

    async def _join(self) -> None:
        first = self._cluster.controllers[0]
        await self._joining.start(JOINING_ID, bootstrap_servers=str(first))
        await self._joining.until_said(JOINING_ID, "registered this controller")

    def _done(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(STEP_SECONDS)


async def play(
    names: Sequence[str],
    transcripts: Transcripts,
    folder: Path,
    *,
    version: str,
    founded_at: int,
    brokers: int,
) -> None:
    """Play the transcripts, one after the other, on one cluster."""
    java = runtime(version)
    wanted = Wanted(controllers=3, brokers=brokers, base_port=0, kafka=version)
    plan = settle(folder / "cluster", wanted, random.Random(str(folder)))
    settings = {**SETTINGS, METADATA_VERSION: str(founded_at)}
    with tools_room(java, folder) as tools:
        async with (
            started(
                LocalCluster(folder / "cluster", plan, settings=settings, runtime=java)
            ) as cluster,
            Joining(folder) as joining,
        ):
            joining.reserve(JOINING_ID)
            nodes = Nodes(cluster, joining, asyncio.get_running_loop())
            shell = Shell(nodes, tools, folder)
            for name in names:
                await asyncio.to_thread(transcripts.check, name, shell.answer)


async def test_the_tools_of_kafka_4_2_answer_as_on_its_own_controllers(
    transcripts: Transcripts, tmp_path: Path
) -> None:
    """The order counts: features are raised first, and what is lost is lost last."""
    names = (
        "kafka_quorum",
        "kafka_features",
        "kafka_topics",
        "kafka_configs",
        "kafka_reassign",
        "kafka_elections",
        "kafka_session",
        "kafka_lost_brokers",
    )
    await play(names, transcripts, tmp_path, version="4.2.0", founded_at=21, brokers=4)


@pytest.mark.long
async def test_the_tools_of_kafka_3_9_answer_as_on_its_own_controllers(
    transcripts: Transcripts, tmp_path: Path
) -> None:
    await play(
        ("kafka_tools_3_9",), transcripts, tmp_path, version="3.9.1", founded_at=20, brokers=3
    )
