"""Founding a cluster without fixed addresses, and joining it by starting: real controllers."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from admin.capabilities.quorum import Nodes as KnownNodes
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import uuid_from_text
from tests.process.joining_nodes import Nodes

pytestmark = pytest.mark.process

OTHER_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"


def have_fetched(*nodes: int) -> Callable[[QuorumDescription], bool]:
    """True if these follow the leader and have everything committed."""

    def holds(quorum: QuorumDescription) -> bool:
        replicas = {each.id: each for each in (*quorum.voters, *quorum.observers)}
        return all(
            each == quorum.leader_id
            or (each in replicas and replicas[each].log_end_offset >= quorum.high_watermark > 0)
            for each in nodes
        )

    return holds


async def test_one_node_founds_a_cluster_and_others_join_it_by_starting(tmp_path: Path) -> None:
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(0, 4, 5)
        await nodes.start(0, quorum_voters="0")
        bootstrap = str(nodes.address(0))
        await nodes.start(4, bootstrap_servers=bootstrap)
        await nodes.start(5, bootstrap_servers=bootstrap)
        quorum = await nodes.until(lambda: nodes.quorum(0), have_fetched(0, 4, 5))
        assert [each.id for each in quorum.voters] == [0]
        assert {each.id for each in quorum.observers} == {4, 5}
        # The first leader has made the cluster's id; who joined has learned and kept it.
        made = await nodes.cluster_id(0)
        uuid_from_text(made)
        await nodes.until_said(4, f"This node belongs to cluster {made}")
        await nodes.until_said(5, f"This node belongs to cluster {made}")

        def all_there(found: KnownNodes) -> bool:
            return {each.replica_id: each.address for each in found.brokers} == {
                each: nodes.address(each) for each in (0, 4, 5)
            }

        # Everyone knows of everyone, whom nobody has named to it.
        for node in (0, 4, 5):
            found = await nodes.until(lambda node=node: nodes.whereabouts(node), all_there)  # type: ignore[misc]
            assert (found.cluster_id, found.leader_id) == (made, 0)


async def test_a_node_that_comes_back_on_another_port_is_found_there(tmp_path: Path) -> None:
    """Voters known by id alone; each is told of the first one's address, and of nothing else."""
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(1, 2, 3)
        bootstrap = str(nodes.address(1))
        for node in (1, 2, 3):
            await nodes.start(node, quorum_voters="1,2,3", bootstrap_servers=bootstrap)
        quorum = await nodes.until(lambda: nodes.quorum(1), have_fetched(1, 2, 3))
        assert {each.id for each in quorum.voters} == {1, 2, 3}

        moved = next(each for each in (2, 3) if each != quorum.leader_id)
        before = nodes.address(moved)
        await nodes.kill(moved)
        nodes.reserve(moved)
        assert nodes.address(moved) != before
        # The cluster is known to its folder by now: where to ask is all that it needs.
        await nodes.start(moved, bootstrap_servers=bootstrap)
        place = nodes.address(moved)
        await nodes.until(
            lambda: nodes.whereabouts(1),
            lambda found: (
                (moved, place) in {(each.replica_id, each.address) for each in found.brokers}
            ),
        )
        await nodes.until(lambda: nodes.quorum(1), have_fetched(1, 2, 3))

        # It counts at the new place: with it, two of three go on without the third.
        lost = next(each for each in (1, 2, 3) if each not in (moved, 1))
        await nodes.kill(lost)
        after = await nodes.until(lambda: nodes.quorum(1), have_fetched(1, moved))
        assert {each.id for each in after.voters} == {1, 2, 3}
        assert after.leader_id in (1, moved)


async def test_a_node_of_another_cluster_is_refused_and_nothing_is_learned_from_it(
    tmp_path: Path,
) -> None:
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(0, 7)
        await nodes.start(0, quorum_voters="0")
        await nodes.until(lambda: nodes.quorum(0), have_fetched(0))
        await nodes.start(
            7,
            quorum_voters="7",
            cluster_id=OTHER_CLUSTER,
            bootstrap_servers=str(nodes.address(0)),
        )
        await nodes.until_said(7, f"the sender is of cluster {OTHER_CLUSTER}")
        await nodes.until_said(0, f"the sender is of cluster {OTHER_CLUSTER}")
        # It was named to it as a server to ask, and so node 7 founds the cluster that it is of.
        other = await nodes.until(lambda: nodes.quorum(7), have_fetched(7))
        assert (other.cluster_id, other.leader_id) == (OTHER_CLUSTER, 7)
        for node in (0, 7):
            found = await nodes.whereabouts(node)
            assert [each.replica_id for each in found.brokers] == [node]


async def test_a_bootstrap_server_that_is_none_is_named_and_the_others_are_asked(
    tmp_path: Path,
) -> None:
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(0, 4, 9)
        await nodes.start(0, quorum_voters="0")
        wrong = nodes.address(9)
        await nodes.start(4, bootstrap_servers=f"{wrong},{nodes.address(0)}")
        quorum = await nodes.until(lambda: nodes.quorum(0), have_fetched(0, 4))
        assert [each.id for each in quorum.observers] == [4]
        said = f"Discovery at {wrong} failed: DiscoverBrokers: nobody accepts connections there"
        await nodes.until_said(4, said)


async def test_a_founder_that_lost_its_folder_founds_no_second_cluster(tmp_path: Path) -> None:
    """Its configuration says that it founds one; whom it asks first knows better."""
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(0, 4)
        await nodes.start(0, quorum_voters="0")
        await nodes.start(4, bootstrap_servers=str(nodes.address(0)))
        await nodes.until(lambda: nodes.quorum(0), have_fetched(0, 4))
        cluster_id = await nodes.cluster_id(4)
        await nodes.kill(0)
        nodes.data(0).rename(tmp_path / "lost")
        await nodes.start(0, quorum_voters="0", bootstrap_servers=str(nodes.address(4)))
        await nodes.until_said(0, "this node founds no other one")
        found = await nodes.until(
            lambda: nodes.whereabouts(0), lambda found: found.cluster_id is not None
        )
        assert (found.cluster_id, found.leader_id) == (cluster_id, -1)
        assert {each.replica_id for each in found.brokers} == {0, 4}


async def test_a_broker_needs_no_more_than_a_server_to_ask(tmp_path: Path) -> None:
    """It asks an observer at that, and finds the active controller, and its cluster."""
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(0, 4, 101)
        await nodes.start(0, quorum_voters="0")
        await nodes.start(4, bootstrap_servers=str(nodes.address(0)))
        await nodes.until(lambda: nodes.quorum(0), have_fetched(0, 4))
        await nodes.start(101, process_roles="broker", bootstrap_servers=str(nodes.address(4)))
        await nodes.until(lambda: nodes.brokers(0), lambda alive: alive == {101})
        found = await nodes.until(
            lambda: nodes.whereabouts(101),
            lambda found: {each.replica_id for each in found.brokers} >= {0, 4},
        )
        assert found.cluster_id == await nodes.cluster_id(0) == await nodes.cluster_id(101)
