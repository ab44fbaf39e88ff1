"""Plans over HTTP: decommission, recommission, generate, replication factors."""

from pathlib import Path
from typing import Any

import pytest

from admin.capabilities.quorum import TransferLead
from statemachine import commands
from statemachine.vocabulary import MoveKind
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.http.test_http_api import check_problem, http_door
from tests.admin.http.test_http_moves import NESTED
from tests.admin.planned_topic import (
    BACK,
    EMPTYING,
    FACTOR,
    planned_over_http,
    put,
    replicas,
    three_brokers,
)
from tests.broker.embedded_cluster import until
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller, active, controllers


def cordoned(node: Node) -> bool:
    return node.controller.image.brokers[102].cordoned


def of_all(told: Any) -> list[dict[str, int]]:
    """The replicas of each broker before and after a plan."""
    shares: list[dict[str, int]] = told["outcome"]["brokers"]
    return shares


async def test_a_broker_is_emptied_by_a_move_of_its_own_kind_and_comes_back(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await three_brokers(leader.controller, 101, 102)
        await asked(leader.controller, topic("b", 101))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(follower) as http:
            tried = (await http._send("PUT", f"{EMPTYING}?dry_run=true")).body
            shares = [(each["replicas_before"], each["replicas_after"]) for each in of_all(tried)]
            assert shares == [(2, 2), (1, 0), (0, 1)], "of all partitions"
            nothing = (
                await http._send("PUT", f"{EMPTYING.replace('102', '103')}?dry_run=true")
            ).body
            shares = [(each["replicas_before"], each["leaders_after"]) for each in of_all(nothing)]
            assert shares == [(2, 2), (1, 0), (0, 0)]
            assert (await http.get(EMPTYING)).body["state"] == "none"
            assert (tried["state"], tried["partitions_planned"]) == ("none", 1)
            assert tried["plan"]["partitions"][0]["replicas"] == [101, 103]
            assert tried["rollback_plan"]["partitions"][0]["replicas"] == [101, 102]
            assert tried["outcome"]["replicas_added"] == 1
            assert not cordoned(leader)
            async with http.client.put(EMPTYING) as response:
                assert response.status == 202
                assert response.headers["Location"] == "/v1/operations/decommission-102"
                assert response.headers["Retry-After"] == "2"
                begun = await response.json()
            assert (begun["state"], begun["partitions_held"]) == ("moving", 1)
            (told,) = begun["moves"]
            assert (told["kind"], told["stepping"], told["bytes_left"]) == ("drain", 1, None)
            assert cordoned(leader)
            again = await put(http, EMPTYING)
            assert (again["move_ids"], again["partitions_accepted"]) == ([1], 0)
            kept = [{"topic": "a", "partition": 0, "replicas": [101, 102]}]
            for dry_run in ("?dry_run=true", ""):
                assert cordoned(leader)
                back = await put(http, f"{BACK}{dry_run}")
                assert (back["dry_run"], back["partitions"]) == (bool(dry_run), kept)
                assert (back["partitions_accepted"], back["errors"]) == (1, [])
            found = (await http.get(EMPTYING)).body
            assert (found["state"], found["move_ids"]) == ("none", [])
        assert replicas(leader) == (101, 102)
        assert not cordoned(leader)


async def test_a_drain_continues_after_a_fail_over_and_the_new_leader_reports_it(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await three_brokers(leader.controller, 102, 101)
        async with http_door(leader) as http:
            await put(http, EMPTYING)
            async with client_of(leader) as client:
                await client.ask(TransferLead())
            other = await active(nodes.values())
            found = (await http.get(EMPTYING)).body
            assert (found["state"], found["move_ids"]) == ("moving", [1])
            await asked(other.controller, isr(other.controller, "a", (102, 101, 103)))
            found = (await http.get(EMPTYING)).body
            assert (found["state"], found["partitions_held"]) == ("empty", 0)
        assert set(replicas(other)) == {101, 103}


async def test_an_empty_broker_is_forgotten_once_it_is_dead_if_that_is_asked_for(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        alive = await put(http, f"{EMPTYING}?unregister=true")
        assert (alive["state"], alive["alive"], alive["registered"]) == ("empty", True, True)
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        gone = await put(http, f"{EMPTYING}?unregister=true")
        assert (gone["alive"], gone["registered"]) == (False, False)
        assert 102 not in node.controller.image.brokers
        check_problem(await http.get(EMPTYING), 404, "Broker ID 102 is not currently registered")


async def test_the_wish_to_forget_a_broker_outlives_its_asker_and_the_controller(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await three_brokers(leader.controller, 101, 102)
        async with http_door(leader) as http:
            begun = await put(http, f"{EMPTYING}?unregister=true")
            assert (begun["state"], begun["to_be_unregistered"]) == ("moving", True)
            async with client_of(leader) as client:
                await client.ask(TransferLead())
            other = await active(nodes.values())
            found = (await http.get(EMPTYING)).body
            assert (found["state"], found["to_be_unregistered"]) == ("moving", True)
            assert (await http.get("/v1/brokers/102")).body["to_be_unregistered"] is True
            await asked(other.controller, isr(other.controller, "a", (101, 102, 103)))
            other.controller.sweep()
            await asked(other.controller, commands.FenceBrokers(broker_ids=(102,)))
            assert 102 in other.controller.image.brokers
            other.controller.sweep()
            await until(lambda: 102 not in other.controller.image.brokers)
            check_problem(await http.get(EMPTYING), 404, "Broker ID 102 is not currently regist")


async def test_a_recommission_takes_back_the_wish_to_forget_a_broker(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102, 103)
        await put(http, EMPTYING)
        assert (await http.get(EMPTYING)).body["to_be_unregistered"] is False
        wished = await put(http, f"{EMPTYING}?unregister=true")
        assert (wished["to_be_unregistered"], wished["registered"]) == (True, True)
        assert (await put(http, EMPTYING))["to_be_unregistered"] is True
        await put(http, BACK)
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        node.controller.sweep()
        assert (await http.get(EMPTYING)).body["to_be_unregistered"] is False
        assert not node.controller.image.brokers[102].leaving


async def test_a_broker_that_is_dead_and_unknown_is_emptied_of_what_it_still_has(
    tmp_path: Path,
) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        await asked(node.controller, commands.UnregisterBroker(broker_id=102))
        begun = await put(http, EMPTYING)
        assert (begun["state"], begun["registered"]) == ("moving", False)
        await asked(node.controller, isr(node.controller, "a", (101, 103)))
        assert replicas(node) == (101, 103)


async def test_moves_for_other_reasons_are_not_cancelled_by_a_recommission(
    tmp_path: Path,
) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        await asked(node.controller, move("a", 101, 103))
        found = await put(http, EMPTYING)
        assert (found["state"], found["move_ids"]) == ("moving", [1])
        assert node.controller.image.moves[1].begun.kind == MoveKind.REASSIGN
        assert (await put(http, BACK))["partitions_accepted"] == 0
        assert node.controller.image.moves[1].ended is None


async def test_a_drain_of_another_broker_that_keeps_this_one_continues(tmp_path: Path) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        await put(http, "/v1/brokers/101/decommission")
        assert (await put(http, BACK))["partitions_accepted"] == 0
        assert node.controller.image.moves[1].ended is None
        assert (await put(http, "/v1/brokers/101/recommission"))["partitions_accepted"] == 1
        assert replicas(node) == (101, 102)


async def test_a_drain_without_a_target_broker_is_a_conflict_that_names_the_partition(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        refused = await http._send("PUT", EMPTYING)
        check_problem(refused, 409, "a-0 has replicas 101, 102: 1 must go from 102, and 0 other")
        assert not cordoned(node)
        found = (await http.get(EMPTYING)).body
        assert (found["state"], found["partitions_held"]) == ("none", 1)
        await put(http, "/v1/brokers/102/cordon")
        assert (await http.get(EMPTYING)).body["state"] == "waiting"
        assert found["reason"].startswith("a-0 has replicas 101, 102")


async def test_a_plan_is_generated_alike_each_time_and_refused_where_nothing_is_better(
    tmp_path: Path,
) -> None:
    racks = {101: "a", 102: "b", 103: None}
    async with brokers(tmp_path, racks) as node, http_door(node) as http:
        await asked(node.controller, topic("t", 101, 102, partitions=3))
        body = {"topics": ["t"], "brokers": [101, 102, 103], "rack_aware": False}
        found = await http.post("/v1/reassignments:generate", body)
        assert found.status == 200, found.body
        assert found == await http.post("/v1/reassignments:generate", body)
        assert not node.controller.image.moves
        outcome = found.body["outcome"]
        assert outcome["bytes_moved"] is None
        assert [each["replicas_after"] for each in outcome["brokers"]] == [2, 2, 2]
        assert [each["leaders_after"] for each in outcome["brokers"]] == [1, 1, 1]
        assert outcome["replicas_added"] == 2
        begun = await http.post("/v1/reassignments", found.body["plan"])
        assert begun.status in (200, 202), begun.body
        moving = await http.post("/v1/reassignments:generate", body)
        check_problem(moving, 409, "is being reassigned", "wait until that is done, or cancel it")
        racked = await http.post("/v1/reassignments:generate", {"topics": ["t"]})
        check_problem(racked, 400, "broker 103 has no rack, and others have one")
        await asked(node.controller, topic("u", 101, partitions=1))
        evenly = await http.post(
            "/v1/reassignments:generate", {"topics": ["u"], "brokers": [101, 102]}
        )
        check_problem(evenly, 409, "no plan would be better: replicas and preferred leaders are")


async def test_a_replication_factor_is_tried_and_changed_by_a_move(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await three_brokers(node.controller, 101)
        body = {"topics": ["a"], "replication_factor": 2}
        tried = await http.post(f"{FACTOR}?dry_run=true", body)
        assert (tried.status, tried.body["move_ids"]) == (200, [])
        assert tried.body["outcome"]["replicas_added"] == 1
        async with http.client.post(FACTOR, json=body) as response:
            assert response.status == 202
            assert response.headers["Location"] == "/v1/operations/move-1"
        assert node.controller.image.moves[1].begun.name == "replication factor 2"
        assert replicas(node) == tuple(tried.body["plan"]["partitions"][0]["replicas"])
        await asked(node.controller, isr(node.controller, "a", replicas(node)))
        again = await http.post(FACTOR, body)
        check_problem(again, 409, "every partition has 2 replica(s) already")
        many = await http.post(FACTOR, {"topics": ["a"], "replication_factor": 4})
        check_problem(many, 409, "a-0 needs 4 brokers for its replicas, and can have 3")
        (other,) = {102, 103} - set(replicas(node))
        await put(http, f"/v1/brokers/{other}/cordon")
        closed = await http.post(FACTOR, {**body, "replication_factor": 3, "brokers": [other]})
        check_problem(closed, 409, "a-0 needs 3 brokers for its replicas, and can have 2")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "/v1/brokers/x/decommission", None, 400, "'x' is not the id of a broker"),
        ("PUT", "/v1/brokers/7/decommission", None, 404, "Broker ID 7 is not currently registered"),
        ("GET", "/v1/brokers/7/decommission", None, 404, "Broker ID 7 is not currently registered"),
        ("PUT", "/v1/brokers/7/recommission", None, 404, "Broker ID 7 is not currently registered"),
        ("PUT", f"{EMPTYING}?force=true", None, 400, "'force' is not known; there is dry_run"),
        ("PUT", f"{EMPTYING}?dry_run=1", None, 400, "dry_run is '1'; it is true or false"),
        (
            "PUT",
            f"{EMPTYING}?dry_run=true&unregister=true",
            None,
            400,
            "a dry run unregisters nothing; omit unregister",
        ),
        ("POST", EMPTYING, None, 405, "takes GET, HEAD, PUT, not POST"),
        (
            "POST",
            ":generate",
            [],
            400,
            "the body must be an object with brokers, rack_aware, topics",
        ),
        ("POST", ":generate", {"topic": "a"}, 400, "'topic' is not known; there is brokers, rack_"),
        ("POST", ":generate", {"topics": "a"}, 400, "topics: expected `array | null`, got `str`"),
        ("POST", ":generate", {"topics": NESTED}, 400, "topics[0]: expected `str`, got `array`"),
        ("POST", ":generate", {"topics": []}, 400, "no topic is named; name at least one"),
        ("POST", ":generate", {"topics": ["a", "a"]}, 400, "a topic is named twice"),
        ("POST", ":generate", {"topics": ["gone"]}, 404, "there is no topic gone"),
        ("POST", ":generate", {"brokers": [True]}, 400, "brokers[0]: expected `int`, got `bool`"),
        ("POST", ":generate", {"brokers": [7, 7]}, 400, "a broker is named twice"),
        ("POST", ":generate", {"brokers": [7]}, 404, "broker 7 is not registered; the brokers are"),
        ("POST", ":generate", {"rack_aware": 1}, 400, "rack_aware: expected `bool`, got `int`"),
        ("POST", ":generate", {}, 409, "there are no partitions to plan for"),
        (
            "PUT",
            "/v1/brokers/7/decommission?unregister=true",
            {},
            404,
            "broker 7 cannot be decommissioned: Broker ID 7 is not currently registered",
        ),
        (
            "POST",
            ":replication-factor",
            {"topics": ["a"]},
            400,
            "replication_factor is missing",
        ),
        (
            "POST",
            ":replication-factor",
            {"topics": ["a"], "replication_factor": 0},
            400,
            "replication_factor: expected `int` >= 1",
        ),
        (
            "POST",
            ":replication-factor",
            {"replication_factor": 2},
            400,
            "topics is missing",
        ),
    ],
)
async def test_an_impossible_plan_is_a_problem_in_one_sentence(
    tmp_path: Path, method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        whole = f"/v1/reassignments{path}" if path.startswith(":") else path
        check_problem(await http._send(method, whole, json=body), status, words)
