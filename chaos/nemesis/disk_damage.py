"""Damage to a disk beyond the middle of its log: the last batch, the vote, snapshots, indexes.

A bit of the last batch flips long after it was synced, or a write to the log is misdirected into
another file. `docs/chaos.md` states the required outcomes.
"""

from typing import Final

from chaos.disk.virtual_disk import VirtualDisk
from chaos.invariants.append_times import SUFFIX
from chaos.nemesis.operator import Operator
from chaos.simulation.machine import COVERED_FROM, LOG, QUORUM_STATE, Machine
from chaos.simulation.profile import Fault
from chaos.simulation.world import World
from quorum.core.vocabulary import ReplicaId

VOTE: Final = LOG / QUORUM_STATE
RECEIVED: Final = ".received.part"


def damage(world: World, operator: Operator, victim: ReplicaId, fault: Fault, size: int) -> None:
    """Damage the disk of a replica, unless a crash could leave the same bytes."""
    machine = world.machines[victim]
    if victim not in world.processes or machine.rotten is not None or machine.partner is not None:
        return
    match fault:
        case Fault.ROT_AT_END:
            _rot_somewhere(world, operator, victim)
        case Fault.STRAY_INTO_VOTE:
            world.cut_power(victim)
            if _overwrite_vote(machine):
                world.boot(victim)
        case Fault.STRAY_INTO_SNAPSHOT:
            _stray_into_snapshot(world, victim, dies=size % 3 > 0)
        case _:
            if _overwrite_times(machine):
                world.note(fault)
                if size % 2:
                    world.cut_power(victim)


def _from(world: World, victim: ReplicaId) -> list[ReplicaId]:
    """The victim, then the other running replicas."""
    place = world.everyone.index(victim)
    ordered = (*world.everyone[place:], *world.everyone[:place])
    return [each for each in ordered if each in world.processes]


def _stray_into_snapshot(world: World, victim: ReplicaId, *, dies: bool) -> None:
    """Damage a snapshot of the victim, or of the next replica that has one."""
    for each in _from(world, victim):
        machine = world.machines[each]
        if machine.rotten is None and machine.partner is None and _overwrite_snapshot(machine):
            world.note(Fault.STRAY_INTO_SNAPSHOT)
            if dies:
                world.cut_power(each)
            return


def _rot_somewhere(world: World, operator: Operator, victim: ReplicaId) -> None:
    """Damage the last batch of the victim, or of the next replica that may lose it."""
    able = [each for each in _from(world, victim) if operator.can_lose_the_end(each)]
    if able:
        world.cut_power(able[0])
        if operator.can_lose_the_end(able[0]):
            _rot_at_end(world.machines[able[0]])
            world.note(Fault.ROT_AT_END)
            world.boot(able[0])


def _rot_at_end(machine: Machine) -> None:
    """Flip a bit of the last batch, which then resembles a torn write."""
    last = machine.durable.batches[-1]
    path, at = machine.durable.place_of(last, machine.disk)
    machine.turn_over(path, at + machine.rng.randrange(COVERED_FROM, len(last.data)))
    machine.rots_at_end = True


def _stray(machine: Machine, size_bytes: int) -> tuple[int, bytes] | None:
    """The position and bytes of a misdirected copy of the last log write, in a file of this
    length."""
    if not machine.durable.batches or size_bytes < 1:
        return None
    position = machine.rng.randrange(size_bytes)
    return position, machine.durable.batches[-1].data[: size_bytes - position]


def _overwrite_vote(machine: Machine) -> bool:
    if not machine.durable.vote.epoch or not machine.disk.exists(VOTE):
        return False
    stray = _stray(machine, machine.disk.size(VOTE))
    if stray is None:
        return False
    machine.rotten = (VOTE, stray[0], machine.disk.overwrite(VOTE, *stray))
    return True


def _overwrite_snapshot(machine: Machine) -> bool:
    """Damage a snapshot that is being received, or the newest one."""
    disk = machine.disk
    received = [name for name in disk.names(LOG) if name.endswith(RECEIVED)]
    if received:
        path = LOG / received[0]
        stray = _stray(machine, disk.size(path))
        if stray is not None:
            disk.scribble(path, *stray)
        return stray is not None
    newest = machine.durable.newest
    if newest is None or not disk.exists(LOG / newest.name):
        return False
    path = LOG / newest.name
    stray = _stray(machine, disk.size(path))
    if stray is None:
        return False
    machine.rotten = (path, stray[0], disk.overwrite(path, *stray))
    machine.spoiled.add(newest.name)
    return True


def _overwrite_times(machine: Machine) -> bool:
    """Damage the index of any segment; nothing depends on it, and sound entries stay valid."""
    names = sorted(_durable_indexes(machine.disk))
    if not names:
        return False
    name = names[machine.rng.randrange(len(names))]
    stray = _stray(machine, machine.disk.size(LOG / name))
    if stray is None:
        return False
    machine.disk.scribble(LOG / name, *stray)
    machine.times_spoiled.add(name)
    return True


def _durable_indexes(disk: VirtualDisk) -> list[str]:
    return [name for name in disk.names(LOG) if name.endswith(SUFFIX)]
