"""The liveness of brokers that are not fenced yet, by their heartbeats."""

from controller.heartbeats import BrokerHeartbeatManager, Liveness
from tests.statemachine.support.world import World

SESSION_MS = 9_000


def test_a_broker_is_silent_after_half_of_its_session() -> None:
    world = World(broker_count=3)
    heartbeats = BrokerHeartbeatManager(world.image, 0, SESSION_MS)
    for broker_id, at_ms in ((1, 1_000), (2, 2_000), (3, 3_000)):
        heartbeats.touch(broker_id, at_ms)
    assert heartbeats.liveness(5_499) == Liveness(frozenset(), 4_499)
    assert heartbeats.liveness(5_500) == Liveness(frozenset({1}), 3_500)
    assert heartbeats.liveness(5_500, without=(1, 2)) == Liveness(frozenset(), 2_500)
    world.fence(1)
    assert heartbeats.liveness(5_500) == Liveness(frozenset(), 3_500)
    assert heartbeats.liveness(90_000) == Liveness(frozenset({2, 3}), None)


def test_a_broker_that_a_new_leader_has_not_heard_is_silent() -> None:
    world = World(broker_count=2)
    heartbeats = BrokerHeartbeatManager(world.image, 0, SESSION_MS)
    heartbeats.touch(2, 0)
    assert heartbeats.liveness(1) == Liveness(frozenset({1}), 1)
