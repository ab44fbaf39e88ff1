"""A run of five controllers as processes: one is paused, one killed, one has a wrong clock.

What is done to them, and what the leader says of them meanwhile (DescribeQuorum), is written down
with the wall clock of this machine, which is that of all but one of them. Nothing here expects the
machine to be fast: of each thing it is known before and after which moment it was.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from admin.capabilities.quorum import TransferLead
from admin.client.admin_client import AdminClient
from admin.faults import Refused
from controller.quorum_description import QuorumDescription, ReplicaInfo
from quorum.clocks import wall_ms
from tests.process.joining_nodes import Nodes

VOTERS: Final = (1, 2, 3, 4, 5)
LEADER: Final = 1
PAUSED: Final = 3
KILLED: Final = 4
AHEAD: Final = 5
PAUSE_MS: Final = 3_000
AHEAD_MS: Final = 500
WITHIN_MS: Final = 100
STOPPED_MS: Final = 10_000
"""The silence, in ms, after which the report calls a replica stopped."""
PATIENCE_MS: Final = 60_000
CLIENT_METRICS: Final = 16
"""The kind of configuration that is committed: it needs no broker."""
RUN_SECONDS_MAX: Final = 240


@dataclass(frozen=True, slots=True)
class Between:
    """Something happened not before the one moment and not after the other, ms since 1970."""

    from_ms: int
    to_ms: int

    def holds(self, at_ms: int | None, *, within_ms: int = 0) -> bool:
        """True if the moment may lie in between."""
        return at_ms is not None and self.from_ms - within_ms <= at_ms <= self.to_ms + within_ms


@dataclass(frozen=True, slots=True)
class Look:
    """An answer of the leader about the quorum."""

    at: Between
    quorum: QuorumDescription

    def of(self, node: int) -> ReplicaInfo:
        (found,) = (voter for voter in self.quorum.voters if voter.id == node)
        return found

    def end(self, node: int) -> int:
        """The end of the node's log, as far as the leader knows."""
        return self.of(node).log_end_offset


@dataclass
class Story:
    """The actions of the run, and the leader's answers."""

    folder: Path
    commits: list[Between] = field(default_factory=list)
    """Request and answer of each commit, in order; the leader appended it in between."""
    looks: list[Look] = field(default_factory=list)
    killed: Between = Between(0, 0)
    stopped: Between = Between(0, 0)
    resumed: Between = Between(0, 0)
    caught_up: Between = Between(0, 0)
    """The time at which the paused replica had caught up."""

    def first_commit_after(self, at: Between) -> Between:
        return next(each for each in self.commits if each.from_ms >= at.to_ms)

    def last_commit_before(self, at: Between) -> Between:
        return [each for each in self.commits if each.to_ms <= at.from_ms][-1]


def clock_ahead(library: Path) -> dict[str, str]:
    """The environment in which a process has a wall clock that is ahead."""
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"+{AHEAD_MS / 1_000}",
        # Waiting is by the other clock, and goes on as it does.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


async def run(folder: Path, library: Path) -> Story:
    """The whole run; at its end all processes are killed, with all that they know on the disk."""
    async with asyncio.timeout(RUN_SECONDS_MAX), Nodes(folder) as nodes:
        nodes.reserve(*VOTERS)
        nodes.environs[AHEAD] = clock_ahead(library)
        voters = ",".join(f"{node}@{nodes.address(node)}" for node in VOTERS)
        patience = str(PATIENCE_MS)
        for node in VOTERS:
            # Who leads is for this run to say, however busy the machine is.
            await nodes.start(
                node,
                quorum_voters=voters,
                # No NoOp between the last look and the end, however late the end is.
                metadata_max_idle_interval_ms="0",
                quorum_fetch_timeout_ms=patience,
                quorum_request_timeout_ms=patience,
            )
        addresses = [nodes.address(node) for node in VOTERS]
        async with AdminClient(addresses, is_controller=True, timeout_ms=PATIENCE_MS) as client:
            teller = Teller(nodes, client, Story(folder))
            await teller.tell()
        # Who leads comes last, or the others might elect another one before they end.
        for node in sorted(nodes.processes, key=lambda node: node == LEADER):
            await nodes.kill(node)
        return teller.story


@dataclass
class Teller:
    """Does it, and writes it down."""

    nodes: Nodes
    client: AdminClient
    story: Story

    async def tell(self) -> None:
        """The run, in order."""
        await self.level(*VOTERS)
        for leader, follower in ((AHEAD, LEADER), (LEADER, AHEAD)):
            await self.hand_over(leader)
            await self.prove_quick(follower)
        await self.level(*VOTERS)
        self.story.looks.clear()
        self.story.commits.clear()
        await self.commit_until(wall_ms() + 200)

        others = [node for node in VOTERS if node != KILLED]
        await self.level(*VOTERS)
        before_ms = wall_ms()
        await self.nodes.kill(KILLED)
        self.story.killed = Between(before_ms, wall_ms())
        await self.commit_until(wall_ms() + 1_000)

        await self.level(*others)
        with self.paused():
            await self.commit_until(self.story.stopped.to_ms + PAUSE_MS)
        # Nothing is committed until it has all that it missed, which may come in several parts.
        level = await self.level(*others)
        self.story.caught_up = Between(self.story.resumed.from_ms, level.at.to_ms)

        missed = self.story.first_commit_after(self.story.killed)
        await self.commit_until(missed.to_ms + STOPPED_MS)
        await self.level(*others)

    async def hand_over(self, to: int) -> None:
        """Return once this node leads; on a busy machine another one may be faster."""
        while (await self.client.describe_quorum()).leader_id != to:
            # Who has not yet fetched from a leader that is new cannot take over from it.
            with suppress(Refused):
                await self.client.ask(TransferLead(to=to))

    async def prove_quick(self, follower: int) -> None:
        """Commit until something has certainly come to this follower within a few ms.

        Clocks are compared by what came the fastest: from then on it is known how well they can be.
        """
        while True:
            await self.commit()
            look = await self.level(follower)
            if look.at.to_ms - self.story.commits[-1].from_ms < WITHIN_MS:
                return

    async def commit_until(self, at_ms: int) -> None:
        """Commit one after the other, and look after each; the last one begins at that time."""
        over = False
        while not over:
            over = wall_ms() >= at_ms
            await self.commit()
            await self.look()

    async def commit(self) -> None:
        before_ms = wall_ms()
        number = str(before_ms * 1_000 + len(self.story.commits))
        await self.client.alter_configs(CLIENT_METRICS, "m", {"metrics": f"n{number}"})
        self.story.commits.append(Between(before_ms, wall_ms()))

    async def look(self) -> Look:
        before_ms = wall_ms()
        quorum = await self.client.describe_quorum()
        look = Look(Between(before_ms, wall_ms()), quorum)
        self.story.looks.append(look)
        return look

    async def level(self, *nodes: int) -> Look:
        """The leader's answer once these replicas have caught up."""
        while True:
            look = await self.look()
            leader = look.quorum.leader
            if leader and {look.end(node) for node in nodes} == {leader.log_end_offset}:
                return look

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still meanwhile, as far as the system says so of a child of ours."""
        pid = self.nodes.processes[PAUSED].pid
        before_ms = wall_ms()
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        self.story.stopped = Between(before_ms, wall_ms())
        yield
        before_ms = wall_ms()
        os.kill(pid, signal.SIGCONT)
        self.story.resumed = Between(before_ms, wall_ms())
