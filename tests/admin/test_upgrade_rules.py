"""The next node of an upgrade, and the obstacles to its restart."""

from typing import Any

import msgspec
import pytest

from admin.client.upgrade_rules import UpgradeFacts, UpgradeNode, judge, order

LEVELS = {"metadata.version": (15, 29)}


def controller(id: int, version: str = "0.1.0", **fields: Any) -> UpgradeNode:
    """A voter that has caught up."""
    values: dict[str, Any] = {"voter": True, "caught_up": True, "levels": LEVELS, **fields}
    return UpgradeNode(id=id, role="controller", address=f"c{id}:9093", version=version, **values)


def broker(id: int, version: str = "0.1.0", **fields: Any) -> UpgradeNode:
    return UpgradeNode(
        id=id, role="broker", address=f"b{id}:9092", version=version, caught_up=True, **fields
    )


def facts(*nodes: UpgradeNode, **fields: Any) -> UpgradeFacts:
    """The facts of a cluster at level 29, to be upgraded to 0.2.0."""
    values: dict[str, Any] = {"in_force": {"metadata.version": 29}, **fields}
    return UpgradeFacts(target="0.2.0", is_asked=True, nodes=nodes, **values)


THREE = (controller(1), controller(2, leader=True), controller(3))


def test_observers_come_first_the_leader_after_the_other_voters_and_brokers_last() -> None:
    nodes = (broker(101), *THREE, controller(4, voter=False), broker(9, of_kafka=True, version=""))
    assert [each.id for each in order(nodes)] == [4, 1, 3, 2, 101]


def test_the_next_node_is_the_first_that_does_not_run_the_release() -> None:
    found = judge(facts(controller(1, "0.2.0"), *THREE[1:], broker(101)))
    assert (found.safe, found.done, found.left) == (True, False, (3, 2, 101))
    assert found.next.node == 3
    assert found.next.commands[-1] == "metaquorum upgrade check --to 0.2.0"
    assert not any("transfer" in each for each in found.next.commands)


def test_a_leader_gives_the_lead_to_a_voter_that_has_caught_up_first() -> None:
    found = judge(facts(controller(1, "0.2.0", caught_up=False), THREE[1], controller(3, "0.2.0")))
    assert found.next.node == 2
    assert found.next.commands[0] == "metaquorum leader transfer --to 3"
    assert not found.safe, "one of the two others is behind"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            facts(THREE[0], THREE[1], controller(3, caught_up=False)),
            "without controller 1 the quorum has no majority: controller 3 has not caught up",
        ),
        (
            facts(controller(1, problem="Connection refused"), *THREE[1:]),
            "controller 1 at c1:9093 does not answer: Connection refused",
        ),
        (facts(*THREE, voters_change=True), "the voters are being changed"),
        (facts(*THREE, unhealthy=[("broker 7 is fenced", "start it")]), "broker 7 is fenced"),
        (
            facts(*THREE, in_force={"metadata.version": 30}),
            "metadata.version is in force at 30, and controller 1 supports 15 to 29",
        ),
        (
            facts(*THREE, supported={"metadata.version": (15, 28)}),
            "metadata.version is in force at 29, and metaquorum 0.2.0 supports 15 to 28",
        ),
        (facts(controller(1, "0.4.0"), *THREE[1:]), "controller 1 runs 0.4.0, and 0.2.0 is not"),
        (facts(controller(1, "1.2.0"), *THREE[1:]), "controller 1 runs 1.2.0, and 0.2.0 is not"),
        (
            facts(
                *(controller(each, "0.2.0") for each in (1, 2, 3)),
                broker(5, unsafe="partitions lack copies"),
            ),
            "partitions lack copies",
        ),
    ],
)
def test_an_obstacle_is_a_sentence_with_a_command(changed: UpgradeFacts, says: str) -> None:
    found = judge(changed)
    assert not found.safe
    assert found.obstacles[0].sentence.startswith(says)
    assert found.obstacles[0].command


def test_a_newer_node_is_an_obstacle_unless_going_back_is_asked_for() -> None:
    nodes = (controller(1, "0.3.0"), *THREE[1:])
    found = judge(msgspec.structs.replace(facts(*nodes), is_asked=False))
    assert "which is newer than this command" in found.obstacles[0].sentence
    assert judge(facts(*nodes)).safe


def test_a_node_that_names_no_release_is_upgraded_without_a_guess() -> None:
    found = judge(facts(controller(1, ""), *THREE[1:]))
    assert found.safe
    assert "does not name itself (before 0.1.0)" in found.next.sentence


@pytest.mark.parametrize("count", [1, 2])
def test_few_voters_have_no_majority_without_one_and_are_told_so(count: int) -> None:
    found = judge(facts(*(controller(each, leader=each == count) for each in range(1, count + 1))))
    assert found.safe
    assert f"(with {count} voters nothing can be changed until it is back)" in found.next.sentence


def test_a_level_is_raised_only_once_every_node_runs_the_release() -> None:
    nodes = [controller(each, "0.2.0", levels={"metadata.version": (15, 30)}) for each in (1, 2)]
    found = judge(facts(*nodes, controller(3, "0.2.0", levels={"metadata.version": (15, 31)})))
    assert found.done
    assert found.next.commands == ("metaquorum features upgrade --feature metadata.version=30",)
    assert judge(facts(*(controller(each, "0.2.0") for each in (1, 2, 3)))).next.commands == ()
