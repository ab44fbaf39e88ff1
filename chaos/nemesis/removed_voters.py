"""Voters that are removed while they are cut off and in a higher epoch than the leader.

A voter that lost its leader stands for election and is cut off, alone or with a few others that got
its request. The rest keep their leader. The operator considers the missing voters dead and removes
them: one by RemoveRaftVoter, several by a new voter set, often with replacements. Then they come
back. They know a later epoch than the leader, and the leader does not contact them: it announces
itself to voters only. Or the candidate comes back with an empty disk, and only an observer that was
cut off with it knows that epoch.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from chaos.simulation import clients
from chaos.simulation.process import Process
from chaos.simulation.profile import Fault
from quorum.core.messages import AlterQuorumRequest, RemoveVoterRequest, VoterRequest
from quorum.core.vocabulary import ReplicaId, ReplicaKey

if TYPE_CHECKING:
    from chaos.simulation.world import World

VOTERS_MIN: Final = 3
"""With two voters, the other voter gets no majority of pre-votes while the leader is alive."""
CHECK_INTERVAL_MS: Final = 100
STANDS_WITHIN_MS: Final = 1_500
"""After this time, all others consider the leader unreachable again."""
AWAY_MS_MIN: Final = 1_000
AWAY_MS_MAX: Final = 5_000
"""The time for which a candidate is cut off."""
REMOVED_AHEAD: Final = "is removed in a higher epoch than the leader's"
REPLACED_AHEAD: Final = "is removed in a higher epoch, and the whole machine replaced"


class Departure:
    """One such fault, from the loss of the leader on; `size` is drawn."""

    def __init__(self, world: "World", size: int, lose_disk: Callable[[ReplicaId], bool]) -> None:
        self._world = world
        self._size = size
        self._lose_disk = lose_disk
        self._gone: set[ReplicaId] = set()
        self._is_mended = False

    def begin(self) -> None:
        """Wait for a leader and enough voters, then let all others lose the leader."""
        world = self._world
        if not world.disturbed:
            return
        leader = world.invariants.leader
        others = [each for each in world.processes.values() if each.id != leader]
        if len(world.invariants.voter_set.voters) < VOTERS_MIN:
            self._ask(AlterQuorumRequest(target=_keys(world.voters), timeout_ms=self._timeout_ms))
            world.timeline.after(STANDS_WITHIN_MS, self.begin)
            return
        if leader in world.processes and sum(each.mislead() for each in others):
            world.on_vote_kept = self._on_vote
            world.timeline.after(STANDS_WITHIN_MS, self._try_again)
            return
        world.timeline.after(CHECK_INTERVAL_MS, self.begin)

    @property
    def _timeout_ms(self) -> int:
        return self._world.profile.timeouts.request_timeout_ms

    def _try_again(self) -> None:
        """Try again if no voter became a candidate, because the leader answered in time."""
        if self._world.on_vote_kept == self._on_vote:
            self._world.on_vote_kept = _nothing
            self.begin()

    def _on_vote(self, process: Process) -> None:
        """Act when a candidate's vote is on its disk, before it sends any vote request."""
        world, vote = self._world, process.machine.durable.vote
        voters = [each.id for each in world.invariants.voter_set.voters]
        if vote.voted_for != process.id or vote.leader is not None or process.id not in voters:
            return
        leader = world.invariants.leader
        if leader is None or leader == process.id or not world.disturbed:
            return
        world.on_vote_kept = _nothing
        staying = [each for each in voters if each not in (process.id, leader)]
        # At least half of the voters stay; observers may leave together with the candidate.
        also = staying[: self._size % (len(voters) // 2)]
        watching = [e for at, e in enumerate(world.everyone) if e not in voters and self._bit(at)]
        self._leave(process.id, {process.id, *also, *watching}, {*voters} - {process.id, *also})

    def _bit(self, at: int) -> bool:
        return bool(self._size >> at & 1)

    def _leave(self, first: ReplicaId, gone: set[ReplicaId], staying: set[ReplicaId]) -> None:
        world = self._world
        rest = [each for each in world.everyone if each not in gone]
        links = {link for a in gone for b in rest for link in ((a, b), (b, a))}
        world.network.cut(links)
        world.tell(sorted(gone), "are cut off, and voters no more")
        world.note(Fault.DEPART)
        self._gone = gone
        away_ms = AWAY_MS_MIN + self._size * (AWAY_MS_MAX - AWAY_MS_MIN) // 1_000
        world.timeline.after(away_ms, partial(self._mend, first, links))
        self._remove(first, staying, rest)

    def _remove(self, first: ReplicaId, staying: set[ReplicaId], rest: list[ReplicaId]) -> None:
        """Request the removal of the cut-off replicas from the leader."""
        if self._is_mended:
            return
        request: VoterRequest
        if len(self._world.invariants.voter_set.voters) == len(staying) + 1 and self._bit(0):
            key = self._world.machines[first].key
            request = RemoveVoterRequest(voter=key, timeout_ms=self._timeout_ms)
        else:
            others = {*rest} - staying
            fresh = (others or staying) if self._bit(3) else others | staying
            wanted = fresh if self._bit(1) else staying
            request = AlterQuorumRequest(target=_keys(wanted), timeout_ms=self._timeout_ms)
        if not self._ask(request):
            again = partial(self._remove, first, staying, rest)
            self._world.timeline.after(CHECK_INTERVAL_MS, again)

    def _ask(self, request: VoterRequest) -> bool:
        processes = [*self._world.processes.values()]
        reachable = (each for each in processes if each.id not in self._gone)
        return any(clients.want_voters(each, request) for each in reachable)

    def _mend(self, first: ReplicaId, links: set[tuple[ReplicaId, ReplicaId]]) -> None:
        world = self._world
        self._is_mended = True
        world.network.mend(links)
        leader, judge = world.invariants.leader, world.invariants
        if leader is None or any(each.id == first for each in judge.voter_set.voters):
            return
        epochs = [world.machines[each].durable.vote.epoch for each in (first, leader)]
        if epochs[0] > epochs[1]:
            world.note(REMOVED_AHEAD)
            if self._bit(2) and self._is_free_to_go(first) and self._lose_disk(first):
                world.note(REPLACED_AHEAD)

    def _is_free_to_go(self, replica: ReplicaId) -> bool:
        """True if it is not a voter, and can become one only by replicas that know of its loss."""
        world = self._world
        possible = {each.id for one in world.invariants.possible_voter_sets for each in one.voters}
        targets = {
            each.id for one in world.invariants.possible_voter_sets for each in one.target or ()
        }
        wished = {e for one in world.processes.values() for e in clients.may_vote_soon(one)}
        return replica not in possible | targets | wished


def _keys(ids: Collection[ReplicaId]) -> tuple[ReplicaKey, ...]:
    return tuple(map(ReplicaKey, sorted(ids)))


def _nothing(_: Process) -> None:
    return
