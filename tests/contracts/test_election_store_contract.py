"""The contract of `quorum.ports.ElectionStore`, for every implementation."""

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId, ReplicaKey
from quorum.log.quorum_state import QuorumStateFile
from quorum.ports import ElectionStore
from tests.support.memory_storage import MemoryElectionStore

ELECTIONS = [
    ElectionState(),
    ElectionState(Epoch(1), voted_for=ReplicaKey(ReplicaId(0), UUID(int=3 << 64))),
    ElectionState(Epoch(1), voted_for=ReplicaKey(ReplicaId(2))),
    ElectionState(Epoch(2), leader=ReplicaId(0)),
    ElectionState(
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
        return QuorumStateFile(Path("/"), fs=disk)

    stores: dict[str, Reopen] = {
        "file": lambda: QuorumStateFile(tmp_path),
        "memory": lambda: kept,
        "disk without power": without_power,
    }
    return stores[request.param]


def test_nothing_was_ever_written_to_a_new_store(reopen: Reopen) -> None:
    assert reopen().read() == ElectionState()


@pytest.mark.parametrize("election", ELECTIONS)
def test_the_next_process_reads_the_election_that_was_written(
    reopen: Reopen, election: ElectionState
) -> None:
    reopen().write(election)
    assert reopen().read() == election


def test_the_last_write_counts(reopen: Reopen) -> None:
    store = reopen()
    for election in [*ELECTIONS, *reversed(ELECTIONS)]:
        store.write(election)
        assert store.read() == election
    assert reopen().read() == ELECTIONS[0]
