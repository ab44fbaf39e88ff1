"""Random towns: founders and joiners that start, move, lose their folders and find each other.

One seed decides everything. Two clusters live in one town; now and then somebody names a server of
the wrong one, where the settings say which cluster is meant.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from quorum.core.roles import Leader
from quorum.core.vocabulary import ReplicaId
from tests.quorum.town.residents import Resident
from tests.quorum.town.town import Chaos, Town
from tests.quorum.town.town_judge import TownBroken, TownJudge

CALM_MS = 30_000


@dataclass(frozen=True, slots=True)
class Told:
    """How a town ended."""

    moves: int
    leaders: int


class RandomTown:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.town = Town(self.rng, chaos=Chaos(loss=0.1, delay_ms_max=60))
        self._port = 0
        self.clusters: dict[ReplicaId, str] = {}
        self.moves = 0
        self.wiped_founders: set[ReplicaId] = set()
        self.left_alone: set[ReplicaId] = set()
        """A founder without its folder, and those who can keep it from founding again."""
        self._settle("A", first=1, founders=self.rng.choice([1, 1, 2, 3]))
        self._settle("B", first=51, founders=self.rng.choice([1, 3]))
        TownJudge(self.town, self.clusters)

    def run(self, steps: int = 25) -> Told:
        """Disturb the town for some steps, then leave it alone and look whether it has settled."""
        for _ in range(steps):
            self._disturb()
            self.town.run(self.rng.randrange(50, 3_000))
        self.town.chaos = None
        for id_ in self.town.residents:
            if id_ not in self.town.processes:
                self.town.start(id_)
        self.town.run(CALM_MS)
        return Told(self.moves, self._settled())

    def _settle(self, cluster: str, *, first: int, founders: int) -> None:
        """The founders of a cluster, and two that join it."""
        voters = tuple(ReplicaId(first + each) for each in range(founders))
        named = f"named-{cluster}" if cluster == "B" or self.rng.random() < 0.5 else None
        for id_ in (*voters, ReplicaId(first + 10), ReplicaId(first + 11)):
            self.clusters[id_] = cluster
            self.town.settle(
                Resident(
                    id=id_,
                    address=self._new_place(),
                    voters=voters if id_ in voters else (),
                    cluster_id=named,
                )
            )
        self._name_servers(voters, cluster, is_named=named is not None)

    def _name_servers(self, voters: tuple[ReplicaId, ...], cluster: str, *, is_named: bool) -> None:
        """Everybody is told of the first, and the first of one of the others."""
        members = [each for each in self.clusters if self.clusters[each] == cluster]
        others = [each for each in self.clusters if self.clusters[each] != cluster]
        for id_ in members:
            told = [voters[0]] if id_ != voters[0] else [self.rng.choice(members[1:])]
            if is_named and others and self.rng.random() < 0.5:
                told.append(self.rng.choice(others))
            places = tuple(self.town.residents[each].address for each in told)
            self.town.residents[id_].bootstrap = places

    def _new_place(self) -> tuple[str, int]:
        self._port += 1
        return "h", self._port

    def _disturb(self) -> None:
        town, rng = self.town, self.rng
        id_ = rng.choice(sorted(each for each in town.residents if each not in self.left_alone))
        if id_ not in town.processes:
            town.start(id_)
            return
        does: list[Callable[[ReplicaId], None]] = [self._restart, self._move, self._turn_back]
        if not town.residents[id_].voters:
            does.append(self._lose_folder)
        elif self._may_forget(id_):
            does.append(self._lose_founders_folder)
        rng.choice(does)(id_)

    def _restart(self, id_: ReplicaId) -> None:
        self.town.kill(id_)

    def _move(self, id_: ReplicaId) -> None:
        self.moves += 1
        self.town.kill(id_)
        # Where it was told to be found it has to be found again: the first one of a cluster stays.
        if not any(
            self.town.residents[id_].address in each.bootstrap
            for each in self.town.residents.values()
        ):
            self.town.residents[id_].address = self._new_place()

    def _turn_back(self, id_: ReplicaId) -> None:
        """Its clock jumps, and it is started again somewhere else."""
        self.town.residents[id_].wall_offset_ms = self.rng.randrange(-30_000, 10_000)
        self._move(id_)

    def _lose_folder(self, id_: ReplicaId) -> None:
        self.town.kill(id_)
        resident = self.town.residents[id_]
        cluster_id = resident.cluster_id
        resident.wipe()
        resident.cluster_id = cluster_id if (cluster_id or "").startswith("named") else None
        self._move_if_free(resident)

    def _move_if_free(self, resident: Resident) -> None:
        named = {place for each in self.town.residents.values() for place in each.bootstrap}
        if resident.address not in named:
            resident.address = self._new_place()

    def _may_forget(self, id_: ReplicaId) -> bool:
        """Whether a lone founder could be kept from founding again: whom it asks knows better."""
        resident = self.town.residents[id_]
        if len(resident.voters) > 1 or id_ in self.wiped_founders:
            return False
        asked = [self.town.at(place) for place in resident.bootstrap]
        return any(
            each is not None
            and self.clusters[each.id] == self.clusters[id_]
            and bool(each.host.node.high_watermark)
            for each in asked
        )

    def _lose_founders_folder(self, id_: ReplicaId) -> None:
        """It starts again at once, while the one that it asks is there, and nothing is lost."""
        self.wiped_founders.add(id_)
        asked = map(self.town.at, self.town.residents[id_].bootstrap)
        self.left_alone |= {id_, *(each.id for each in asked if each is not None)}
        self._lose_folder(id_)
        chaos, self.town.chaos = self.town.chaos, None
        self.town.start(id_)
        self.town.run(2_500)
        self.town.chaos = chaos

    def _settled(self) -> int:
        """How many clusters have a leader; everybody of those must follow it."""
        leaders = 0
        for cluster in ("A", "B"):
            members = [p for p in self.town.processes.values() if self.clusters[p.id] == cluster]
            if any(each.id in self.wiped_founders for each in members):
                continue  # Its only voter has forgotten: nobody leads until the folder is back.
            if not any(isinstance(each.host.node.role, Leader) for each in members):
                raise TownBroken("liveness", f"nobody leads cluster {cluster}")
            leaders += 1
            lost = [each.id for each in members if each.host.node.leader is None]
            if lost:
                raise TownBroken("liveness", f"{lost} of cluster {cluster} find no leader")
        return leaders
