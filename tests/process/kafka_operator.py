"""The operator of a cluster with Kafka's brokers: with Kafka's own tools, and with ours.

This module parses the output of Kafka's tools; the tests check it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from admin.model import Assignment, PartitionId
from admin.plan_file import render_plan
from admin.tools.local_plan import NodePlan
from tests.process.kafka_tools_process import Said, ToolsRoom, tools_room
from tests.process.local_process import Done, metaquorum
from tests.process.moved_cluster import Layout, MovedCluster, moved_cluster
from tests.support.kafka_tools import runtime

PATIENCE_SECONDS: Final = 180
"""The time limit for anything that must happen. It bounds a test that fails."""

Answer = TypeVar("Answer")

_ROW: Final = re.compile(
    r"\tTopic: (?P<topic>\S+)\s+Partition: (?P<number>\d+)\s+Leader: (?P<leader>\S+)\s+"
    r"Replicas: (?P<replicas>[\d,]+)\s+Isr: ?(?P<isr>[\d,]*)(\s+Elr: ?(?P<elr>[\d,]*))?"
)
_LISTED: Final = re.compile(
    r"(?P<topic>\S+)-(?P<number>\d+): replicas: (?P<replicas>[\d,]+)\."
    r"( adding: (?P<adding>[\d,]+)\.)?( removing: (?P<removing>[\d,]+)\.)?"
)


class Row(NamedTuple):
    """A partition as kafka-topics describes it; a leader of None is its "none"."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]


class Listed(NamedTuple):
    """A partition as kafka-reassign-partitions lists it."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """Someone with a shell, and the cluster."""

    it: MovedCluster
    tools: ToolsRoom
    folder: Path

    @property
    def controllers(self) -> str:
        """The option for our own commands: Kafka's brokers do not forward them."""
        return ",".join(map(str, self.it.cluster.controllers))

    async def ours(self, *arguments: str) -> Done:
        """Run `metaquorum` with these."""
        whom = ("--bootstrap-controller", self.controllers)
        return await asyncio.to_thread(metaquorum, *arguments, *whom)

    async def run(self, tool: str, *arguments: str, server: NodePlan | None = None) -> str:
        """The output of a Kafka tool, through all brokers or through this one."""
        said = await self.try_to(tool, *arguments, server=server)
        assert said.code == 0, (tool, arguments, said)
        return said.text

    async def try_to(self, tool: str, *arguments: str, server: NodePlan | None = None) -> Said:
        """The same of a tool that may fail."""
        where = self.it.servers if server is None else str(server.kafka)
        words = [*arguments, "--bootstrap-server", where]
        return await asyncio.to_thread(self.tools.run, tool, words)

    async def reassign(self, plan: Path, *arguments: str) -> str:
        """The output of kafka-reassign-partitions for this plan."""
        file = ("--reassignment-json-file", str(plan))
        return await self.run("kafka-reassign-partitions.sh", *arguments, *file)

    async def verify(self, plan: Path) -> str:
        """The output of `--verify` for the plan; once all is done, it ends throttles."""
        return await self.reassign(plan, "--verify")

    async def listed(self, topic: str) -> dict[int, Listed]:
        """The reassignments of a topic that it lists."""
        said = await self.run("kafka-reassign-partitions.sh", "--list")
        return {
            int(row["number"]): Listed(*map(_ids, row.group("replicas", "adding", "removing")))
            for row in _LISTED.finditer(said)
            if row["topic"] == topic
        }

    async def described(
        self, topic: str, *arguments: str, server: NodePlan | None = None
    ) -> dict[int, Row]:
        """The partitions as kafka-topics describes them, those that `arguments` ask for."""
        words = ("--describe", "--topic", topic, *arguments)
        said = await self.run("kafka-topics.sh", *words, server=server)
        return {
            int(row["number"]): Row(
                None if row["leader"] == "none" else int(row["leader"]),
                *map(_ids, row.group("replicas", "isr", "elr")),
            )
            for row in _ROW.finditer(said)
        }

    async def until_described(
        self, topic: str, holds: Callable[[dict[int, Row]], bool], server: NodePlan | None = None
    ) -> dict[int, Row]:
        """Describe it again and again until it is as wanted."""
        return await until(
            lambda: self.described(topic, server=server), lambda rows: bool(rows) and holds(rows)
        )

    async def until_completed(self, plan: Path, partitions: int) -> str:
        """The output of `--verify` once it reports so many partitions as completed."""
        return await until(
            lambda: self.verify(plan), lambda said: said.count("is completed") == partitions
        )

    async def throttles(self, topic: str) -> set[str]:
        """The throttles that kafka-configs shows, of the topic and of every broker."""
        resources = [("topics", topic), *(("brokers", str(each)) for each in self.it.brokers)]
        found: set[str] = set()
        for kind, name in resources:
            words = ("--describe", "--entity-type", kind, "--entity-name", name)
            said = await self.run("kafka-configs.sh", *words)
            found |= set(re.findall(r"^  (\S*throttled\S*=\S+) ", said, re.MULTILINE))
        return found

    async def until_throttles_are(self, topic: str, wanted: Collection[str]) -> None:
        """Return once these throttles are shown, and no other."""
        await until(lambda: self.throttles(topic), lambda found: found == set(wanted))

    async def until_state_is(self, broker: NodePlan, state: str) -> None:
        """Return once the broker is in this state."""
        await until(self.states, lambda states: states.get(broker.id) == state)

    async def states(self) -> dict[int, str]:
        """Every registered broker in the word of kafka-cluster: fenced, unfenced."""
        said = await self.run("kafka-cluster.sh", "list-endpoints", "--include-fenced-brokers")
        rows = (line.split() for line in said.splitlines()[1:])
        return {int(row[0]): row[4] for row in rows if row}

    def plan(self, topic: str, wanted: Layout) -> Path:
        """A file for kafka-reassign-partitions that asks for this."""
        self.it.asked += [
            Assignment(topic=topic, partition=number, replicas=replicas)
            for number, replicas in wanted.items()
        ]
        path = self.folder / f"{topic}.json"
        named = {PartitionId(topic, number): replicas for number, replicas in wanted.items()}
        path.write_text(render_plan(named), encoding="utf-8")
        return path


async def until(ask: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], bool]) -> Answer:
    """Ask again and again until the answer is as wanted.

    A broker of Kafka answers out of what it has replayed of the log, and tools ask any of them:
    what one command has done, with Kafka's own controllers too, the next may not see yet.
    """
    found: Answer | None = None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await ask()
                if holds(found):
                    return found
    except TimeoutError:
        raise AssertionError(f"in vain; the last answer was {found}") from None


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


@asynccontextmanager
async def operator(folder: Path, version: str) -> AsyncIterator[Operator]:
    """A cluster with four brokers of this release, and tools of the same one."""
    java = runtime(version)
    with tools_room(java, folder) as tools:
        async with moved_cluster(folder / "cluster", brokers=4, version=version) as it:
            yield Operator(it, tools, folder)
