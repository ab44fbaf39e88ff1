"""Backups of controllers that run: whoever is asked, whoever leads, and what they notice of it."""

import asyncio
from pathlib import Path

import pytest

from admin.backup.folder_storage import FolderStorage
from admin.backup.log_summary import NOWHERE
from admin.backup.run import Outcome, Pace, Retention, back_up
from admin.backup.storage import find_manifest
from admin.backup.verification import verify
from admin.client.channels import Channels
from admin.client.metadata_source import EpochsFell, MetadataSource, Records
from admin.faults import AdminError, Unreachable
from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.transport.address import Address
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.backup.stored_backups import TAKEN_MS, command
from tests.controller.controller_commands import asked, topic
from tests.controller.controller_commands import join as brokers_join
from tests.support.controllers import CLUSTER_ID, NOBODY, a_controller, active, controllers

PATIENCE_MS = 20_000


async def backed_up(
    to: Path,
    *nodes: Address,
    now_ms: int = TAKEN_MS,
    patience_ms: int = PATIENCE_MS,
    cluster_id: str = CLUSTER_ID,
) -> Outcome:
    channels = Channels("backup")
    try:
        source = MetadataSource(channels, nodes, cluster_id=cluster_id, patience_ms=patience_ms)
        return await back_up(
            source,
            FolderStorage(to),
            now_ms=now_ms,
            retention=Retention(),
            pace=Pace(0),
            patience_ms=patience_ms,
        )
    finally:
        await channels.close()


def topics(to: Path) -> set[str]:
    storage = FolderStorage(to)
    image = verify(storage, find_manifest(storage, None)).image
    return {each.name for each in image.topics.values()}


async def test_any_controller_may_be_named_and_the_leader_remembers_nothing(
    tmp_path: Path,
) -> None:
    to = tmp_path / "to"
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        await brokers_join(leader.controller, 101)
        await asked(leader.controller, topic("a", 101))
        followers = [each for each in nodes.values() if each is not leader]
        first = await backed_up(to, NOBODY, followers[0].address)
        assert topics(to) == {"a"}
        assert {each.id for each in first.manifest.voters} == {1, 2, 3}
        await asked(leader.controller, topic("b", 101))
        second = await backed_up(to, followers[1].address, now_ms=TAKEN_MS + 1)
        assert second.previous == first.manifest
        assert topics(to) == {"a", "b"}
        replicas = leader.opened.quorum.node.replicas()
        assert {each.replica.id for each in replicas} == {1, 2, 3}


async def test_a_backup_goes_on_with_the_next_leader(tmp_path: Path) -> None:
    to = tmp_path / "to"
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        await brokers_join(leader.controller, 101)
        await asked(leader.controller, topic("a", 101))
        addresses = [each.address for each in nodes.values()]
        first = await backed_up(to, *addresses)
        await leader.stop()
        left = [each for each in nodes.values() if each is not leader]
        following = await active(left)
        await asked(following.controller, topic("b", 101))
        second = await backed_up(
            to, *(each.address for each in nodes.values()), now_ms=TAKEN_MS + 1
        )
        assert second.previous == first.manifest
        assert second.manifest.epoch > first.manifest.epoch
        assert topics(to) == {"a", "b"}


async def test_snapshots_of_the_leader_are_taken(tmp_path: Path) -> None:
    to = tmp_path / "to"
    async with a_controller(tmp_path, kraft_version=1) as node:
        await brokers_join(node.controller, 101)
        for name in "abc":
            await asked(node.controller, topic(name, 101))
            await node.service.take_snapshot("a test")
        await asked(node.controller, topic("d", 101))
        outcome = await backed_up(to, node.address)
        assert outcome.manifest.snapshot is not None
        assert outcome.manifest.log[0].base_offset == outcome.manifest.snapshot.end_offset
        assert topics(to) == {*"abcd"}


async def test_without_a_leader_a_backup_says_so_in_time(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, voters=(2, 3), kraft_version=1) as nodes:
        with pytest.raises(Unreachable, match="no leader served the metadata log for 300 ms"):
            await backed_up(tmp_path / "to", nodes[1].address, patience_ms=300)
    assert not list((tmp_path / "to").glob("*.json"))


async def test_a_leader_that_lacks_what_was_committed_before_is_not_listened_to(
    tmp_path: Path,
) -> None:
    """It was cut off from the others and replaced, and has not noticed yet."""
    channels = Channels("backup")
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        places = [leader.address]
        known = leader.controller.committed

        def source(not_before: int, patience_ms: int) -> MetadataSource:
            return MetadataSource(
                channels,
                places,
                cluster_id=CLUSTER_ID,
                patience_ms=patience_ms,
                not_before=not_before,
            )

        assert isinstance(await source(known, 60_000).fetch(NOWHERE), Records)
        behind = f"does not know that everything below offset {known + 100} is committed"
        with pytest.raises(Unreachable, match=behind):
            # It asks again for so long: on a busy machine the first answer needs a part of it.
            await source(known + 100, 2_000).fetch(NOWHERE)
        await channels.close()


async def test_a_backup_needs_a_leader_whom_a_majority_confirms(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        await brokers_join(leader.controller, 101)
        await asked(leader.controller, topic("a", 101))
        words = ("--to", tmp_path / "to", "--bootstrap-controller", leader.address)
        done = await asyncio.to_thread(command, *words)
        assert done.exit_code == 0, done.stderr
        assert topics(tmp_path / "to") == {"a"}
        for each in nodes.values():
            if each is not leader:
                await each.stop()
        # It still leads: it has not missed them yet.
        alone = await asyncio.to_thread(command, *words, "--timeout", "1s")
        assert alone.exit_code == 1
        assert len([*(tmp_path / "to").glob("*.json")]) == 1


async def test_another_cluster_is_told_apart(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        with pytest.raises(AdminError, match="is not of cluster AAAAAAAAQACAAAAAAAAAAA"):
            await backed_up(tmp_path / "to", node.address, cluster_id="AAAAAAAAQACAAAAAAAAAAA")


async def test_an_end_of_a_later_epoch_than_the_cluster_is_in_is_told_apart(tmp_path: Path) -> None:
    channels = Channels("backup")
    async with a_controller(tmp_path) as node:
        await active([node])
        places = [node.address]
        source = MetadataSource(channels, places, cluster_id=CLUSTER_ID, patience_ms=300)
        for epoch in (100, EPOCH_MAX):
            # Whoever reads says what it means: a backup, or a migration.
            with pytest.raises(EpochsFell, match=f"on epoch {epoch}, and the cluster is in epoch"):
                await source.fetch(OffsetAndEpoch(Epoch(epoch), Offset(3)))
        await channels.close()


async def test_the_right_to_act_for_the_cluster_is_asked_for(tmp_path: Path) -> None:
    async with a_controller(tmp_path, authorizer=AuthorizerConfig()) as node:
        with pytest.raises(AdminError, match="needs CLUSTER_ACTION on the cluster"):
            await backed_up(tmp_path / "to", node.address)


async def test_commits_during_a_backup_are_in_it_or_in_the_next(tmp_path: Path) -> None:
    to = tmp_path / "to"
    async with a_controller(tmp_path, kraft_version=1) as node:
        await brokers_join(node.controller, 101)

        async def write() -> None:
            for number in range(50):
                await asked(node.controller, topic(f"t{number}", 101))

        async with asyncio.TaskGroup() as group:
            writing = group.create_task(write())
            for place in range(5):
                await backed_up(to, node.address, now_ms=TAKEN_MS + place)
                topics(to)
        assert writing.done()
        await backed_up(to, node.address, now_ms=TAKEN_MS + 9)
        assert topics(to) == {f"t{number}" for number in range(50)}
