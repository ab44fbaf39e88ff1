"""All voters are replaced by one command, in real processes whose leader dies at every step."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from chaos.processes.load import Load
from chaos.processes.log_checker import committed_log, disagreements, missing
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from tests.process.disks_of_voters import Controllers, controllers
from tests.process.joining_nodes import nap

pytestmark = pytest.mark.process

OLD: Final = (1, 2, 3)
NEW: Final = (4, 5, 6)
WITHIN_SECONDS: Final = 120


def voters_of(quorum: QuorumDescription) -> tuple[int, ...]:
    return tuple(sorted(each.id for each in quorum.voters))


async def replace_voters(cluster: Controllers) -> list[tuple[int, ...]]:
    """Ask once; kill the leader whenever the voters have changed. Returns the sets seen."""
    seen = [voters_of(await cluster.led())]
    await cluster.client.alter_voters([ReplicaKey(ReplicaId(each)) for each in NEW])
    async with asyncio.timeout(WITHIN_SECONDS):
        while seen[-1] != NEW:
            quorum = await cluster.led()
            if voters_of(quorum) != seen[-1]:
                seen.append(voters_of(quorum))
                await cluster.kill(quorum.leader_id)
                await cluster.nodes.start([quorum.leader_id])
    return seen


async def until_all_have_all(cluster: Controllers) -> int:
    """A high watermark that voters and observers alike have reached."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            quorum = await cluster.led()
            replicas = [*quorum.voters, *quorum.observers]
            ends = {each.id: each.log_end_offset for each in replicas}
            if set(ends) == {*OLD, *NEW} and quorum.high_watermark <= min(ends.values()):
                return quorum.high_watermark
            await nap()


async def test_one_command_replaces_all_voters_though_every_leader_is_killed(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path / "cluster", (*OLD, *NEW), OLD, {}) as cluster:
        nodes = cluster.nodes
        load = Load({id: nodes.network.listener_of(id) for id in (1, 4)})
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(load.run())
            seen = await replace_voters(cluster)
            await load.success_after(asyncio.get_running_loop().time())
            writing.cancel()
        assert (seen[0], seen[-1]) == (OLD, NEW)
        assert len(seen) > 2, "it was over before a leader could be killed"
        committed = await until_all_have_all(cluster)
        assert await load.read_back([nodes.network.listener_of(id) for id in NEW]) == []
        nodes.check()
        await nodes.stop()
        logs = {id: committed_log(nodes.data(id), committed) for id in (*OLD, *NEW)}
        assert disagreements(logs, committed) == []
        assert missing(load.registers, *logs[NEW[0]]) == []
        assert load.acknowledged > 0
