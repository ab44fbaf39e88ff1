"""The time that observers need to find an existing leader, in virtual time."""

import random
from collections.abc import Iterator
from typing import Final

import pytest

from quorum.core.roles import Follower, Leader
from quorum.core.vocabulary import ReplicaId
from tests.quorum.core.voter_commands import VotersStage

OBSERVERS: Final = 8
STEP_MS: Final = 5
FOUND_MS_MAX: Final = {"dead": 500, "silent": 1_000, "late": 500}
"""Measured over 100 seeds with three voters and with five: 330, 710 and 260 ms."""


class SearchStage(VotersStage):
    """Processes that have ended refuse connections, if those that are alive are to hear of it."""

    refuses = True

    def _happens_now(self) -> bool:
        done = super()._happens_now()
        for (asker, correlation), sent in sorted(self._open.items()) if self.refuses else ():
            if sent.asked in self.hosts or (asker, correlation) not in self._open:
                continue
            host, done = self.hosts[asker], True
            list(self._give_up(host, correlation))
            if host.node.leader == sent.asked:
                self.answer(f"unreachable {asker}")
        return done

    def begin(self, voters: int, seed: int) -> list[ReplicaId]:
        """Voters, led by the first, and observers, which know of each other; whoever observes."""
        self.answer(f"voters {' '.join(map(str, range(1, voters + 1)))} led by 1")
        observers = [ReplicaId(voters + each) for each in range(1, OBSERVERS + 1)]
        for observer in observers:
            self.answer(f"observer {observer}")
        self.answer("run 1000")
        self.answer(f"locate {' '.join(map(str, observers))}")
        for me, host in self.hosts.items():
            rng = random.Random(f"{seed}/{me}")
            host.node._state.rng, host.node._state.probes = rng, rng.randrange(100)
        self.answer(f"run {random.Random(seed).randrange(1, 600)}")
        return observers

    def lose(self, *replicas: int) -> None:
        for replica in replicas:
            self.answer(f"crash {replica}")
            followers = [me for me, each in self.hosts.items() if each.node.leader == replica]
            for me in followers if self.refuses else ():
                self.answer(f"unreachable {me}")

    def leader(self) -> ReplicaId | None:
        led = (me for me, each in self.hosts.items() if isinstance(each.node.role, Leader))
        return next(led, None)

    def until_led(self) -> ReplicaId:
        while (leader := self.leader()) is None:
            self.answer(f"run {STEP_MS}")
        return leader

    def searches_ms(self, observers: list[ReplicaId]) -> Iterator[int]:
        """For each observer, how long after an election it fetches from the leader."""
        leader, begin_ms, searching = self.until_led(), self._now_ms, set(observers)
        while searching:
            self.answer(f"run {STEP_MS}")
            nodes = {each: self.hosts[each].node for each in searching}
            found = {me for me, node in nodes.items() if node.leader == leader}
            assert all(isinstance(nodes[each].role, Follower) for each in found)
            yield from (self._now_ms - begin_ms for _ in found)
            searching -= found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("kind", ["dead", "silent", "late"])
def test_a_leader_is_soon_found_by_those_who_do_not_vote(kind: str, voters: int, seed: int) -> None:
    """`dead`: refuses connections. `late`: so many are that nobody is elected for five seconds."""
    stage = SearchStage()
    observers = stage.begin(voters, seed)
    stage.refuses = kind != "silent"
    if kind == "late":
        stage.lose(*range(1, voters // 2 + 2))
        stage.answer("run 5000")
        stage.answer("restart 2")
        stage.answer(f"locate {' '.join(map(str, observers))}")
    else:
        stage.lose(1)
    assert max(stage.searches_ms(observers)) <= FOUND_MS_MAX[kind]
