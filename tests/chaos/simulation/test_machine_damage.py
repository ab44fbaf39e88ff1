"""Damage to a disk explains one failure of a process, and is repaired without loss."""

import os
from pathlib import Path

import pytest

from chaos.simulation.machine import FOLDER, LOG, Machine
from chaos.simulation.profile import Profile
from chaos.simulation.world import World
from quorum.core.vocabulary import ReplicaId
from quorum.log.filesystem import opened
from quorum.ports import LogFailure

ONE = ReplicaId(1)
SNAPSHOT = LOG / "00000000000000000007-0000000001.checkpoint"
DATA = b"a snapshot, as it was written"


@pytest.fixture
def world() -> World:
    return World(Profile.drawn(0))


@pytest.fixture
def machine(world: World) -> Machine:
    machine = world.machines[ONE]
    machine.disk.make_folder(FOLDER)
    machine.disk.make_folder(LOG)
    machine.disk.put(SNAPSHOT, DATA)
    return machine


def damaged(machine: Machine, path: Path = SNAPSHOT) -> bytes:
    machine.turn_over(path, len(DATA) // 2)
    return machine.disk.content(path)


def test_damage_under_a_running_process_is_repaired(machine: Machine) -> None:
    assert damaged(machine) != DATA
    machine.repair_at_work()
    assert machine.disk.content(SNAPSHOT) == DATA
    assert machine.rotten is None


def test_a_file_whose_removal_may_come_undone_stays_known_as_damaged(machine: Machine) -> None:
    with_names_kept(machine)
    damaged(machine)
    machine.disk.remove(SNAPSHOT)
    machine.repair_at_work()
    assert machine.rotten_name == SNAPSHOT.name


def test_a_file_that_is_gone_for_good_is_damaged_no_more(machine: Machine) -> None:
    with_names_kept(machine)
    damaged(machine)
    machine.disk.remove(SNAPSHOT)
    with_names_kept(machine)
    machine.repair_at_work()
    assert machine.rotten is None


def with_names_kept(machine: Machine) -> None:
    """Sync the folders."""
    for folder in (Path("/"), FOLDER, LOG):
        with opened(folder, os.O_RDONLY, machine.disk) as fd:
            machine.disk.fsync(fd)


def test_a_damaged_snapshot_explains_its_own_records_and_nothing_else(machine: Machine) -> None:
    with_names_kept(machine)
    machine.durable.reread(machine.disk)
    failure = LogFailure(f"{SNAPSHOT}: a record cannot be decoded")
    assert not machine.explains(failure)
    damaged(machine)
    assert [*machine.durable.checkpoints] == [SNAPSHOT.name]
    known = machine.durable.checkpoints[SNAPSHOT.name]
    assert machine.explains(LogFailure(f"{known}: a record cannot be decoded"))
    assert not machine.explains(LogFailure("the log: a record cannot be decoded"))


def test_a_disk_that_failed_explains_whatever_follows(machine: Machine) -> None:
    machine.sync_failed = True
    assert machine.explains(LogFailure("no space, no sync, no luck"))


def test_a_replica_that_lives_is_not_started_again(world: World) -> None:
    world.boot(ONE)
    process = world.processes[ONE]
    world.boot(ONE)
    assert world.processes[ONE] is process
