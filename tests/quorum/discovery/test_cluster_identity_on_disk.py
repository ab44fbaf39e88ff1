"""The cluster id on disk: `meta.properties`, and its conflicts."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.bootstrap import cluster_of
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.ports import DiskFull, Log

T = TypeVar("T")
FOLDER = Path("/node")


class AtOnce:
    """A disk's thread without a thread."""

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        raise AssertionError("there is no log")

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        done(work())


def test_an_id_that_there_is_no_room_for_is_waited_with_and_does_not_end_the_node() -> None:
    disk = VirtualDisk()
    load_or_create(FOLDER, None, ReplicaId(1), rng=random.Random(1), fs=disk)
    cluster = cluster_of(
        QuorumStateFile(FOLDER, cluster_id=None, fs=disk),
        ReplicaId(1),
        folder=FOLDER,
        disk=AtOnce(),
        rng=random.Random(2),
        fs=disk,
    )
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull, match="No space left"):
        cluster.learn("4L6g3nShT-eMCtK--X86sw")
    assert cluster.id is None
