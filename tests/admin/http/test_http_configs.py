"""Configurations of brokers and of the cluster over HTTP: described, and changed in part."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.configs import BrokerConfigs
from admin.client.admin_client import AdminClient
from admin.client.broker_configs import with_file
from admin.faults import AdminError
from quorum.protocol.apis import ApiKey
from statemachine.vocabulary import BROKER_RESOURCE
from tests.admin.embedded_brokers import embedded
from tests.admin.http.test_http_api import Answer, Http, check_problem, http_door
from tests.admin.scripted_node import Asked, ScriptedNode, listening
from tests.controller.controller_commands import join
from tests.support.controllers import NOBODY, a_controller

BROKER = "/v1/brokers/101/configs"
CLUSTER = "/v1/cluster/configs"
THREADS = "log.cleaner.threads"
RATE = "leader.replication.throttled.rate"


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102)
        async with http_door(node) as door:
            yield door


async def alter(http: Http, path: str, **changes: Any) -> Answer:
    return await http._send("PATCH", path, json=changes)


async def described(http: Http, path: str) -> dict[str, tuple[str, str, str]]:
    """The value, source and default of each configuration."""
    configs = (await http.get(path)).body["configs"]
    assert [each["name"] for each in configs] == sorted(each["name"] for each in configs)
    return {each["name"]: (each["value"], each["source"], each["default"]) for each in configs}


async def test_a_broker_has_its_own_values_those_of_the_cluster_and_defaults(http: Http) -> None:
    assert (await alter(http, CLUSTER, set={THREADS: "2"})).body == {"dry_run": False}
    of_all = await described(http, BROKER)
    assert of_all[THREADS] == (await described(http, CLUSTER))[THREADS] == ("2", "ALL_BROKERS", "1")

    changed = await alter(http, BROKER, set={THREADS: "3"})
    assert changed.body == {"broker_id": 101, "dry_run": False}
    assert (await described(http, BROKER))[THREADS] == ("3", "BROKER", "1")
    assert (await described(http, "/v1/brokers/102/configs"))[THREADS][:2] == ("2", "ALL_BROKERS")

    await alter(http, BROKER, delete=[THREADS])
    assert (await described(http, BROKER))[THREADS] == ("2", "ALL_BROKERS", "1")
    await alter(http, CLUSTER, delete=[THREADS])
    assert THREADS not in await described(http, CLUSTER)


async def test_a_list_is_changed_by_its_items(http: Http) -> None:
    name = "ssl.cipher.suites"
    listener = f"listener.name.outside.{name}"
    await alter(http, BROKER, set={listener: "A,B"})
    await alter(http, BROKER, append={listener: "C"})
    assert (await described(http, BROKER))[listener][0] == "A,B,C"
    await alter(http, BROKER, subtract={listener: "B"})
    assert (await described(http, BROKER))[listener][0] == "A,C"


async def test_a_secret_is_in_no_answer(http: Http) -> None:
    name = "listener.name.outside.ssl.key.password"
    await alter(http, BROKER, set={name: "hidden-words"})
    answer = await http.get(BROKER)
    (found,) = [each for each in answer.body["configs"] if each["name"] == name]
    assert (found["value"], found["is_sensitive"], found["type"]) == (None, True, "PASSWORD")
    assert "hidden-words" not in str(answer.body)


async def test_a_dry_run_checks_and_changes_nothing(http: Http) -> None:
    for path in (BROKER, CLUSTER):
        tried = await alter(http, f"{path}?dry_run=true", set={THREADS: "9"})
        assert (tried.status, tried.body["dry_run"]) == (200, True)
        refused = await alter(http, f"{path}?dry_run=true", set={THREADS: "x"})
        check_problem(refused, 400, THREADS)
        assert THREADS not in await described(http, path)


@pytest.mark.parametrize(
    ("path", "changes", "status", "words"),
    [
        (CLUSTER, {}, 400, "nothing is named; set or delete a configuration"),
        (CLUSTER, {"set": {THREADS: "x"}}, 400, "configurations of the cluster cannot be changed"),
        (CLUSTER, {"set": {"broker.rack": "r"}}, 400, "set it in the broker's own file"),
        (CLUSTER, {"set": {"ssl.cipher.suites": "A"}}, 400, "name one broker"),
        (CLUSTER, {"append": {THREADS: "1"}}, 400, "is not a list: use SET"),
        (BROKER, {"set": {THREADS: "1"}, "delete": [THREADS]}, 400, "set and deleted; name it"),
        (BROKER, {"set": {THREADS: "1"}, "append": {THREADS: "2"}}, 400, "is named twice"),
        (BROKER, {"set": {THREADS: 1}}, 400, "set"),
        (BROKER, {"values": {}}, 400, "there is append, delete, set, subtract"),
        ("/v1/brokers/9/configs", {"delete": [THREADS]}, 404, "no broker 9 is registered"),
        ("/v1/brokers/x/configs", {"delete": [THREADS]}, 400, "is not the id of a broker"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(
    http: Http, path: str, changes: Any, status: int, words: str
) -> None:
    before = await described(http, CLUSTER), await described(http, BROKER)
    check_problem(await alter(http, path, **changes), status, words)
    assert (await described(http, CLUSTER), await described(http, BROKER)) == before


async def test_a_broker_that_is_not_registered_has_no_configurations(http: Http) -> None:
    check_problem(await http.get("/v1/brokers/9/configs"), 404, "no broker 9 is registered")


@pytest.mark.thorough
async def test_a_live_broker_is_asked_for_the_settings_in_its_own_file(tmp_path: Path) -> None:
    async with embedded(tmp_path, 101) as cluster, http_door(cluster.node) as http:
        for name, words in (
            ("num.io.threads", "set it in the file of broker 101 and restart it"),
            ("num.io.thread", "is not a configuration of brokers; did you mean num.io.threads?"),
        ):
            check_problem(await alter(http, BROKER, set={name: "9"}), 400, words)
        await alter(http, BROKER, set={RATE: "3"})
        # A change reaches the broker a moment after the answer.
        while (await described(http, BROKER)).get(RATE, ("",))[0] != "3":
            pass
        found = (await http.get(BROKER)).body
        assert found["without_file"] is None
        configs = {each["name"]: each for each in found["configs"]}
        assert configs[RATE] | {"value": "3", "source": "BROKER"} == configs[RATE]
        node_id = configs["node.id"]
        assert (node_id["value"], node_id["source"]) == ("101", "FILE")
        assert node_id["is_read_only"]

        stale = (await http.get(f"{BROKER}?stale=true")).body
        assert "node.id" not in {each["name"] for each in stale["configs"]}
        assert "metadata log" in stale["without_file"]


async def test_a_broker_that_does_not_answer_is_named_beside_what_the_log_has(http: Http) -> None:
    """It is registered without an address."""
    await alter(http, BROKER, set={THREADS: "3"})
    found = (await http.get(BROKER)).body
    assert [each["value"] for each in found["configs"] if each["name"] == THREADS] == ["3"]
    assert found["without_file"] == "broker 101 is not alive, or has no address for controllers"


@pytest.mark.parametrize("count", [0, 2])
async def test_a_broker_that_answers_with_another_number_of_results_is_named(count: int) -> None:
    def answer(asked: Asked) -> Any:
        named = {"resource_type": BROKER_RESOURCE, "resource_name": "101"}
        result = asked.part(
            "DescribeConfigsResult", error=0, error_message=None, configs=(), **named
        )
        return asked.respond(results=(result,) * count)

    found = BrokerConfigs(as_of_offset=1, broker_id=101, configs=())
    async with listening(ScriptedNode({ApiKey.DESCRIBE_CONFIGS: answer})) as (address,):
        told = await with_file(found, address)
        assert told.without_file == f"{address}: invalid response: {count} results in place of one"
        async with AdminClient([address], is_controller=False) as client:
            with pytest.raises(AdminError, match=f"invalid response: {count} results"):
                await client.describe_configs(BROKER_RESOURCE, "101")


async def test_a_broker_that_is_gone_is_named_with_its_address() -> None:
    found = BrokerConfigs(as_of_offset=1, broker_id=101, configs=())
    assert str(NOBODY) in ((await with_file(found, NOBODY)).without_file or "")
