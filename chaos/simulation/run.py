"""One run: warm-up, faults, a healed majority, then all healed; checked throughout.

The same profile gives the same run, event for event. `chaos.outcome` describes a failing run, and
`chaos.shrink` finds a smaller one.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from chaos.hostile.node import HostileNode
from chaos.invariants.history import CLOSES, OPENS
from chaos.invariants.orphaned_files import check_orphaned_files
from chaos.invariants.voter_sets import has_majority
from chaos.nemesis.nemesis import WISH_EVERY_MS, Nemesis
from chaos.nemesis.operator import Operator
from chaos.simulation import clients
from chaos.simulation.process import Process
from chaos.simulation.profile import (
    CALM,
    FAULTS_MS,
    NEARLY_CALM,
    WISHES,
    Fault,
    Hostility,
    Profile,
    Strike,
)
from chaos.simulation.world import World
from chaos.violation import HarnessError, Violation
from quorum.core.vocabulary import ReplicaId

HEALING_MS_MAX: Final = 60_000
"""A node with complete discovery queries another node every ten seconds."""
VISIT_EVERY_MS: Final = 2_000
CUT_OFF_MS: Final = 3_000
COMMITS_WARM: Final = 4
COMMITS_HEALED: Final = 4
ELECTION_EVERY_MS: Final = 3_000
WITHSTANDS_MS: Final = 8_000
"""For so long a quorum with nothing but a hostile node must keep its leader."""
TRIES_MAX: Final = 15
TRY_MS: Final = 1_000
READ_MS_MAX: Final = (100, 400, 10_000)
"""Clients read at random intervals up to one of these."""
RECORDS_QUICKLY: Final = 200
"""A log with this number of records grows half as fast, with twice the number a third as fast, and
so on."""
COMMITTED_MIN: Final = 10
"""The smallest number of committed records in a valid run."""

FIRED_AS: Final = {
    Fault.DIES_IN_TURN: "dies in a turn",
    Fault.DIES_IN_WRITING: "dies in writing",
    Fault.DIES_IN_RECOVERY: "dies in recovery",
    Fault.SLOW_DISK: "a disk is slow",
    Fault.ROT: "refuses a disk that is damaged",
    Fault.STRAY_INTO_VOTE: "refuses a vote that is damaged",
    Fault.EXCHANGED: "refuses the disk of another",
    Fault.ROT_SNAPSHOT: "goes back to what is older than its newest snapshot",
    Fault.FULL_DISK: "a disk has no room",
    Fault.FSYNC_FAILS: "ends because of its disk",
}
"""The event that counts as the effect of a strike, if the effect is later than the strike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run that passed."""

    trace_hash: str
    committed: int
    virtual_ms: int
    counts: Counter[str]
    roles: Counter[str]
    """The number of turns of nodes in each role."""


class Simulation:
    """The run of one profile; a failure is raised, and `world` then has the trace."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.world = self._world(profile)
        self.operator = Operator(self.world)
        self._rng = random.Random(f"{profile.seed}/workload")
        self._reads = random.Random(f"{profile.seed}/reads")
        self._transactions = random.Random(f"{profile.seed}/transactions")
        self._hostile = self._hostile_node(random.Random(f"{profile.seed}/hostile"))
        self._proposing = True
        self._words = 0

    def _world(self, profile: Profile) -> World:
        return World(profile)

    def _hostile_node(self, rng: random.Random) -> HostileNode:
        return HostileNode(self.world, self.profile.hostility, rng)

    def run(self) -> Report:
        """Run all phases; raises `Violation` or `HarnessError`."""
        with self.world.cross_node.regressions.listening():
            return self._run()

    def _run(self) -> Report:
        world = self.world
        first = world.everyone[:-1] if self.profile.is_late else world.everyone
        for replica in first:
            world.boot(replica)
        if self.profile.is_visited:
            self._visit_again()
        if self.profile.hostility is not Hostility.NONE:
            self._hostile.begin()
        self._propose_again()
        self._read_again()
        world.on_told = self._read_of_others
        self._commit_more(COMMITS_WARM, "a new cluster commits nothing")
        if self.profile.is_late:
            self._start_late(world.everyone[-1])
        self._disturb()
        self._heal_majority()
        self._commit_more(COMMITS_HEALED, "a majority that is healed commits nothing")
        world.tell("all", "are healed")
        for replica in world.everyone:
            world.boot(replica)
        self._commit_more(COMMITS_HEALED, "a cluster that is healed commits nothing")
        world.timeline.after(ELECTION_EVERY_MS, partial(self._bring_epoch, frozenset()))
        # Give pending voter requests the time to reach a leader.
        self._pass(2 * WISH_EVERY_MS)
        if not WISHES.isdisjoint(self._silent()):
            # The leader just changed, and no replica served.
            self._reach(lambda: WISHES.isdisjoint(self._silent()), "nobody hears of a wish")
        if self.profile.hostility is not Hostility.NONE:
            self._withstand()
        self._proposing = False
        if Fault.PAST in self.profile.faults:
            self._reach(world.directory.finds_everyone, "not everybody is known to be where he is")
        self._reach(self._has_converged, "the logs do not converge")
        for machine in world.machines.values():
            machine.check_times_are_whole()
        self._start_once_more()
        self._check_harness()
        return Report(
            trace_hash=world.trace.trace_hash,
            committed=world.invariants.committed_end,
            virtual_ms=world.timeline.now_ms,
            counts=world.trace.counts,
            roles=Counter({each.__name__: n for each, n in world.trace.roles.items()}),
        )

    def _withstand(self) -> None:
        """R32: a hostile node alone brings about no election, and the quorum commits."""
        world = self.world
        self._reach(self._is_steady, "not everybody follows the leader")
        self._pass(world.profile.timeouts.fetch_timeout_ms)
        self._reach(self._is_steady, "the leader changes without end")
        epoch = world.epoch_growth.highest
        self._hostile.is_steady = True
        self._pass(WITHSTANDS_MS)
        self._hostile.end()
        if world.epoch_growth.highest != epoch:
            now = world.epoch_growth.highest
            raise Violation("R32", f"a hostile node raises the epoch from {epoch} to {now}")
        self._commit_more(COMMITS_HEALED, "a hostile node keeps the quorum from commits")

    def _bring_epoch(self, ahead_before: frozenset[ReplicaId]) -> None:
        """Elect anew if replicas that the leader's log does not name stay in a higher epoch.

        A leader that is heard follows none of them there: they wait for the next election, and here
        the operator does not let them wait.
        """
        world = self.world
        led = max(
            (each for each in world.processes.values() if each.serves), key=_epoch, default=None
        )
        ahead = {
            each.id
            for each in world.processes.values()
            if led and _epoch(each) > _epoch(led) and not _is_named(led, each)
        }
        if led is not None and ahead & ahead_before:
            world.note("an election brings the epoch of who was ahead")
            world.cut_power(led.id)
            world.boot(led.id)
        again = partial(self._bring_epoch, frozenset(ahead))
        world.timeline.after(ELECTION_EVERY_MS, again)

    def _is_steady(self) -> bool:
        """True if everybody follows one leader, by the disks, and no voters are wanted."""
        world = self.world
        votes = [each.machine.durable.vote for each in world.processes.values()]
        is_one = len({(each.epoch, each.leader) for each in votes}) == 1
        is_settled = world.invariants.voter_set.target is None and not self.operator.waiting
        return is_one and votes[0].leader is not None and is_settled

    def _start_late(self, replica: ReplicaId) -> None:
        """Start a node that would found its own cluster if it did not query other nodes first.

        All other nodes know the cluster by then. The settings of the node are corrected later.
        """
        world = self.world
        self._reach(self._all_are_told, "not everybody follows a new cluster")
        leader = world.invariants.leader
        assert leader is not None
        # The node learns of the cluster from others first, and must not found one after that.
        world.network.cut({(leader, replica), (replica, leader)})
        world.timeline.after(CUT_OFF_MS, world.network.heal)
        world.boot(replica)
        self._reach(self._all_are_told, "who starts late does not find the cluster")
        machine = world.machines[replica]
        machine.config = replace(machine.config, voters={})

    def _all_are_told(self) -> bool:
        world = self.world
        return all(
            world.invariants.high_watermark(each.incarnation) for each in world.processes.values()
        )

    def _visit_again(self) -> None:
        world = self.world
        world.timeline.after(VISIT_EVERY_MS, self._visit_again)
        world.directory.visit()

    def _disturb(self) -> None:
        world = self.world
        world.disturb(self.profile.rates)
        for process in world.processes.values():
            process.rng.coarse = self.profile.rates.coarse_draws
        nemesis = Nemesis(world, self.operator)
        nemesis.begin(self.profile.strikes)
        last_ms = max((each.at_ms for each in self.profile.strikes), default=0)
        self._pass(max(FAULTS_MS, last_ms + 1))
        self._strike_again(nemesis)

    def _strike_again(self, nemesis: Nemesis) -> None:
        """Repeat strikes that found no victim."""
        for again in range(TRIES_MAX):
            silent = self._silent_but_wishes()
            if not silent:
                return
            nemesis.begin(tuple(Strike(again, each, again, 800 + again) for each in silent))
            self._pass(TRY_MS)
        # Some strikes need a leader or a longer log, which frequent strikes prevent. Therefore
        # strike one by one, each after a longer calm.
        self.world.disturb(NEARLY_CALM)
        for again in range(TRIES_MAX):
            self.world.network.heal()
            self.operator.repair_at_work()
            if {Fault.OLD_COPY, Fault.PAST} & {*silent}:
                # A copy with other voters or later clocks can never be restored: renew the copies.
                self.operator.renew_copies()
            self._pass((again + 1) * TRY_MS)
            silent = self._silent_but_wishes()
            if not silent:
                return
            nemesis.begin((Strike(0, silent[again % len(silent)], again, 800 + again),))
            self._pass(TRY_MS)

    def _silent_but_wishes(self) -> list[Fault]:
        return [each for each in self._silent() if each not in WISHES]

    def _pass(self, ms: int) -> None:
        timeline = self.world.timeline
        timeline.run_until(lambda: False, deadline_ms=timeline.now_ms + ms)

    def _silent(self) -> list[Fault]:
        """The planned kinds of faults that have not taken effect."""
        counts = self.world.trace.counts
        missing = [each for each in self.profile.faults if not counts[FIRED_AS.get(each, each)]]
        # After a cut, the log may stay too short for damage that differs from a torn write.
        excused = (Fault.ROT, Fault.MISDIRECTED) if counts["a log is cut at its start"] else ()
        return [each for each in missing if each not in excused]

    def _heal_majority(self) -> None:
        """Heal a majority, most often without the leader, and stop the rest."""
        world = self.world
        world.disturb(CALM)
        world.network.heal()
        alive = self._majority()
        for replica in world.everyone:
            process = world.processes.get(replica)
            if process is None:
                continue
            if process.machine.stopped or replica not in alive:
                world.cut_power(replica)
            else:
                process.recover()
        world.tell(alive, "alone are healed")
        for replica in world.everyone:
            world.machines[replica].heal()
            if replica in alive:
                world.boot(replica)

    def _majority(self) -> list[ReplicaId]:
        """Random replicas that are a majority of every voter set that may be in force."""
        world = self.world
        voter_sets = [*world.invariants.possible_voter_sets]
        # A pending removal may take effect in the next moment, with the help of a stopped replica.
        for process in world.processes.values():
            voter_sets += [
                each._replace(voters=tuple(voter for voter in each.voters if voter != gone))
                for gone in sorted(clients.may_go_soon(process))
                for each in world.invariants.possible_voter_sets
                if gone in each.voters and len(each.voters) > 1
            ]
        # A replica that is about to be added may be a voter in the next moment, even if stopped.
        wanted = {key.id for each in voter_sets for key in each.target or ()}
        wanted |= self.operator.waiting
        for process in world.processes.values():
            wanted |= clients.may_vote_soon(process)
        alive = [each for each in world.everyone if each in wanted]
        for replica in self._rng.sample(world.everyone, len(world.everyone)):
            keys = [world.machines[each].key for each in alive]
            lacking = [each for each in voter_sets if not has_majority(each, keys)]
            voters = {voter.id for each in lacking for voter in each.voters}
            if replica in alive:
                continue
            if replica in voters or self._rng.randrange(4) == 0:
                alive.append(replica)
        return sorted(alive)

    def _start_once_more(self) -> None:
        """Restart all replicas: healthy disks are not refused, and every file is explained."""
        world = self.world
        for replica in world.everyone:
            world.kill(replica)
            world.boot(replica)
            check_orphaned_files(world.machines[replica])

    def _commit_more(self, count: int, failure: str) -> None:
        goal = self.world.invariants.committed_end + count
        self._reach(lambda: self.world.invariants.committed_end >= goal, failure)

    def _reach(self, is_reached: Callable[[], bool], failure: str) -> None:
        timeline = self.world.timeline
        deadline_ms = timeline.now_ms + HEALING_MS_MAX
        if not timeline.run_until(is_reached, deadline_ms=deadline_ms):
            raise Violation("liveness", f"{failure} in {HEALING_MS_MAX} ms")

    def _has_converged(self) -> bool:
        judge = self.world.invariants
        end = judge.committed_end
        processes = self.world.processes.values()
        if any(judge.high_watermark(each.incarnation) < end for each in processes):
            return False
        if judge.voter_set.target is not None or self.operator.waiting:
            return False
        return all(each.machine.durable.batches == judge.history.batches for each in processes)

    def _propose_again(self) -> None:
        world, profile = self.world, self.profile
        # A long log grows slowly, because the cost of a recovery grows with the log.
        ms_max = profile.proposal_ms_max * (1 + world.invariants.committed_end // RECORDS_QUICKLY)
        world.timeline.after(self._rng.randrange(1, ms_max), self._propose_again)
        if not self._proposing:
            return
        count = self._rng.randrange(1, 4)
        own = world.own_client
        values = self._values(count) if own is None else own.records(count)
        for process in [*world.processes.values()]:
            if clients.propose(process, values):
                self._words += count
                return

    def _values(self, count: int) -> list[bytes]:
        """The next records for `Ledger`."""
        profile = self.profile
        size = self._rng.randrange(profile.value_bytes_max)
        values = [f"{self._words + each} ".encode().ljust(size, b".") for each in range(count)]
        if self._transactions.randrange(8) == 0:
            values.insert(self._transactions.randrange(count + 1), OPENS)
        if self._transactions.randrange(3) == 0:
            values.append(CLOSES)
        return values

    def _read_again(self) -> None:
        """Read from processes that act as leader, and sometimes from others."""
        rng, world = self._reads, self.world
        # Some runs read rarely: a wrong confirmation may affect only the first read after a pause.
        kind = self.profile.seed % 3
        is_seldom = kind == 0 and Fault.OUST in self.profile.faults
        ms_max = READ_MS_MAX[-1 if is_seldom else kind]
        world.timeline.after(rng.randrange(1, ms_max), self._read_again)
        for process in [*world.processes.values()]:
            if process.claims_to_lead or rng.random() < 0.1:
                clients.read(process)

    def _read_of_others(self, told: ReplicaId) -> None:
        """After a commit, read from other processes that act as leader and do not know of it.

        Only from those: a read that is under way when one is cut off makes the next harder to
        prove.
        """
        judge = self.world.invariants
        for process in [*self.world.processes.values()]:
            if process.id == told or not process.claims_to_lead:
                continue
            if judge.high_watermark(process.incarnation) < judge.read_floor:
                self.world.timeline.after(0, partial(clients.read, process))

    def _check_harness(self) -> None:
        committed = self.world.invariants.committed_end
        if committed < COMMITTED_MIN:
            raise HarnessError(f"only {committed} records were committed")
        if self._silent():
            raise HarnessError(f"never came: {', '.join(self._silent())}")


def _epoch(process: Process) -> int:
    """The epoch on the disk of a process."""
    return process.machine.durable.vote.epoch


def _is_named(leader: Process, process: Process) -> bool:
    """True if the leader knows this replica as a voter, now or earlier.

    Its disk does not tell: of the voters before its last snapshot, a node that starts knows the
    last ones only.
    """
    return leader.replica.node._state.knows(process.machine.key)


def simulate(seed: int) -> Report:
    """Run the profile of this seed."""
    return Simulation(Profile.drawn(seed)).run()
