"""Quorums and clusters with a hostile node: every invariant holds, and its requests do arrive."""

from collections.abc import Callable

import pytest

from chaos.cluster.hostile import BrokerListener
from chaos.hostile.listener import AuthorizingListener
from chaos.network.connection import Message
from chaos.outcome import run
from chaos.simulation.named_profiles import drawn
from chaos.simulation.profile import HOSTILE_AT, HOSTILE_EVERY, Hostility, Profile, hostility_of
from chaos.simulation.run import Report
from chaos.violation import Violation
from quorum.discovery.discover_brokers import write_request
from quorum.discovery.gossip import DiscoverBrokersRequest
from quorum.protocol.apis import ApiKey
from quorum.transport.inbound import InboundRequest
from tests.support.parameters import few_in_quick

ANONYMOUS, UNAUTHORIZED = 0, 1
"""The first seed of each kind."""
QUESTION = Message(
    ApiKey.DISCOVER_BROKERS,
    0,
    write_request(DiscoverBrokersRequest(cluster_id=None, advertisement=None)),
)


def report(seed: int, kind: str) -> Report:
    found = run(drawn(seed, kind))
    assert found.report is not None, str(found.failure)
    return found.report


def test_some_runs_have_a_hostile_node_of_each_kind() -> None:
    seeds = (HOSTILE_AT, HOSTILE_AT + HOSTILE_EVERY)
    found = [Profile.drawn(seed).hostility for seed in seeds]
    assert {*found} == {Hostility.ANONYMOUS, Hostility.UNAUTHORIZED}
    assert found == [*map(hostility_of, seeds)]
    assert Profile.drawn(HOSTILE_AT + 1).hostility is Hostility.NONE
    assert hostility_of(ANONYMOUS) is Hostility.ANONYMOUS
    assert hostility_of(UNAUTHORIZED) is Hostility.UNAUTHORIZED


@pytest.mark.parametrize("seed", few_in_quick(range(4), every=3))
def test_a_quorum_withstands_a_hostile_node(seed: int) -> None:
    counts = report(seed, "hostile").counts
    assert counts["a hostile node forges requests"] > 100
    reach = counts["a forged request reaches a core"]
    assert (reach > 100) == (hostility_of(seed) is Hostility.ANONYMOUS)


@pytest.mark.parametrize("seed", few_in_quick((ANONYMOUS, UNAUTHORIZED), every=2))
def test_a_cluster_withstands_a_hostile_node(seed: int) -> None:
    counts = report(seed, "hostile-cluster").counts
    assert counts["a hostile node forges requests"] > 100
    refused = counts["a forged request of a broker is refused"]
    assert (refused > 100) == (hostility_of(seed) is Hostility.ANONYMOUS)


@pytest.mark.thorough
def test_a_run_with_a_hostile_node_is_the_same_run_again() -> None:
    first, second = (report(ANONYMOUS, "hostile").trace_hash for _ in range(2))
    assert first == second


@pytest.mark.parametrize("listener", [AuthorizingListener, BrokerListener])
def test_a_listener_that_authorizes_admits_nodes_alone(
    listener: Callable[[], AuthorizingListener],
) -> None:
    listener().refuse([QUESTION, QUESTION], "somebody")
    assert listener().admits_nodes([QUESTION])


def test_a_listener_that_serves_a_stranger_is_found() -> None:
    class Open(AuthorizingListener):
        def _handle(self, request: InboundRequest) -> None:
            self._reached.append(request)

    with pytest.raises(Violation, match="R33: somebody serves DiscoverBrokers v0"):
        Open().refuse([QUESTION], "somebody")
