"""Controllers on disks that fill up: real processes, each with a small file system of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from admin.client.admin_client import AdminClient, AdminError
from tests.process.disks_of_voters import IDS, Controllers, controllers

pytestmark = pytest.mark.process

DISK_BYTES: Final = 2 * 1024 * 1024
REFUSED_MS: Final = 2_000
"""The timeout of a client whose requests are refused all the time."""
EARLY: Final = range(1, 11)
LATE: Final = range(11, 211)
"""More than what finds room in the blocks that the log has on a full disk already."""


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own in this folder; the test is skipped where that is not allowed."""
    folder.mkdir(parents=True)
    options = f"size={DISK_BYTES}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        pytest.skip("there is no mount on this machine")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=10)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Path]:
    """A folder for a cluster whose nodes have small disks."""
    folder = tmp_path / "cluster"
    with ExitStack() as stack:
        for id in IDS:
            stack.enter_context(small_disk(folder / f"node-{id}" / "data"))
        yield folder


def ballast(cluster: Controllers, id: int) -> Path:
    return cluster.nodes.data(id) / "ballast"


def fill(cluster: Controllers, id: int) -> None:
    """Leave no room at all on the disk of this node."""
    with suppress(OSError), ballast(cluster, id).open("wb", buffering=0) as file:
        while file.write(bytes(1024)):
            pass
    with suppress(OSError), ballast(cluster, id).open("ab", buffering=0) as file:
        while file.write(b"x"):
            pass


async def test_a_leader_whose_disk_is_full_hands_over_and_comes_back_with_nothing_lost(
    disks: Path,
) -> None:
    async with controllers(disks) as cluster:
        await cluster.write(*EARLY)
        full = (await cluster.led()).leader_id
        fill(cluster, full)
        await cluster.write(*LATE)
        leader = (await cluster.led()).leader_id
        assert leader != full
        assert "no room is left on its disk" in cluster.nodes.said(full)
        assert await cluster.lost(*EARLY, *LATE) == []
        ballast(cluster, full).unlink()
        await cluster.until_voters_have_caught_up()
        assert await cluster.lost(*EARLY, *LATE) == []
        cluster.nodes.check()


async def test_a_cluster_whose_disks_are_all_full_refuses_and_goes_on_when_there_is_room(
    disks: Path,
) -> None:
    async with controllers(disks) as cluster:
        await cluster.write(*EARLY)
        for id in IDS:
            fill(cluster, id)
        addresses = [cluster.nodes.network.listener_of(id) for id in IDS]
        async with AdminClient(addresses, is_controller=True, timeout_ms=REFUSED_MS) as hasty:
            with pytest.raises(AdminError):
                await replace(cluster, client=hasty).write(*LATE)
        for id in IDS:
            ballast(cluster, id).unlink()
        await cluster.until_voters_have_caught_up()
        await cluster.write(*LATE)
        assert await cluster.lost(*EARLY, *LATE) == []
        assert all("no room" in cluster.nodes.said(id) for id in IDS)
        cluster.nodes.check()
