"""The world of one run: starts and ends processes in an environment.

The nemesis decides about faults, and the profile about background fault rates.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from chaos.invariants.disk_format import Checkpoint, StoredBatch
from chaos.invariants.durable_state import Incarnation
from chaos.invariants.epoch_growth import EpochGrowth
from chaos.invariants.snapshots import check_snapshots, check_start
from chaos.network.corruption import WireCorruption
from chaos.simulation.environment import Environment
from chaos.simulation.machine import Machine, VirtualClock
from chaos.simulation.process import Process
from chaos.simulation.profile import CALM, Fault, Profile, Rates
from chaos.simulation.runtime import CoarseRandom
from chaos.violation import Died, Violation
from quorum.core.vocabulary import ReplicaId
from quorum.log.errors import FolderForeign, FolderUnusable, StorageError
from quorum.persistent_state import load_persistent_state

FAREWELL_MS: Final = 300
REPAIRING_MS: Final = 1_000
WAITING_MS_MAX: Final = 2_000
"""The time that a machine stays down after it died by itself."""


class World(Environment):
    """One run's environment, and the processes in it."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.processes: dict[ReplicaId, Process] = {}
        self.directory.processes = self.processes
        rng = self._stream("harms")
        self.corruption = WireCorruption(self.processes, self.network, rng, self.note)
        self.on_vote_kept: Callable[[Process], None] = lambda _: None
        """Called when an epoch or a vote of a process is on its disk, before it speaks of it."""
        self.epoch_growth = EpochGrowth()
        self._boots = 0

    def disturb(self, rates: Rates) -> None:
        """See `Environment`."""
        super().disturb(rates)
        if rates is CALM:
            self.corruption.disarm()

    # --- processes begin and end -------------------------------------------------------------

    def boot(self, replica: ReplicaId) -> None:
        """Start a process on a machine that has none."""
        if replica in self.processes:
            return
        machine = self.machines[replica]
        if machine.partner is not None:
            self._refuse_foreign(machine)
            return
        self.network.dark.discard(replica)
        self._boots += 1
        incarnation = Incarnation(machine.key, self._boots, machine.durable)
        rng = CoarseRandom(machine.rng.getrandbits(64))
        rng.coarse = self.rates.coarse_draws
        drift = self.rates.drift
        machine.clock = VirtualClock(
            self._rng.randrange(100_000), 1 + self._rng.uniform(-drift, drift)
        )
        if machine.upgrades and not machine.is_unreadable:
            machine.upgrade()
            self.note(Fault.UPGRADE)
        before = machine.promised
        try:
            past = load_persistent_state(
                machine.config,
                rng=machine.rng,
                wall_clock=partial(self.wall_ms, machine),
                fs=machine.disk,
            )
            machine.key = past.key
            led = machine.durable.led(replica, machine.disk)
            incarnation = replace(incarnation, key=past.key, led=led)
            process = self._process(machine, incarnation, past, rng)
        except Died:
            self.note("dies in recovery")
            self._lose_power(incarnation, machine)
            return
        except StorageError as error:
            self._refused(replica, incarnation, error)
            return
        machine.check_damage(self.note)
        self._look_again(incarnation, machine, before)
        machine.stopped, machine.dies_after = False, None
        machine.begin()
        self.processes[replica] = process
        self.network.listeners[replica] = process
        self.tell(replica, f"starts: {process}")

    def _refused(self, replica: ReplicaId, incarnation: Incarnation, error: StorageError) -> None:
        """Check that a refused start has a reason, and remedy it."""
        machine = self.machines[replica]
        if isinstance(error, FolderUnusable) and machine.disk.capacity_bytes is not None:
            self.note("does not start on a full disk")
            machine.disk.kill()
            self.boot_soon(replica)
        elif machine.sync_failed:
            self.note("ends because of its disk")
            self._lose_power(incarnation, machine)
        elif machine.rotten is not None:
            if "checkpoint" in str(machine.rotten_name) and machine.durable.can_fall_back:
                raise Violation("R21", f"{replica} has an older snapshot: {error}") from error
            self.note(machine.refusal)
            machine.disk.kill()
            self.timeline.after(REPAIRING_MS, partial(self._repair, replica))
        else:
            raise Violation("R23", f"{replica} does not start: {error}") from error

    def exchange_disks(self, one: ReplicaId, which: int) -> None:
        """Cut the power of this machine and of another one, and start both with exchanged disks."""
        others = [each for each in self.everyone if each in self.processes and each != one]
        if one not in self.processes or not others:
            return
        other = others[which % len(others)]
        machines = self.machines[one], self.machines[other]
        for machine in machines:
            # What is damaged is on its disk, and would be repaired on the other one.
            machine.repair_at_work()
            if machine.rotten is not None:
                return
        for replica in (one, other):
            self.cut_power(replica)
        machines[0].exchange_disks(machines[1])
        for replica in (one, other):
            self.boot(replica)
        self.timeline.after(REPAIRING_MS, partial(self._put_right, one, other))

    def _put_right(self, one: ReplicaId, other: ReplicaId) -> None:
        self.machines[one].put_right()
        for replica in (one, other):
            self.boot_soon(replica)

    def _refuse_foreign(self, machine: Machine) -> None:
        """R23: a replica does not start on the disk of another one, and changes nothing there."""
        machine.revive()
        before = machine.disk.everything()
        try:
            load_persistent_state(machine.config, rng=machine.rng, fs=machine.disk)
        except FolderForeign:
            self.note("refuses the disk of another")
        else:
            raise Violation("R23", f"{machine.key} starts on the disk of {machine.partner}")
        machine.disk.kill()
        if machine.disk.everything() != before:
            raise Violation("R23", f"{machine.key} changes the disk of another one")

    def kill(self, replica: ReplicaId) -> Process | None:
        """End a process; the operating system keeps what it had written."""
        process = self._forget(replica)
        if process is not None:
            process.machine.disk.kill()
            process.machine.revive()
            self.tell(replica, "is killed")
            self.network.hang_up(replica)
            self._look_again(process.incarnation, process.machine, process.machine.durable.batches)
        return process

    def cut_power(self, replica: ReplicaId) -> None:
        """End a process, and lose any part of what was not synced."""
        process = self._forget(replica)
        if process is not None:
            self._lose_power(process.incarnation, process.machine)

    def has_died(self, replica: ReplicaId, in_turn: bool) -> None:
        """See `Environment`."""
        self.note("dies in a turn" if in_turn else "dies in writing")
        if self.machines[replica].dies_alone and not in_turn:
            self.kill(replica)
            self.boot_soon(replica)
        else:
            self.cut_power(replica)

    def has_failed(self, replica: ReplicaId) -> None:
        """See `Environment`.

        The power stayed on: the next process still sees what was lost.
        """
        failed = self.machines[replica].sync_failed
        self.note("ends because of its disk" if failed else "ends because of what it received")
        self.kill(replica)
        self.boot_soon(replica)

    def boot_soon(self, replica: ReplicaId, within_ms: int = WAITING_MS_MAX) -> None:
        """Start it anew before long, unless faults have ended by then."""
        self.timeline.after(self._rng.randrange(1, within_ms), partial(self._boot_again, replica))

    def _repair(self, replica: ReplicaId) -> None:
        if self.disturbed:
            self.machines[replica].repair()
            self.boot(replica)

    def _boot_again(self, replica: ReplicaId) -> None:
        if self.disturbed:
            self.boot(replica)

    def stop(self, replica: ReplicaId) -> None:
        """Stop a process in order: resign, write out, leave."""
        process = self.processes.get(replica)
        if process is None or process.machine.stopped:
            return
        process.machine.stopped = True
        process.enter(process.replica.say_farewell)
        process.later(FAREWELL_MS, partial(self._leave, process))

    def _leave(self, process: Process) -> None:
        """Runs inside: a paused process leaves when it wakes."""
        process.replica.stop()
        process.is_leaving = True
        process.disk_queue.perform(process.log.close, lambda _: self._gone(process))

    def _gone(self, process: Process) -> None:
        self.kill(process.id)
        self.boot_soon(process.id)

    def _forget(self, replica: ReplicaId) -> Process | None:
        process = self.processes.pop(replica, None)
        if process is not None:
            process.is_dead = True
            del self.network.listeners[replica]
        return process

    def _lose_power(self, incarnation: Incarnation, machine: Machine) -> None:
        before = machine.durable.batches
        self.network.dark.add(incarnation.id)
        machine.disk.lose_power(machine.rng)
        machine.revive()
        self._look_again(incarnation, machine, before)
        self.tell(
            incarnation, f"loses power; on its disk: {machine.durable.vote}, {machine.durable.end}"
        )
        self.boot_soon(incarnation.id)

    # --- what is on the disks ----------------------------------------------------------------

    def has_written(self, replica: ReplicaId) -> None:
        """See `Environment`."""
        process = self.processes[replica]
        durable, incarnation = process.machine.durable, process.incarnation
        if durable.read_vote(process.machine.disk):
            self._vote_kept(incarnation)
            self.invariants.count(incarnation)
            self.on_vote_kept(process)
        start, names = durable.start, durable.names
        snapshots = durable.look_at_names(process.machine.disk)
        is_named_anew = durable.names is not names
        if durable.is_another(process.machine.disk):
            self._look_again(incarnation, process.machine, durable.batches)
            return
        self._check_snapshots(incarnation, process.machine, snapshots, start)
        new = durable.read_on()
        if new:
            self.invariants.log_kept(incarnation, new)
        if is_named_anew:
            process.machine.check_times(self.timeline.now_ms, newest=2)
            process.machine.check_times_of_complete()

    def _vote_kept(self, who: Incarnation) -> None:
        self.invariants.vote_kept(who)
        self.epoch_growth.kept(who, self.timeline.now_ms)

    def _look_again(
        self, incarnation: Incarnation, machine: Machine, before: Sequence[StoredBatch]
    ) -> None:
        """Read a disk anew, and check what has changed since `before`."""
        durable = machine.durable
        if machine.is_unreadable:
            return  # Until it is repaired.
        start = durable.start
        self._check_snapshots(incarnation, machine, durable.reread(machine.disk), start)
        self._vote_kept(incarnation)
        self.invariants.log_reread(incarnation, before)
        machine.check_times(self.timeline.now_ms)

    def _check_snapshots(
        self, incarnation: Incarnation, machine: Machine, new: Sequence[Checkpoint], start: int
    ) -> None:
        check_snapshots(incarnation, new, self.invariants.history, damaged=machine.rotten_name)
        if machine.durable.start != start:
            self.note("a log is cut at its start")
            check_start(incarnation, machine.durable, start)

    # --- how it is made ----------------------------------------------------------------------

    def _process(self, *about: Any) -> Process:
        return Process(self, *about)
