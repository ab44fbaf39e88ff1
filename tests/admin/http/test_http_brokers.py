"""Brokers over HTTP: list, cordon, safe-to-stop."""

import asyncio
from pathlib import Path

import pytest

from statemachine import commands
from tests.admin.http.test_http_api import check_problem, http_door
from tests.broker.embedded_cluster import until
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import a_controller, controllers


async def test_a_follower_answers_and_cordons_as_the_leader_does(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, 102))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(leader) as at_leader, http_door(follower) as at_follower:
            changed = await at_follower._send("PUT", "/v1/brokers/102/cordon")
            assert (changed.status, changed.body["cordoned"]) == (200, True)
            listed = await at_follower.get("/v1/brokers")
            assert listed == await at_leader.get("/v1/brokers")
            assert [(each["broker_id"], each["cordoned"]) for each in listed.body["brokers"]] == [
                (101, False),
                (102, True),
            ]
            one = await at_leader.get("/v1/brokers/101")
            assert one.body["to_be_unregistered"] is False
            assert one.body["implementation"] == "kafka"
            assert (
                one.body == {"as_of_offset": one.body["as_of_offset"]} | listed.body["brokers"][0]
            )
            changed = await at_leader._send("DELETE", "/v1/brokers/102/cordon")
            assert (changed.status, changed.body["cordoned"]) == (200, False)
            path = "/v1/brokers:safe-to-stop?ids=101,102"
            assert await at_follower.get(path) == await at_leader.get(path)
            unknown = await at_follower.get("/v1/brokers/7/safe-to-stop")
            assert unknown == await at_leader.get("/v1/brokers/7/safe-to-stop")
            check_problem(unknown, 404, "Broker ID 7 is not currently registered")


async def test_whether_brokers_may_stop_is_said_with_the_partitions_that_say_no(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        safe = await http.get("/v1/brokers/102/safe-to-stop")
        assert (safe.status, safe.body["safe"], safe.body["hurt"]) == (200, True, [])
        both = await http.get("/v1/brokers:safe-to-stop?ids=101,102")
        assert (both.status, both.body["safe"], both.body["partitions_hurt"]) == (200, False, 1)
        assert both.body["hurt"] == [
            {"topic": "a", "partition": 0, "harm": "no-leader", "in_sync": [], "min_isr": 1}
        ]
        stale = await http.get("/v1/brokers?stale=true")
        assert [each["broker_id"] for each in stale.body["brokers"]] == [101, 102]


async def test_a_follower_answers_safe_to_stop_and_follows_meanwhile(tmp_path: Path) -> None:
    """Slice by slice: what is committed meanwhile is taken in when it has judged."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, 102, partitions=3_000))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(follower) as http:
            path = "/v1/brokers:safe-to-stop?ids=101,102"
            # A read that is proved tells what the follower is to have, and it soon has it.
            fresh = (await http.get(path)).body
            await until(lambda: follower.controller.committed >= fresh["as_of_offset"])
            async with asyncio.TaskGroup() as tasks:
                looks = [tasks.create_task(http.get(f"{path}&stale=true")) for _ in range(3)]
                await asked(leader.controller, topic("b", 101))
            for stale in [each.result() for each in looks]:
                assert stale.status == 200
                assert stale.body["partitions_hurt"] in (3_000, 3_001)
                assert stale.body["as_of_offset"] >= fresh["as_of_offset"]
            end = leader.controller.committed
            await until(lambda: follower.controller.committed >= end)
            assert follower.controller.image.topic_named("b") is not None


async def test_a_broker_is_forgotten_that_is_not_in_use(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, 102))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(leader) as at_leader, http_door(follower) as at_follower:
            path = "/v1/brokers/102"
            for http in (at_leader, at_follower):
                alive = await http._send("DELETE", path)
                check_problem(alive, 409, "broker 102 cannot be unregistered: broker 102 is alive")
                assert alive.body["kafka_error"] == "INVALID_REQUEST"
            await asked(leader.controller, commands.FenceBrokers(broker_ids=(102,)))
            in_use = await at_follower._send("DELETE", path)
            check_problem(in_use, 409, "still has replicas of 1 partition(s): a-0; decommission it")
            await asked(leader.controller, commands.DeleteTopics(topics=("a",)))
            gone = await at_follower._send("DELETE", path)
            assert (gone.status, gone.body) == (200, {"broker_id": 102, "registered": False})
            again = await at_leader._send("DELETE", path)
            check_problem(again, 404, "Broker ID 102 is not currently registered")


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/brokers/x", 400, "'x' is not the id of a broker; write one like 101"),
        ("GET", "/v1/brokers/-1/safe-to-stop", 400, "'-1' is not the id of a broker"),
        ("GET", "/v1/brokers/99999999999", 400, "is not the id of a broker"),
        ("GET", f"/v1/brokers/{'9' * 5_000}", 400, "9...' is not the id of a broker"),
        ("GET", "/v1/brokers/7", 404, "Broker ID 7 is not currently registered"),
        ("PUT", "/v1/brokers/7/cordon", 404, "broker 7 cannot be cordoned: Broker ID 7 is not"),
        ("DELETE", "/v1/brokers/7/cordon", 404, "broker 7 cannot be uncordoned: Broker ID 7"),
        ("GET", "/v1/brokers:safe-to-stop", 400, "ids is missing"),
        ("GET", "/v1/brokers:safe-to-stop?ids=1,", 400, "'' is not the id of a broker"),
        ("GET", "/v1/brokers:safe-to-stop?ids=7,7", 400, "a broker is named twice; name each once"),
        ("GET", "/v1/brokers:safe-to-stop?ids=7", 404, "Broker ID 7 is not currently registered"),
        ("GET", "/v1/brokers?states=alive", 400, "'states' is not known; there is state, cordoned"),
        (
            "GET",
            "/v1/brokers?state=dead",
            400,
            "state[0]: invalid enum value 'dead'; there are alive, stop",
        ),
        ("GET", "/v1/brokers?cordoned=1", 400, "cordoned is '1'; it is true or false"),
        ("GET", "/v1/brokers?state=fenced&state=alive", 400, "state is given more than once; give"),
        ("PUT", "/v1/brokers/7/cordon?stale=true", 400, "'stale' is not known; there is none"),
        ("DELETE", "/v1/brokers/x", 400, "'x' is not the id of a broker; write one like 101"),
        ("DELETE", "/v1/brokers/7", 404, "broker 7 cannot be unregistered: Broker ID 7 is not"),
        ("DELETE", "/v1/brokers/7?force=true", 400, "'force' is not known; there is none"),
        ("POST", "/v1/brokers/7/cordon", 405, "takes DELETE, PUT, not POST"),
    ],
)
async def test_invalid_requests_about_brokers_are_problems_in_one_sentence(
    tmp_path: Path, method: str, path: str, status: int, words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http._send(method, path), status, words)
