"""Our controllers on adopted folders: their state, and that they continue."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from admin.cli.metadata_logs import adopt as command
from quorum.clocks import monotonic_ms
from quorum.log.errors import FileDamaged
from quorum.persistent_state import LOG_FOLDER
from quorum.ports import LogFailure
from quorum.transport.address import Address
from statemachine import commands
from statemachine.features.features import RANGES
from statemachine.image.image import Image
from tests.admin.tools.old_controllers import (
    CHECKPOINT,
    CHECKPOINT_END,
    LOG_END,
    fingerprint,
    old,
    rest,
)
from tests.controller.controller_commands import asked, heartbeat, registration, topic
from tests.quorum.log.test_checkpoint import a_checkpoint, data, footer, header
from tests.statemachine.support.reference_checks import contents
from tests.support.controllers import TEST_SECONDS_MAX, Node, a_place, active, start
from tests.support.real_cluster import IN_TREE, controller


def adopt(folder: Path, *sources: Path) -> None:
    arguments = [*map(str, sources), "--dir", str(folder)]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr


@asynccontextmanager
async def started(folder: Path, ids: Sequence[int]) -> AsyncIterator[dict[int, Node]]:
    """The controllers of an adopted cluster, in this process and at free ports."""
    async with asyncio.timeout(TEST_SECONDS_MAX), AsyncExitStack() as parts:
        places = {node_id: await a_place() for node_id in ids}
        for place in places.values():
            parts.push_async_callback(place.server.close, within_ms=100)
        voters: dict[int, Address] = {node_id: place.address for node_id, place in places.items()}
        nodes = {
            node_id: await start(
                node_id,
                place,
                voters,
                folder / f"controller-{node_id}" / "data",
                parts,
                session_clock=monotonic_ms,
            )
            for node_id, place in places.items()
        }
        yield nodes


def known(image: Image) -> dict[str, object]:
    """The contents of an image, without values that come from the offset of a lost record.

    After a checkpoint, a broker counts as registered and stopping at the end of it. And who is the
    active controller registers itself anew, at another offset and address.
    """
    found = contents(image)
    del found["end_offset"], found["controllers"]
    found["brokers"] = {
        broker_id: replace(
            broker, registered_at=0, stopping_at=None if broker.stopping_at is None else 0
        )
        for broker_id, broker in image.brokers.items()
    }
    return found


async def test_they_come_up_with_the_brokers_topics_and_configurations_of_the_cluster(
    tmp_path: Path,
) -> None:
    sources = [old(tmp_path, node_id) for node_id in (2, 3, 4)]
    before = [fingerprint(source) for source in sources]
    adopt(tmp_path / "new", *sources)
    async with started(tmp_path / "new", (2, 3, 4)) as nodes:
        image = (await active(nodes.values())).controller.image
        assert sorted(image.brokers) == [101, 102, 103, 104]
        assert all(broker.fenced for broker in image.brokers.values())
        assert not any(broker.is_embedded for broker in image.brokers.values())
        orders = image.topic_named("orders")
        assert orders is not None
        assert [partition.replicas for _, partition in orders.existing()] == [
            (103, 104),
            (104, 101),
            (103, 104),
            (101, 102, 103),
        ]
        assert image.configs == {(4, ""): {"min.insync.replicas": "1"}}
        assert image.features["eligible.leader.replicas.version"] == 1
        assert image.level == 29
        assert image.next_producer_id == 1000
    assert [fingerprint(source) for source in sources] == before


async def test_they_go_on_where_the_others_stopped_and_remember_it(tmp_path: Path) -> None:
    new = tmp_path / "new"
    adopt(new, *(old(tmp_path, node_id) for node_id in (2, 3)))
    async with started(new, (2, 3)) as nodes:
        leader = await active(nodes.values())
        assert leader.opened.quorum.node.epoch > 3
        back = replace(registration(102), features=RANGES)
        registered = await asked(leader.controller, back)
        assert isinstance(registered, commands.BrokerRegistered)
        assert not registered.error.code, registered
        assert registered.broker_epoch > LOG_END
        await asked(leader.controller, heartbeat(leader.controller, 102))
        created = await asked(leader.controller, topic("new", 102))
        assert isinstance(created, commands.TopicsCreated)
        assert not created.topics[0].error.code, created
    async with started(new, (2, 3)) as nodes:
        image = (await active(nodes.values())).controller.image
        assert sorted(image.topic_ids) == ["new", "orders"]
        assert image.brokers[102].broker_epoch == registered.broker_epoch


async def test_a_log_behind_a_checkpoint_gives_the_same_image_as_the_whole_log(
    tmp_path: Path,
) -> None:
    whole, late = tmp_path / "whole", tmp_path / "late"
    adopt(whole / "new", *(old(whole, node_id) for node_id in (2, 3)))
    checkpoints = [IN_TREE / CHECKPOINT]
    adopt(
        late / "new",
        old(late, 2, log=rest(CHECKPOINT_END), start=CHECKPOINT_END, checkpoints=checkpoints),
        old(late, 3, log=rest(CHECKPOINT_END), start=CHECKPOINT_END, checkpoints=checkpoints),
    )
    images = []
    for folder in (whole, late):
        async with started(folder / "new", (2, 3)) as nodes:
            leader = await active(nodes.values())
            images.append(leader.controller.image)
            follower = next(node for node in nodes.values() if node is not leader)
            assert follower.opened.log.start == leader.opened.log.start
    assert known(images[0]) == known(images[1])


async def test_the_real_folders_come_up_whichever_log_is_taken(tmp_path: Path) -> None:
    """Controller 3's log begins at 0, controller 4's at 373."""
    adopt(tmp_path / "three", controller(2), controller(3), controller(4))
    images = []
    async with started(tmp_path / "three", (2, 3, 4)) as nodes:
        images.append((await active(nodes.values())).controller.image)
    four = tmp_path / "three" / "controller-4" / "data" / LOG_FOLDER
    for path in [*four.glob("*.log"), *four.glob("*.checkpoint")]:
        path.unlink()
    for path in (controller(4) / LOG_FOLDER).glob("00*"):
        if path.suffix in (".log", ".checkpoint"):
            (four / path.name).write_bytes(path.read_bytes())
    # Alone of its kind it follows the others, from behind its own checkpoint on.
    async with started(tmp_path / "three", (2, 3, 4)) as nodes:
        leader = await active(nodes.values())
        assert nodes[4].opened.log.start == 373
        follower = nodes[4].controller
        while follower.committed < leader.controller.committed:
            await nodes[4].opened.quorum.leader_changed(within_seconds=0.01)
        images.append(follower.image)
    assert known(images[0]) == known(images[1])


async def test_a_node_without_the_checkpoint_that_its_log_needs_does_not_start(
    tmp_path: Path,
) -> None:
    checkpoints = [IN_TREE / CHECKPOINT]
    log = rest(CHECKPOINT_END)
    sources = [old(tmp_path, n, log=log, start=479, checkpoints=checkpoints) for n in (2, 3)]
    adopt(tmp_path / "new", *sources)
    (tmp_path / "new" / "controller-2" / "data" / LOG_FOLDER / CHECKPOINT).unlink()
    with pytest.raises(FileDamaged, match="the log begins at offset 479, and no checkpoint has"):
        async with started(tmp_path / "new", (2, 3)):
            pass


async def test_a_checkpoint_with_a_record_that_is_not_known_is_refused_by_name(
    tmp_path: Path,
) -> None:
    checkpoints = [IN_TREE / CHECKPOINT]
    log = rest(CHECKPOINT_END)
    sources = [old(tmp_path, n, log=log, start=479, checkpoints=checkpoints) for n in (2, 3)]
    adopt(tmp_path / "new", *sources)
    path = tmp_path / "new" / "controller-2" / "data" / LOG_FOLDER / CHECKPOINT
    (tmp_path / "made").mkdir()
    newer = data(bytes((1, 2, 9)))
    made = a_checkpoint(tmp_path / "made", header(), newer, footer(), offset=CHECKPOINT_END)
    made.rename(path)
    with pytest.raises(LogFailure, match=r"ends at offset 479 cannot be read: version 9 of record"):
        async with started(tmp_path / "new", (2, 3)) as nodes:
            await asyncio.wait({nodes[2].running})


async def test_a_node_whose_log_is_empty_behind_its_checkpoint_follows_from_there(
    tmp_path: Path,
) -> None:
    """A controller may be left that has fetched a snapshot, and nothing behind it yet."""
    checkpoints = [IN_TREE / CHECKPOINT]
    log = rest(CHECKPOINT_END)
    sources = [old(tmp_path, n, log=log, start=479, checkpoints=checkpoints) for n in (2, 3)]
    adopt(tmp_path / "new", *sources)
    (path,) = (tmp_path / "new" / "controller-3" / "data" / LOG_FOLDER).glob("*.log")
    path.write_bytes(b"")
    async with started(tmp_path / "new", (2, 3)) as nodes:
        assert str(nodes[3].opened.quorum.node.log_end) == "479@3"
        leader = await active(nodes.values())
        assert leader.node_id == 2
        while nodes[3].controller.committed < leader.controller.committed:
            await nodes[3].opened.quorum.leader_changed(within_seconds=0.01)
        assert known(nodes[3].controller.image) == known(leader.controller.image)
