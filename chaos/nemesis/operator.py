"""The operator of a simulated quorum: replaces lost disks and makes their replicas voters again.

A disk is lost only if the other voters can do without it: docs/quorum.md promises no more. Voters
change only while all replicas are up.
"""

from functools import partial
from typing import Final

from chaos.invariants.durable_state import DurableState
from chaos.invariants.voter_sets import VoterSet, has_majority
from chaos.simulation import clients
from chaos.simulation.machine import Machine
from chaos.simulation.profile import Hostility
from chaos.simulation.world import World
from quorum.core.messages import AddVoterRequest, RemoveVoterRequest, VoterRequest
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId
from quorum.core.voter_set import Endpoint, Voter
from quorum.persistent_state import LISTENER_NAME

DAY_MS: Final = 24 * 60 * 60 * 1_000
LOOKS_EVERY_MS: Final = 400


class Operator:
    """The operator of one world; remembers lost disks until their replicas vote again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: set[ReplicaId] = set()
        """The replicas to make voters again."""

    def lose_disk(self, victim: ReplicaId) -> bool:
        """Lose the whole disk of a replica; False if that might lose records."""
        world = self._world
        if victim not in world.processes or not self._can_do_without(victim):
            return False
        was_voter = any(each.id == victim for each in world.invariants.voter_set.voters)
        world.cut_power(victim)
        world.machines[victim].replace_disk()
        world.invariants.forget(victim)
        world.tell(victim, "has lost its disk")
        if was_voter and victim not in self.waiting:
            self.waiting.add(victim)
            self._look_later(victim)
        return True

    def _can_do_without(self, victim: ReplicaId) -> bool:
        """True if the others are a majority of every possible voter set and know which replica is
        lost.

        A voter that was configured by its id alone gets its directory id written into the log; that
        record must be in the log of every replica that could take part in an election.
        """
        world = self._world
        machines = [each for id_, each in world.machines.items() if id_ != victim]
        if any(each.partner is not None or each.rotten is not None for each in machines):
            return False
        intact = [each.key for each in machines]
        named = [world.invariants.possible_voter_sets, *(m.durable.assigned[-1:] for m in machines)]
        return all(
            each
            and all(
                has_majority(one, intact)
                and all(v.id != victim or v.directory_id != NO_DIRECTORY for v in one.voters)
                for one in each
            )
            for each in named
        )

    def keep_copies(self) -> None:
        """Copy every disk."""
        for machine in self._world.machines.values():
            machine.keep_copy()

    def renew_copies(self) -> None:
        """Copy every disk, replacing earlier copies.

        A damaged snapshot of a running process is repaired first: no copy is made or restored while
        any disk is damaged.
        """
        self.repair_at_work()
        for machine in self._world.machines.values():
            machine.copy = None
        self.keep_copies()

    def repair_at_work(self) -> None:
        """Repair damage under running processes: nothing reads it until the next start, and a
        disk has one damaged place at a time."""
        for replica in self._world.processes:
            self._world.machines[replica].repair_at_work()

    def put_copy_back(
        self, victim: ReplicaId, *, goes_back: bool = False, moves: bool = False
    ) -> bool:
        """Cut the power of a replica and restore the older copy of its disk. If its clock
        `goes_back` as well, neither can tell how often it has booted since; the same copy may be
        used again.

        Return False, after the power loss alone, if the copy is not older or lacks data that
        others do not have: docs/quorum.md promises no more.
        """
        world, machine = self._world, self._world.machines[victim]
        if victim not in world.processes or machine.copy is None:
            return False
        world.cut_power(victim)
        now = machine.durable
        old = now.of_another()
        old.reread(machine.copy)
        is_older = old.end < now.end or old.vote != now.vote
        if not (is_older and (goes_back or machine.boots_later)):
            return False
        if not self._is_free_to_forget(machine, old):
            return False
        if goes_back:
            self._goes_back(machine, moves=moves)
        elif world.profile.hostility is Hostility.ANONYMOUS:
            # A forged advertisement may have raised its boot timestamp above its clock.
            world.directory.invariants.rewinds(machine.key)
        machine.put_copy_back(once=not goes_back)
        world.invariants.forget_since(machine.key, machine.durable.vote)
        world.tell(victim, f"has an older copy of its disk: {machine.durable.vote}, {old.end}")
        world.boot(victim)
        return True

    def _goes_back(self, machine: Machine, *, moves: bool) -> None:
        machine.jump(-DAY_MS)
        self._world.directory.invariants.rewinds(machine.key)
        if moves:
            self._world.move(machine.key.id)

    def _is_free_to_forget(self, machine: Machine, old: DurableState) -> bool:
        """True if enough other disks hold all that it has acknowledged, and its vote cannot be
        requested again.

        Enough is a majority of every voter set that any replica could have used since; all others
        must be in later epochs, or know the leader of its last one.
        """
        others = [each for each in self._world.machines.values() if each is not machine]
        if any(each.partner is not None or each.rotten is not None for each in (machine, *others)):
            return False
        judge, now = self._world.invariants, machine.durable
        epoch = now.vote.epoch
        ballots = [each.durable.vote for each in others]
        if any((b.epoch, b.leader is not None) < (epoch, True) for b in ballots):
            return False
        since = [each for each in judge.history.assigned if each.end > old.end]
        named = [*(old.assigned[-2:] or [judge.voter_sets.first]), *since]
        return self._others_hold(machine, named, old.vote.epoch)

    def can_lose_the_end(self, victim: ReplicaId) -> bool:
        """True if the last batch of its log is in a file and on enough other disks."""
        machine = self._world.machines[victim]
        batches = machine.durable.batches
        if machine.rotten is not None or not batches or batches[-1].base < machine.durable.start:
            return False
        if any(e.partner is not None or e.is_unreadable for e in self._world.machines.values()):
            return False
        return self._others_hold(machine, [], machine.durable.vote.epoch)

    def _others_hold(self, machine: Machine, named: list[VoterSet], epoch: int) -> bool:
        """True if the disks of a majority of the others hold all of its log, by these voters and by
        every other voter set that is possible while it is in this epoch."""
        now, others = (
            machine.durable,
            [e for e in self._world.machines.values() if e is not machine],
        )
        holders = [each.key for each in others if each.durable.holds(now)]
        voter_sets = [*named, *now.assigned[-2:], *self._possible(epoch)]
        return all(has_majority(each, holders) for each in voter_sets)

    def _possible(self, epoch: int) -> list[VoterSet]:
        """The voter sets in use, if no replica is in an earlier epoch than this, or than all are
        now.

        A set that was never committed stops to count once all are in later epochs and no disk has
        it.
        """
        last, *later = self._world.invariants.possible_voter_sets
        disks = [each.durable for each in self._world.machines.values()]
        epoch = min(epoch, *(each.vote.epoch for each in disks))
        kept = {each for durable in disks for each in durable.assigned}
        return [last, *(each for each in later if each.epoch >= epoch or each in kept)]

    def _look_later(self, replica: ReplicaId) -> None:
        self._world.timeline.after(LOOKS_EVERY_MS, partial(self._look, replica))

    def _look(self, replica: ReplicaId) -> None:
        world = self._world
        request = self._next_step(replica)
        if request is None:
            self.waiting.discard(replica)
            world.note("votes again after its disk was lost")
            return
        if len(world.processes) == len(world.everyone):
            any(clients.want_voters(each, request) for each in [*world.processes.values()])
        self._look_later(replica)

    def _next_step(self, replica: ReplicaId) -> VoterRequest | None:
        """Remove the lost voter first, then add the replica on the new disk."""
        world = self._world
        key = world.machines[replica].key
        timeout_ms = world.profile.timeouts.request_timeout_ms
        for voter in world.invariants.voter_set.voters:
            if voter == key:
                return None
            if voter.id == replica:
                return RemoveVoterRequest(voter=voter, timeout_ms=timeout_ms)
        place = Endpoint(LISTENER_NAME, *world.directory.address_of(replica))
        return AddVoterRequest(voter=Voter(key, (place,)), timeout_ms=timeout_ms)
