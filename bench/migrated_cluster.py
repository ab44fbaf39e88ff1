"""A cluster of Kafka's controllers and brokers, and controllers of ours that take over.

The operator's part of a migration as `docs/migration.md` has it: nodes are started, stopped and
rolled, and `metaquorum migrate` runs as a process of its own.
"""

import asyncio
import random
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from admin.client.admin_client import AdminError
from admin.setting_kinds import Role
from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import HOST, ClusterPlan, NodePlan, Wanted, settle
from admin.tools.local_plan import SETTINGS_FILE as OUR_SETTINGS_FILE
from admin.tools.local_security import LocalSecurity
from bench.faults import RunFailed
from bench.rival_processes import START_MS, RivalCluster, until
from bench.rivals import SETTINGS_FILE, Rival, Side
from quorum.clocks import wall_ms
from quorum.transport.address import Address

KAFKAS: Final = 3
OURS: Final = 3
FIRST_OF_OURS: Final = 11
"""Ids that neither Kafka's controllers nor the brokers have."""
BROKER_STOP_MS: Final = 120_000
"""A broker hands over all the partitions that it leads before it ends."""
_ROOT: Final = Path(__file__).parents[1]


@dataclass
class Command:
    """`metaquorum migrate` as a process, and what it has printed so far."""

    process: Process
    lines: list[str] = field(default_factory=list)

    async def read(self) -> None:
        """Read all that it prints; returns when it has ended."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())
        await self.process.wait()

    def has_said(self, words: str) -> bool:
        """True if a line has these words."""
        return any(words in line for line in self.lines)

    @property
    def text(self) -> str:
        """All that it has printed."""
        return "\n".join(self.lines)


class MigratedCluster(RivalCluster):
    """Kafka's cluster as `RivalCluster` has it, with controllers of ours beside it."""

    def __init__(self, rival: Rival, rng: random.Random) -> None:
        super().__init__(rival, rng)
        self.ours = rival.joining
        self.command_config: Path | None = None
        """The client.properties of `metaquorum migrate`."""

    @property
    def sides(self) -> tuple[str, ...]:
        """The options of `metaquorum migrate` that name both sides."""
        kafkas = ",".join(str(node.kafka) for node in self.controllers)
        ours = ",".join(f"{node.id}@{node.kafka}" for node in self.ours)
        return ("--from", kafkas, "--controllers", ours)

    @asynccontextmanager
    async def migrate(self, *words: str) -> AsyncIterator[Command]:
        """Run `metaquorum migrate WORDS` with both sides; it is killed at the end."""
        config = self.command_config
        more = () if config is None else ("--command-config", str(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "admin.cli.main", "migrate", *words, *self.sides, *more),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=_ROOT,
            start_new_session=True,
        )
        command = Command(process)
        reading = asyncio.get_running_loop().create_task(command.read())
        try:
            yield command
        finally:
            if process.returncode is None:
                process.kill()
            await reading

    async def ended(self, command: Command, *, code: int = 0, within_ms: int = START_MS) -> None:
        """Return when the command has ended with this exit code; else raises `RunFailed`."""
        await until(lambda: _is_over(command), f"migrate ends: {command.text}", within_ms=within_ms)
        if command.process.returncode != code:
            raise RunFailed(f"migrate ended with {command.process.returncode}: {command.text}")

    async def until_said(self, command: Command, words: str) -> None:
        """Return when the command has said so; raises `RunFailed` if it ends before."""

        async def has_said() -> bool:
            if command.has_said(words):
                return True
            if command.process.returncode is not None:
                raise RunFailed(f"migrate ended without {words!r}: {command.text}")
            return False

        await until(has_said, f"migrate says {words!r}", within_ms=START_MS)

    async def run_migrate(self, *words: str, code: int = 0) -> str:
        """Run `metaquorum migrate WORDS` to its end; returns what it has printed."""
        async with self.migrate(*words) as command:
            await self.ended(command, code=code)
            return command.text

    async def write_settings(self) -> str:
        """Let the plan write the settings of our controllers; returns what it says."""
        return await self.run_migrate("plan", "--dir", str(self.rival.folder))

    def complete_settings(self) -> None:
        """Add to these settings what the plan has named: certificates, passwords, keys, rights.

        The first of ours logs in as the first of Kafka's does, which needs no change there. The
        others have users of their own, which Kafka's controllers know.
        """
        security, everyone = self.rival.security, self.rival.everyone
        assert security is not None
        for node in self.ours:
            values = security.settings(everyone, node)
            if node is self.ours[0]:
                twin = security.settings(everyone, self.controllers[0])
                values |= {name: twin[name] for name in twin if name.endswith("sasl.jaas.config")}
            file = self._home(node) / OUR_SETTINGS_FILE
            lines = file.read_text().splitlines()
            file.write_text("".join(f"{_completed(line, values)}\n" for line in lines))

    async def start_ours(self) -> None:
        """Start our controllers with these settings."""
        for node in self.ours:
            file = self._home(node) / OUR_SETTINGS_FILE
            command = [sys.executable, "-m", "admin.cli.main", "start", "--config", str(file)]
            await self._run(command, node)

    async def roll(self) -> None:
        """Give each broker the controllers of both kinds, and restart it, one after the other."""
        for node in self.brokers:
            self._name_both_kinds(node)
            await self.stop(node, BROKER_STOP_MS)
            await self.spawn(node)
            await self.wait_until_it_serves(node)
            await self.until_in_sync()

    async def roll_controllers(self) -> None:
        """Give each controller of Kafka the same line, and restart it, one after the other.

        The next one is stopped when all follow: the quorum never lacks more than one.
        """
        for node in self.controllers:
            self._name_both_kinds(node)
            await self.stop(node)
            since_ms = wall_ms()
            await self.spawn(node)
            await self._until_caught_up(since_ms)

    async def _until_caught_up(self, since_ms: int) -> None:
        async with self.client() as client:

            async def have_all() -> bool:
                try:
                    found = await client.describe_quorum()
                except AdminError:
                    return False
                return all(each.last_caught_up_ms >= since_ms for each in found.voters)

            await until(have_all, "all voters catch up", within_ms=START_MS, poll_ms=200)

    async def start_kafkas_again(self) -> None:
        """Start Kafka's controllers, which find ours from now on."""
        for node in self.controllers:
            self._name_both_kinds(node)
            await self.spawn(node)

    def _name_both_kinds(self, node: NodePlan) -> None:
        file = self._home(node) / SETTINGS_FILE
        lines = file.read_text().splitlines()
        kept = [each for each in lines if not each.startswith("controller.quorum.")]
        servers = ",".join(str(each.kafka) for each in (*self.ours, *self.controllers))
        file.write_text("\n".join([*kept, f"controller.quorum.bootstrap.servers={servers}", ""]))

    async def until_in_sync(self) -> None:
        """Return when every replica of every partition is in sync."""
        async with self.client() as client:

            async def is_whole() -> bool:
                try:
                    topics = await client.describe_topics()
                except AdminError:
                    return False
                return all(
                    set(each.isr) == set(each.replicas)
                    for topic in topics.values()
                    for each in topic.partitions
                )

            await until(is_whole, "all replicas are in sync", within_ms=START_MS, poll_ms=200)


def _completed(line: str, values: Mapping[str, object]) -> str:
    """A line of settings; one that the plan left to the operator gets its value."""
    to_add = re.fullmatch(r"# (\S+)=", line)
    return line if to_add is None else f"{to_add[1]}={values[to_add[1]]}"


async def _is_over(command: Command) -> bool:
    return command.process.returncode is not None


def _ours_beside(plan: ClusterPlan) -> tuple[NodePlan, ...]:
    """Our controllers beside Kafka's of this plan."""
    base = plan.controllers[0].kafka.port - 1
    return tuple(
        NodePlan(role=Role.CONTROLLER, id=id, kafka=Address(HOST, base + id))
        for id in range(FIRST_OF_OURS, FIRST_OF_OURS + OURS)
    )


def source(
    folder: Path,
    runtime: Runtime,
    rng: random.Random,
    *,
    level: str | None = None,
    has_static_voters: bool = False,
    is_secure: bool = False,
) -> MigratedCluster:
    """A cluster in `folder`, not started: three controllers and three brokers of this release.

    With `is_secure` all its nodes, and ours, have a certificate, a password and the rights of one.
    """
    wanted = Wanted(controllers=KAFKAS, brokers=4, base_port=0, is_secure=is_secure)
    plan = settle(folder, wanted, rng)
    rival = Rival(
        side=Side.KAFKAS,
        folder=folder,
        plan=replace(plan, kafka=runtime.release.version),
        runtime=runtime,
        level=level,
        has_static_voters=has_static_voters,
        joining=_ours_beside(plan),
        security=LocalSecurity(folder) if is_secure else None,
    )
    return MigratedCluster(rival, rng)
