"""Voters are removed one by one, in real processes, while one of them is dead; and what operators
are told while nobody leads."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import pytest

from admin.client.admin_client import AdminClient, Unreachable
from admin.tools.local_cluster import LocalCluster
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from tests.process.controller_processes import three
from tests.process.test_controllers import leader_of
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

WITHIN_MS: Final = 10_000
TEST_SECONDS_MAX: Final = 120


def admin(cluster: LocalCluster, *, within_ms: int = WITHIN_MS) -> AdminClient:
    return AdminClient(cluster.controllers, is_controller=True, timeout_ms=within_ms)


def key_of(quorum: QuorumDescription, id: int) -> ReplicaKey:
    (key,) = (ReplicaKey(ReplicaId(id), e.directory_id) for e in quorum.voters if e.id == id)
    return key


def names(cluster: LocalCluster) -> dict[int, str]:
    return {each.id: each.name for each in cluster.plan.controllers}


async def kill(cluster: LocalCluster, *ids: int) -> None:
    await asyncio.gather(*(cluster.kill(names(cluster)[each]) for each in ids))


async def described(client: AdminClient) -> QuorumDescription:
    """The quorum once every voter's directory is known."""
    while True:
        quorum = await client.describe_quorum()
        if all(each.directory_id.int for each in quorum.voters):
            return quorum


async def metaquorum(*arguments: str) -> str:
    """The stderr of a command that fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "admin.cli.main", *arguments),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 1, said.decode()
    return said.decode()


async def test_a_voter_needed_for_commits_is_not_removed_and_the_reason_is_given(
    tmp_path: Path,
) -> None:
    async with (
        asyncio.timeout(TEST_SECONDS_MAX),
        three(tmp_path / "cluster") as cluster,
        admin(cluster) as client,
    ):
        quorum = await described(client)
        dead, live = (each.id for each in quorum.voters if each.id != quorum.leader_id)
        await kill(cluster, dead)
        with pytest.raises(Unreachable) as raised:
            await client.remove_voter(key_of(quorum, live))
        said = str(raised.value)
        assert f"{dead}: without them, no majority of the voters that would result" in said
        # A read needs a majority, so it shows as well that nothing is held up.
        voters = {each.id for each in (await client.describe_quorum()).voters}
        assert voters == {quorum.leader_id, live, dead}


async def test_a_voter_that_has_just_died_is_removed_at_once(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TEST_SECONDS_MAX),
        three(tmp_path / "cluster") as cluster,
        admin(cluster) as client,
    ):
        quorum = await described(client)
        dead = next(each.id for each in quorum.voters if each.id != quorum.leader_id)
        await kill(cluster, dead)
        await client.remove_voter(key_of(quorum, dead))
        assert dead not in {each.id for each in (await client.describe_quorum()).voters}
        assert len((await client.describe_quorum()).voters) == 2


async def test_a_command_reports_that_no_leader_is_known(tmp_path: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS_MAX), three(tmp_path / "cluster") as cluster:
        leader, _ = await leader_of(cluster)
        dead = next(each for each in names(cluster) if each != leader)
        await kill(cluster, leader, dead)
        alive = next(each for each in cluster.plan.controllers if each.id not in (leader, dead))
        asked = ",".join(map(str, cluster.controllers))
        options = ("--bootstrap-controller", asked, "--timeout", "10s")
        for command in (("describe", "--status"), ("alter", "--voters", str(alive.id))):
            while "no controller leads (" not in (
                said := await metaquorum("metadata-quorum", *command, *options)
            ):
                # On a busy machine the last one may not have said in time how it stands.
                assert f"{alive.kafka}" in said, said
            assert f"{alive.kafka} knows no leader, epoch " in said, said
            assert said.count("Connection refused") == 2, said
