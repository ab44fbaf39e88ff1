"""What `quorum.ports.ElectionStore` promises, asked of every implementation."""

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.core.vocabulary import Election, Epoch, ReplicaId, ReplicaKey
from quorum.log.election_file import ElectionFile
from quorum.log.memory import MemoryElectionStore
from quorum.ports import ElectionStore

ELECTIONS = [
    Election(),
    Election(Epoch(1), voted_for=ReplicaKey(ReplicaId(0), UUID(int=3 << 64))),
    Election(Epoch(1), voted_for=ReplicaKey(ReplicaId(2))),
    Election(Epoch(2), leader=ReplicaId(0)),
    Election(
        Epoch(2**31 - 1),
        voted_for=ReplicaKey(ReplicaId(2**31 - 1), UUID(int=2**128 - 1)),
        leader=ReplicaId(7),
    ),
]

Reopen = Callable[[], ElectionStore]


@pytest.fixture(params=["file", "memory", "disk without power"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Gives the store as a process that has just started finds it."""
    kept = MemoryElectionStore()
    disk = VirtualDisk()
    chance = random.Random(1)

    def without_power() -> ElectionStore:
        disk.lose_power(chance)
        return ElectionFile(Path("/"), fs=disk)

    stores: dict[str, Reopen] = {
        "file": lambda: ElectionFile(tmp_path),
        "memory": lambda: kept,
        "disk without power": without_power,
    }
    return stores[request.param]


def test_nothing_was_ever_written_to_a_new_store(reopen: Reopen) -> None:
    assert reopen().read() == Election()


@pytest.mark.parametrize("election", ELECTIONS)
def test_what_was_written_is_read_by_the_next_process(reopen: Reopen, election: Election) -> None:
    reopen().write(election)
    assert reopen().read() == election


def test_the_last_write_counts(reopen: Reopen) -> None:
    store = reopen()
    for election in [*ELECTIONS, *reversed(ELECTIONS)]:
        store.write(election)
        assert store.read() == election
    assert reopen().read() == ELECTIONS[0]
