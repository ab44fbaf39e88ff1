"""The commands of a migration wait for what comes by itself, and not longer than they are told."""

from collections.abc import Iterator

import pytest

from admin.tools.migrate import executor
from admin.tools.migrate.executor import until_settled
from admin.tools.migrate.observation import Cluster
from admin.tools.migrate.state import QuorumState
from quorum.transport.address import Address
from tests.admin.tools.test_migration_planner import KAFKAS, OURS, quorum

ELSEWHERE = Address("127.0.0.1", 1)
ELECTED = quorum((*KAFKAS, 11), 1, observers=OURS[1:], dead=(2, 3, 11))
"""Controller 2 led until a moment ago; the new leader has not heard of 3 and 11."""
FOLLOWED = quorum((*KAFKAS, 11), 1, observers=OURS[1:], dead=(2,))


class Scripted(Cluster):
    """A cluster that is in these states, one after the other."""

    def __init__(self, *states: QuorumState) -> None:
        super().__init__((ELSEWHERE,), {11: ELSEWHERE}, timeout_ms=1)
        self._states: Iterator[QuorumState] = iter(states)

    async def quorum(self) -> QuorumState:
        """The next state."""
        return next(self._states)

    @property
    def left(self) -> int:
        """The number of the states that nobody has asked for."""
        return len(list(self._states))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again without a pause."""
    monkeypatch.setattr(executor, "LOOK_AGAIN_SECONDS", 0)


async def test_a_leader_that_was_just_elected_is_given_the_time_to_hear_of_its_voters() -> None:
    """It was said that the voters have no live majority, less than a second after the election."""
    none = quorum((*KAFKAS, 11), None, observers=OURS[1:])
    cluster = Scripted(none, ELECTED, FOLLOWED, FOLLOWED)
    await until_settled(cluster, within_ms=60_000)
    assert cluster.left == 1


async def test_a_majority_that_stays_away_is_not_waited_for_longer_than_told() -> None:
    cluster = Scripted(ELECTED, FOLLOWED)
    await until_settled(cluster, within_ms=0)
    assert cluster.left == 1
