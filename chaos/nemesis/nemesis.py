"""Execution of the strikes of a profile, one method for each group of faults.

The profile fixes the fault, time and victim of each strike: a run without one strike is otherwise
the same run. A fault is counted when it takes effect, which may be later than the strike.
"""

from functools import partial
from typing import Final, assert_never
from uuid import UUID

from chaos.nemesis.disk_damage import damage
from chaos.nemesis.operator import Operator
from chaos.nemesis.removed_voters import Departure
from chaos.network.virtual_network import Packet
from chaos.simulation import clients
from chaos.simulation.process import Process
from chaos.simulation.profile import ON_THE_WIRE, Fault, Strike
from chaos.simulation.world import World
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    Request,
    VoterRequest,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter
from quorum.persistent_state import LISTENER_NAME

CLOG_MS_MAX: Final = 5_000
OUSTED_MS_MIN: Final = 500
OUSTED_MS_MAX: Final = 4_000
FAULTY_TIMEOUTS: Final = 4
"""The time for which a leader is faulty, in fetch time-outs: its followers leave it after 1.25."""
PAUSE_MS_MAX: Final = 8_000
SLOW_MS_MAX: Final = 6_000
FULL_MS_MAX: Final = 8_000
FULL_MS_MIN: Final = 1_000
FULL_BYTES_MAX: Final = 100
ACTIONS_MAX: Final = 25
OPERATIONS_MAX: Final = 12
RECOVERY_OPERATIONS_MAX: Final = 3
WISH_EVERY_MS: Final = 100
ROLL_EVERY_MS: Final = 700


class Nemesis:
    """The executor of the faults of one world."""

    def __init__(self, world: World, operator: Operator) -> None:
        self._world = world
        self._operator = operator

    def begin(self, strikes: tuple[Strike, ...]) -> None:
        """Schedule these strikes."""
        if any(each.fault in (Fault.OLD_COPY, Fault.PAST) for each in strikes):
            self._operator.keep_copies()
        for strike in strikes:
            self._world.timeline.after(strike.at_ms, partial(self._strike, strike))

    def _strike(self, strike: Strike) -> None:
        world = self._world
        if not world.disturbed:
            return
        victim = self._victim(strike)
        world.tell("nemesis", f"{victim}: {strike.fault} ({strike.size})")
        match strike.fault:
            case Fault.HEAL | Fault.SPLIT | Fault.ISOLATE | Fault.DEAF | Fault.MUTE | Fault.RING:
                self._cut(strike, victim)
            case (
                Fault.CLOG
                | Fault.RESET
                | Fault.MISLEAD
                | Fault.OUST
                | Fault.DEPART
                | Fault.FAULTY
                | Fault.CUT_CALL
                | Fault.GARBLED
                | Fault.OVERSIZED
                | Fault.FLIPPED
                | Fault.ASTRAY
                | Fault.ASKED_FROM_ABROAD
            ):
                self._disturb_links(strike, victim)
            case (
                Fault.KILL
                | Fault.POWER
                | Fault.BLACKOUT
                | Fault.STOP
                | Fault.MOVE
                | Fault.ROLL
                | Fault.UPGRADE
                | Fault.PAUSE
            ):
                self._end(strike, victim)
            case Fault.DIES_IN_TURN | Fault.DIES_IN_WRITING | Fault.DIES_IN_RECOVERY:
                self._arm(strike, victim)
            case Fault.SLOW_DISK | Fault.FULL_DISK | Fault.FSYNC_FAILS | Fault.CLOCK_JUMP:
                self._spoil(strike, victim)
            case (
                Fault.ROT
                | Fault.ROT_SNAPSHOT
                | Fault.MISDIRECTED
                | Fault.LOST_DISK
                | Fault.OLD_COPY
                | Fault.PAST
                | Fault.EXCHANGED
            ):
                self._damage(strike, victim)
            case (
                Fault.ROT_AT_END
                | Fault.STRAY_INTO_VOTE
                | Fault.STRAY_INTO_SNAPSHOT
                | Fault.STRAY_INTO_TIMES
            ):
                damage(world, self._operator, victim, strike.fault, strike.size)
            case Fault.ALTER | Fault.ADD | Fault.REMOVE | Fault.TRANSFER | Fault.FLOOD:
                self._want(strike, victim)
            case _:
                assert_never(strike.fault)

    def _victim(self, strike: Strike) -> ReplicaId:
        """Return the victim of a strike, or the next running replica. A strike at the leader hits
        the leader only while one is known."""
        world = self._world
        everyone, leader = world.everyone, world.invariants.leader
        if strike.victim is None and leader in world.processes:
            assert leader is not None
            return leader
        place = strike.size if strike.victim is None else strike.victim
        places = [(place + step) % len(everyone) for step in range(len(everyone))]
        living = [everyone[each] for each in places if everyone[each] in world.processes]
        return living[0] if living else everyone[places[0]]

    # --- the network -------------------------------------------------------------------------

    def _cut(self, strike: Strike, victim: ReplicaId) -> None:
        everyone = self._world.everyone
        if strike.fault is Fault.HEAL:
            self._world.network.heal()
            self._world.note(Fault.HEAL)
            return
        match strike.fault:
            case Fault.SPLIT:
                here = {victim, *(r for at, r in enumerate(everyone) if strike.size >> at & 1)}
                here = here if len(here) < len(everyone) else {victim}
                links = _between(here, set(everyone) - here)
            case Fault.RING:
                links = self._ring()
            case Fault.ISOLATE:
                links = _between({victim}, set(everyone) - {victim})
            case Fault.DEAF:
                links = {(each, victim) for each in everyone if each != victim}
            case _:
                links = {(victim, each) for each in everyone if each != victim}
        if links:
            self._world.note(strike.fault)
            self._world.network.cut(links)

    def _ring(self) -> set[tuple[ReplicaId, ReplicaId]]:
        """Let each replica reach only its two neighbours."""
        voters = self._world.voters
        count = len(voters)
        return {
            (a, b)
            for at, a in enumerate(voters)
            for to, b in enumerate(voters)
            if (at - to) % count not in (0, 1, count - 1)
        }

    def _disturb_links(self, strike: Strike, victim: ReplicaId) -> None:
        world = self._world
        if strike.fault is Fault.OUST:
            self._oust(strike)
            return
        if strike.fault is Fault.DEPART:
            Departure(world, strike.size, self._operator.lose_disk).begin()
            return
        if strike.fault is Fault.ASKED_FROM_ABROAD:
            self._ask_from_abroad(strike, victim)
            return
        if strike.fault is Fault.FAULTY:
            self._turn_faulty(strike, victim)
            return
        if strike.fault in ON_THE_WIRE:
            world.corruption.arm(victim, strike.fault)
            return
        if strike.fault is Fault.RESET:
            process = world.processes.get(victim)
            if process is not None and process.break_connections():
                world.note(Fault.RESET)
            return
        if strike.fault is Fault.MISLEAD:
            # With the leader as victim, all other replicas lose their connections to it.
            misled = world.everyone if strike.victim is None else [victim]
            found = [world.processes[each] for each in misled if each in world.processes]
            if sum(each.mislead() for each in found):
                world.note(Fault.MISLEAD)
            return
        world.note(Fault.CLOG)
        world.network.clog(victim)
        held_ms = 1 + strike.size * CLOG_MS_MAX // 1_000
        world.timeline.after(held_ms, partial(world.network.unclog, victim))

    def _ask_from_abroad(self, strike: Strike, victim: ReplicaId) -> None:
        world, process = self._world, self._world.processes.get(victim)
        if process is not None:
            others = [each for each in world.everyone if each != victim]
            other = world.machines[others[strike.size % len(others)]].key
            process.enter(partial(world.corruption.ask_from_abroad, process, other))

    def _turn_faulty(self, strike: Strike, victim: ReplicaId) -> None:
        """Let the leader send all others, or some, only what they must refuse."""
        world, places = self._world, strike.size if strike.size % 2 else -1
        followers = [each for at, each in enumerate(world.everyone) if places >> at & 1]
        world.corruption.turn_faulty(victim, followers)
        faulty_ms = FAULTY_TIMEOUTS * world.profile.timeouts.fetch_timeout_ms
        world.timeline.after(faulty_ms, partial(world.corruption.turn_right, victim, followers))

    def _oust(self, strike: Strike) -> None:
        """Depose the leader without its knowledge: its reads may be stale."""
        world, leader = self._world, self._world.invariants.leader
        if leader not in world.processes:
            return
        assert leader is not None
        links = _between({leader}, set(world.everyone) - {leader})
        world.network.cut(links)
        ousted_ms = OUSTED_MS_MIN + strike.size * OUSTED_MS_MAX // 1_000
        world.timeline.after(ousted_ms, partial(world.network.mend, links))
        others = [each for each in world.processes.values() if each.id != leader]
        if sum(each.mislead() for each in others):
            world.note(Fault.OUST)

    # --- processes ---------------------------------------------------------------------------

    def _end(self, strike: Strike, victim: ReplicaId) -> None:
        world = self._world
        match strike.fault:
            case Fault.UPGRADE:
                for at, replica in enumerate(world.everyone):
                    world.timeline.after(at * ROLL_EVERY_MS, partial(self._upgrade, replica))
                return
            case Fault.BLACKOUT | Fault.ROLL:
                world.note(strike.fault)
                self._end_all(strike.fault)
                return
            case _ if victim not in world.processes:
                return
            case Fault.KILL:
                world.kill(victim)
                world.boot_soon(victim)
            case Fault.POWER:
                world.cut_power(victim)
            case Fault.MOVE:
                world.move(victim)
                world.cut_power(victim)
            case Fault.STOP:
                world.stop(victim)
            case _:
                self._pause(strike, world.processes[victim])
        world.note(strike.fault)

    def _end_all(self, fault: Fault) -> None:
        world = self._world
        for at, replica in enumerate(world.everyone):
            if fault is Fault.BLACKOUT:
                world.cut_power(replica)
            else:
                world.timeline.after(at * ROLL_EVERY_MS, partial(self._roll, replica))

    def _roll(self, replica: ReplicaId) -> None:
        if self._world.disturbed:
            self._world.stop(replica)

    def _upgrade(self, replica: ReplicaId) -> None:
        machine = self._world.machines[replica]
        machine.upgrades = machine.is_old
        self._roll(replica)

    def _pause(self, strike: Strike, process: Process) -> None:
        process.pause()
        paused_ms = 1 + strike.size * PAUSE_MS_MAX // 1_000
        self._world.timeline.after(paused_ms, process.wake_up)

    def _arm(self, strike: Strike, victim: ReplicaId) -> None:
        """Schedule the death of a process at a chosen moment; the world counts it."""
        world = self._world
        process, machine = world.processes.get(victim), world.machines[victim]
        match strike.fault:
            case Fault.DIES_IN_TURN:
                if process is not None:
                    process.dies_in = strike.size % ACTIONS_MAX
            case Fault.DIES_IN_WRITING:
                if process is not None:
                    machine.dies_after = strike.size // 2 % OPERATIONS_MAX
                    machine.dies_alone = strike.size % 2 == 0
            case _:
                world.cut_power(victim)
                machine.dies_after = strike.size % RECOVERY_OPERATIONS_MAX

    def _want(self, strike: Strike, victim: ReplicaId) -> None:
        """Send the request of a strike to a leader; retry until there is one."""
        world = self._world
        if strike.fault is Fault.FLOOD and not world.disturbed:
            return
        leading = [each for each in world.processes.values() if each.serves]
        if any(self._is_heard(strike, victim, each) for each in leading):
            world.note(strike.fault)
        else:
            world.timeline.after(WISH_EVERY_MS, partial(self._want, strike, victim))

    def _is_heard(self, strike: Strike, victim: ReplicaId, process: Process) -> bool:
        if strike.fault is Fault.FLOOD:
            return flood(process)
        if strike.fault is Fault.TRANSFER:
            return clients.want_leader(process, None if strike.victim is None else victim)
        return clients.want_voters(process, self._wish(strike, victim))

    def _wish(self, strike: Strike, victim: ReplicaId) -> VoterRequest:
        """The voter request of a strike. An alter names all replicas whose bit is set; none cancels
        a change."""
        world = self._world
        timeout_ms = world.profile.timeouts.request_timeout_ms
        key = world.machines[victim].key
        match strike.fault:
            case Fault.ADD:
                return AddVoterRequest(
                    voter=Voter(
                        key, (Endpoint(LISTENER_NAME, *world.directory.address_of(victim)),)
                    ),
                    timeout_ms=timeout_ms,
                    ack_when_committed=strike.size % 2 == 0,
                )
            case Fault.REMOVE:
                return RemoveVoterRequest(voter=key, timeout_ms=timeout_ms)
            case _:
                named = (r for at, r in enumerate(world.everyone) if strike.size >> at & 1)
                target = tuple(map(ReplicaKey, named)) or None
                return AlterQuorumRequest(target=target, timeout_ms=timeout_ms)

    # --- disks and clocks --------------------------------------------------------------------

    def _spoil(self, strike: Strike, victim: ReplicaId) -> None:
        world = self._world
        machine = world.machines[victim]
        match strike.fault:
            case Fault.SLOW_DISK:
                machine.slow_until_ms = world.timeline.now_ms + strike.size * SLOW_MS_MAX // 1_000
            case Fault.FULL_DISK:
                disk, machine.is_at_fault = machine.disk, True
                disk.hold(disk.used_bytes + strike.size % FULL_BYTES_MAX)
                full_ms = FULL_MS_MIN + strike.size * FULL_MS_MAX // 1_000
                # The limit belongs to this disk, which may be in another machine by then.
                world.timeline.after(full_ms, partial(disk.hold, None))
            case Fault.FSYNC_FAILS:
                machine.sync_fails = True
            case _:
                world.note(Fault.CLOCK_JUMP)
                machine.jump((strike.size - 500) * 100_000)

    def _damage(self, strike: Strike, victim: ReplicaId) -> None:
        """Damage the contents of a disk, or exchange it with another one."""
        world = self._world
        machine = world.machines[victim]
        match strike.fault:
            case Fault.ROT:
                world.cut_power(victim)
                machine.rot()
            case Fault.LOST_DISK:
                if self._operator.lose_disk(victim):
                    world.note(Fault.LOST_DISK)
            case Fault.OLD_COPY | Fault.PAST:
                goes_back, moves = strike.fault is Fault.PAST, strike.size % 2 == 0
                if self._operator.put_copy_back(victim, goes_back=goes_back, moves=moves):
                    world.note(strike.fault)
                self._operator.keep_copies()
            case Fault.MISDIRECTED:
                world.cut_power(victim)
                if machine.misdirect():
                    world.note(Fault.MISDIRECTED)
            case Fault.ROT_SNAPSHOT:
                if victim in world.processes and machine.rot_snapshot() and strike.size % 3:
                    world.cut_power(victim)
            case _:
                world.exchange_disks(victim, strike.size)


def _between(here: set[ReplicaId], there: set[ReplicaId]) -> set[tuple[ReplicaId, ReplicaId]]:
    return {link for a in here for b in there for link in ((a, b), (b, a))}


STRANGERS: Final = range(500, 540)
"""Replica ids that fetch records but have no process."""
UNKNOWN: Final = ReplicaId(700)
"""A requested voter that never starts."""
TIMES: Final = 3
"""The factor by which requests exceed the bounds."""
FETCH_WAIT_MS: Final = 100
LOOKS_MS: Final = (5, 20, 100)
VALUE: Final = b"7 flood"


def flood(process: Process) -> bool:
    """Overload the leader with requests; return False if the overload kills it."""
    bounds = process.world.profile.bounds
    for _ in range(TIMES * bounds.reads):
        clients.read(process)
    for number in range(TIMES * bounds.voter_requests):
        key = ReplicaKey(UNKNOWN, UUID(int=number + 1))
        voter = Voter(key, (Endpoint(LISTENER_NAME, "nowhere", 1),))
        timeout_ms = process.world.profile.timeouts.request_timeout_ms
        clients.want_voters(process, AddVoterRequest(voter=voter, timeout_ms=timeout_ms))
    # For every other seed the records are so large that the byte limit applies first.
    value = VALUE.ljust(2 * bounds.uncommitted_bytes // bounds.uncommitted_records, b".")
    own = process.world.own_client
    for _ in range(TIMES * bounds.uncommitted_records):
        ours = [VALUE if process.world.profile.seed % 2 else value]
        clients.propose(process, ours if own is None else own.records(1))
    for number in STRANGERS:
        for request in _of_stranger(process, ReplicaKey(ReplicaId(number))):
            process.world.network.post(Packet(ReplicaId(number), process.id, 0, 0, request))
    for _ in range(TIMES * bounds.transfer_askers):
        clients.want_leader(process, None)
    for after_ms in LOOKS_MS:
        process.later(after_ms, partial(_look, process))
    return not process.is_dead


def _look(process: Process) -> None:
    """Check the number of observers in the leader's own report."""
    node = process.replica.node
    others = (each for each in node.replicas() if each.replica != node.me)
    process.queues.remembers(sum(each.voter is None for each in others))


def _of_stranger(process: Process, me: ReplicaKey) -> tuple[Request, ...]:
    """The requests of an unknown replica that has everything committed: two fetches, one
    snapshot."""
    history, epoch = process.world.invariants.history, Epoch(process.machine.durable.vote.epoch)
    end = OffsetAndEpoch(Epoch(history.epoch_before(history.end)), Offset(history.end))
    fetch = FetchRequest(
        replica=me, epoch=epoch, log_end=end, max_wait_ms=FETCH_WAIT_MS, max_bytes=1
    )
    part = FetchSnapshotRequest(replica=me, epoch=epoch, snapshot=end, position=0, max_bytes=1)
    return fetch, part, fetch
