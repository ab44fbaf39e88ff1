"""Who runs the cluster: puts in an empty disk for one that is lost, and makes its replica a voter.

With care: a disk is lost only where the other voters can do without it, as docs/quorum.md promises
no more; and voters are changed only while everybody is up.
"""

from functools import partial
from typing import Final

from chaos import clients
from chaos.electorates import has_majority
from chaos.world import World
from quorum.core.messages import AddVoterRequest, RemoveVoterRequest, VoterRequest
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId
from quorum.core.voters import Endpoint, Voter
from quorum.opening import LISTENER_NAME

LOOKS_EVERY_MS: Final = 400


class Operator:
    """Knows whose disk was lost, until it votes again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: set[ReplicaId] = set()
        """Who is to vote again."""

    def lose_disk(self, victim: ReplicaId) -> bool:
        """Let the disk of this replica be gone, all of it; False where that may lose records."""
        world = self._world
        if victim not in world.processes or not self._can_do_without(victim):
            return False
        was_voter = any(each.id == victim for each in world.judge.electorate.voters)
        world.cut_power(victim)
        world.machines[victim].replace_disk()
        world.judge.forget(victim)
        world.tell(victim, "has lost its disk")
        if was_voter and victim not in self.waiting:
            self.waiting.add(victim)
            self._look_later(victim)
        return True

    def _can_do_without(self, victim: ReplicaId) -> bool:
        """Whether the others are a majority of all voters there may be, and know who was lost.

        A voter that was founded by its id alone is nobody else's once its directory is written
        down; that has to be so in the log of everyone who could take part in an election.
        """
        world = self._world
        machines = [each for id_, each in world.machines.items() if id_ != victim]
        if any(each.partner is not None or each.rotten is not None for each in machines):
            return False
        intact = [each.key for each in machines]
        named = [world.judge.possible_electorates, *(m.truth.assigned[-1:] for m in machines)]
        return all(
            each
            and all(
                has_majority(one, intact)
                and all(v.id != victim or v.directory_id != NO_DIRECTORY for v in one.voters)
                for one in each
            )
            for each in named
        )

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
        """First the voter goes that is no more, then the replica that is there comes."""
        world = self._world
        key = world.machines[replica].key
        timeout_ms = world.profile.timeouts.request_timeout_ms
        for voter in world.judge.electorate.voters:
            if voter == key:
                return None
            if voter.id == replica:
                return RemoveVoterRequest(voter=voter, timeout_ms=timeout_ms)
        place = Endpoint(LISTENER_NAME, *world.town.address_of(replica))
        return AddVoterRequest(voter=Voter(key, (place,)), timeout_ms=timeout_ms)
