"""The kind of each controller: as it answers at its address, not as its id suggests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from admin.tools.migrate.findings import findings, is_blocked, obstacle
from admin.tools.migrate.observation import Cluster
from admin.tools.migrate.state import Kind, Look, Probe, QuorumState
from quorum.transport.address import Address
from tests.admin.tools.test_migration_planner import LEVELS, look
from tests.support.controllers import Node, active, controllers

TIMEOUT_MS: Final = 15_000
ELSEWHERE: Final = Address("127.0.0.1", 1)
"""Nobody listens there."""


class Probed(Cluster):
    """A cluster whose nodes answer by their address as they are made to."""

    kinds: Mapping[Address, Kind | None] = {}
    asked = 0

    async def probe(self, address: Address) -> Probe:
        """The answer of the node at an address; it is one of Kafka unless it is made another."""
        self.asked += 1
        return Probe(address=address, kind=self.kinds.get(address, Kind.KAFKA), levels=LEVELS)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[dict[int, Node]]:
    async with controllers(folder, 1, 2, 3, kraft_version=1) as nodes:
        await active(nodes.values())
        yield nodes


def kinds(state: QuorumState) -> dict[int, Kind]:
    return {each.id: each.kind for each in state.controllers}


def plan(state: QuorumState, ours: Mapping[int, Address]) -> Look:
    silent = {id: Probe(address=each, problem="refused") for id, each in ours.items()}
    return look(quorum=state, wanted=dict(ours), probes=silent)


def in_the_way(state: Look) -> list[str]:
    return [each.sentence for each in findings(state) if is_blocked([each])]


async def test_an_id_of_a_controller_of_kafka_cannot_be_given_to_one_of_ours(
    tmp_path: Path,
) -> None:
    """Kafka's 3 would count as migrated, and `finish` would call Kafka's controllers retired."""
    async with three(tmp_path) as nodes:
        servers = tuple(each.address for each in nodes.values())
        ours = {3: ELSEWHERE, 4: Address("127.0.0.1", 2), 5: Address("127.0.0.1", 3)}
        async with Probed(servers, ours, timeout_ms=TIMEOUT_MS) as cluster:
            state = await cluster.quorum()
    assert kinds(state) == dict.fromkeys((1, 2, 3), Kind.KAFKA)
    taken = "id 3 of --controllers belongs to a node of Kafka's already"
    assert in_the_way(plan(state, ours)) == [taken]
    found = obstacle(plan(state, ours), 4)
    assert found is not None
    assert found.sentence == taken


async def test_it_is_found_while_that_controller_is_down(tmp_path: Path) -> None:
    """Then its address tells, which is not the one in --controllers."""
    async with three(tmp_path) as nodes:
        servers = tuple(each.address for each in nodes.values())
        async with Probed(servers, {3: ELSEWHERE}, timeout_ms=TIMEOUT_MS) as cluster:
            cluster.kinds = {nodes[3].address: None}
            assert kinds(await cluster.quorum())[3] is Kind.KAFKA
        async with Probed(servers, {3: nodes[3].address}, timeout_ms=TIMEOUT_MS) as cluster:
            cluster.kinds = {nodes[3].address: None}
            assert kinds(await cluster.quorum())[3] is Kind.OURS
            # It has not answered yet: it is asked again, the others are not.
            asked = cluster.asked
            cluster.kinds = {}
            assert kinds(await cluster.quorum())[3] is Kind.KAFKA
            assert cluster.asked == asked + 1


async def test_ours_are_known_however_they_are_named_and_also_if_they_are_not(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as nodes:
        ours = {1: Address("localhost", nodes[1].address.port), 2: nodes[2].address}
        async with Cluster((ELSEWHERE,), ours, timeout_ms=TIMEOUT_MS) as cluster:
            state = await cluster.quorum()
    assert kinds(state) == dict.fromkeys((1, 2, 3), Kind.OURS)
    sentence = "controller 3 votes and is one of metaquorum, but --controllers does not name it"
    assert sentence in in_the_way(plan(state, ours))


async def test_only_addresses_that_nobody_has_are_silent(tmp_path: Path) -> None:
    """A voter that is down has a finding of its own."""
    async with three(tmp_path) as nodes:
        servers = (ELSEWHERE, *(each.address for each in nodes.values()))
        async with Probed(servers, {11: ELSEWHERE}, timeout_ms=TIMEOUT_MS) as cluster:
            cluster.kinds = {nodes[3].address: None, ELSEWHERE: None}
            found = await cluster.silent_kafkas(await cluster.quorum())
    assert [each.address for each in found] == [ELSEWHERE]
