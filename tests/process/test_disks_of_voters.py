"""A voter whose folder is not its last one: as docs/quorum.md promises."""

import asyncio
import shutil
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from controller.quorum_description import QuorumDescription
from tests.process.disks_of_voters import IDS, controllers
from tests.process.joining_nodes import nap

pytestmark = pytest.mark.process

EARLY: Final = range(1, 11)
LATE: Final = range(11, 31)


async def test_the_leader_reports_a_restored_old_copy_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path / "cluster") as cluster:
        await cluster.write(*EARLY)
        follower = await cluster.follower()
        await cluster.kill(follower)
        backup = cluster.keep_copy(follower)
        await cluster.nodes.start([follower])
        await cluster.write(*LATE)
        before = await cluster.until_voters_have_caught_up()
        await cluster.kill(follower)
        cluster.put_back(follower, backup)
        await cluster.nodes.start([follower])
        async with asyncio.timeout(60):
            while "older copy of its folder was put back" not in cluster.nodes.said(
                before.leader_id
            ):
                await cluster.led()
                await nap()
        after = await cluster.until_voters_have_caught_up()
        assert after.leader_id == before.leader_id
        assert await cluster.lost(*EARLY, *LATE) == []
        said = cluster.nodes.said(after.leader_id)
        assert f"voter {follower}" in said
        assert "Stop none of the other voters before it has caught up" in said
        cluster.nodes.check()


async def test_a_voter_with_a_wiped_disk_returns_as_an_observer_and_logs_the_remedy(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path / "cluster") as cluster:
        await cluster.write(*EARLY)
        before = await cluster.until_voters_have_caught_up()
        wiped = await cluster.follower()
        await cluster.kill(wiped)
        shutil.rmtree(cluster.nodes.data(wiped))
        await cluster.nodes.start([wiped])
        await cluster.write(*LATE)
        async with asyncio.timeout(60):
            while not (after := await cluster.led()).observers or (
                after.observers[0].log_end_offset < after.high_watermark
            ):
                cluster.nodes.check()
                await nap()
        (voter,) = [each for each in after.voters if each.id == wiped]
        (observer,) = after.observers
        assert voter.directory_id in directories(before)
        assert observer.id == wiped
        assert observer.directory_id not in directories(after)
        said = cluster.nodes.said(wiped)
        assert f"voter {wiped} is another directory than this one" in said
        assert f"take {wiped} out of the voters and then in again" in said
        # The operator does as it says.
        others = [id for id in IDS if id != wiped]
        await cluster.until_voters_are(others)
        await cluster.until_voters_are(IDS)
        assert observer.directory_id in directories(await cluster.led())
        assert await cluster.lost(*EARLY, *LATE) == []


def directories(quorum: QuorumDescription) -> set[UUID]:
    """The directories that vote."""
    return {each.directory_id for each in quorum.voters}


async def test_voters_whose_folders_were_exchanged_refuse_to_start_and_change_nothing(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path / "cluster") as cluster:
        await cluster.write(*EARLY)
        nodes = cluster.nodes
        leader = (await cluster.led()).leader_id
        one, other = (id for id in IDS if id != leader)
        for id in (one, other):
            await cluster.kill(id)
        copies = {id: cluster.keep_copy(id) for id in (one, other)}
        cluster.put_back(one, copies[other])
        cluster.put_back(other, copies[one])
        for id, owner in ((one, other), (other, one)):
            await nodes.start([id])
            assert await nodes.ended(id) == 1
            error = nodes.said(id).splitlines()[-1]
            assert f"this folder belongs to node {owner}, but this is node {id}" in error
        cluster.put_back(one, copies[one])
        cluster.put_back(other, copies[other])
        await nodes.start([one, other])
        await cluster.until_voters_have_caught_up()
        assert await cluster.lost(*EARLY) == []
