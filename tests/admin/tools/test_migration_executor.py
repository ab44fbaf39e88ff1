"""The commands of a migration wait for what comes by itself, and not longer than they are told."""

import asyncio
from collections.abc import Mapping

import pytest

from admin.tools.migrate import executor
from admin.tools.migrate.executor import UNANSWERED, change_voters, until_settled
from admin.tools.migrate.observation import Cluster
from admin.tools.migrate.state import BrokerSettings, BrokerState, Finding, QuorumState, Wait
from quorum.clocks import monotonic_ms
from quorum.transport.address import Address
from tests.admin.tools.test_migration_planner import KAFKAS, OURS, places, quorum

ELSEWHERE = Address("127.0.0.1", 1)
ELECTED = quorum((*KAFKAS, 11), 1, observers=OURS[1:], dead=(2, 3, 11))
"""Controller 2 led until a moment ago; the new leader has not heard of 3 and 11."""
FOLLOWED = quorum((*KAFKAS, 11), 1, observers=OURS[1:], dead=(2,))


class Scripted(Cluster):
    """A cluster that is in these states, one after the other, and then does not answer."""

    def __init__(self, *states: QuorumState) -> None:
        super().__init__((ELSEWHERE,), {11: ELSEWHERE}, timeout_ms=1)
        self.states = list(states)

    async def quorum(self) -> QuorumState:
        """The next state."""
        if not self.states:
            await asyncio.Event().wait()
        return self.states.pop(0)

    async def brokers(self, quorum: QuorumState) -> tuple[BrokerState, ...]:
        """It has none."""
        return ()

    async def settings(
        self, brokers: tuple[BrokerState, ...], confirmed: frozenset[int] = frozenset()
    ) -> BrokerSettings:
        """Nothing is configured."""
        configured: Mapping[int, str | None] = {}
        return BrokerSettings(brokers=brokers, configured=configured)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again without a pause."""
    monkeypatch.setattr(executor, "LOOK_AGAIN_SECONDS", 0)


async def test_a_leader_that_was_just_elected_is_given_the_time_to_hear_of_its_voters() -> None:
    """It was said that the voters have no live majority, less than a second after the election."""
    none = quorum((*KAFKAS, 11), None, observers=OURS[1:])
    cluster = Scripted(none, ELECTED, FOLLOWED, FOLLOWED)
    await until_settled(cluster)
    assert len(cluster.states) == 1


async def test_a_majority_that_stays_away_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "SETTLE_MS", 0)
    cluster = Scripted(ELECTED, FOLLOWED)
    await until_settled(cluster)
    assert len(cluster.states) == 1


async def nothing(_: int) -> Finding | None:
    return None


async def test_a_look_takes_no_longer_than_the_time_that_is_left() -> None:
    """A node that accepts connections and does not answer took 16 s more than --within."""
    step = await change_voters(
        Scripted(),
        places(OURS),
        obstacle=nothing,
        confirmed=frozenset(),
        deadline_ms=monotonic_ms(),
        say=lambda _: None,
    )
    assert step is UNANSWERED


async def test_what_it_waited_for_before_the_last_look_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time is up in the second look, which is not answered."""
    cluster = Scripted(quorum(KAFKAS, None))
    monkeypatch.setattr(executor, "until", lambda _: asyncio.timeout(60 if cluster.states else 0))
    step = await change_voters(
        cluster,
        places(OURS),
        obstacle=nothing,
        confirmed=frozenset(),
        deadline_ms=monotonic_ms() + 60_000,
        say=lambda _: None,
    )
    assert step == Wait(reason="no controller leads; an election is under way")
