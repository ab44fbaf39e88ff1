"""HTTP goes through the authorizer of the Kafka listener."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.moves import ResumeMoves
from admin.client.admin_client import AdminClient
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.controller.apis.test_kafka_authorization import set_acls
from tests.controller.controller_commands import join
from tests.support.acl_rights import acl
from tests.support.controllers import Node, a_controller, active, controllers

NOBODY = "User:ANONYMOUS"
CLUSTER = "Cluster:kafka-cluster"
ALL_PREFERRED = {"election_type": "preferred", "partitions": None}
SAME_LEVEL = {"levels": {"metadata.version": METADATA_VERSION_MAX}}
AN_ACL = {
    "resource_type": "TOPIC",
    "resource_name": "t",
    "principal": "User:ann",
    "operation": "READ",
}
NO_QUOTA = {"entity": {"user": "ann"}, "delete": ["producer_byte_rate"]}
NO_CONFIG = {"delete": ["log.cleaner.threads"]}


@pytest_asyncio.fixture
async def one_node(tmp_path: Path) -> AsyncIterator[tuple[Node, Http]]:
    """A controller with a broker, and an authorizer without ACLs."""
    async with a_controller(tmp_path, authorizer=AuthorizerConfig()) as node:
        await join(node.controller, 101)
        async with http_door(node) as door:
            yield node, door


async def test_the_right_of_the_capability_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    async with (
        a_controller(tmp_path, authorizer=AuthorizerConfig()) as node,
        http_door(node) as http,
    ):
        words = "User:ANONYMOUS needs DESCRIBE on CLUSTER"
        check_problem(await http.get("/v1/brokers"), 403, words)
        await set_acls(node, acl(NOBODY, "DESCRIBE CLUSTER"))
        assert (await http.get("/v1/brokers")).status == 200
        denied = await http.post("/v1/reassignments:pause")
        check_problem(denied, 403, "User:ANONYMOUS needs ALTER on CLUSTER")
        await set_acls(node, acl(NOBODY, "ALTER CLUSTER", host="127.0.0.1"))
        assert (await http.post("/v1/reassignments:pause")).status == 200
    lines = [json.loads(each) for each in caplog.messages if '"door":"http"' in each]
    missing = "CLUSTER_AUTHORIZATION_FAILED"
    assert [(each["request"], each["actions"][0], each["outcome"]) for each in lines] == [
        ("brokers.list", {"operation": "DESCRIBE", "resource": CLUSTER}, missing),
        ("moves.pause", {"operation": "ALTER", "resource": CLUSTER}, missing),
        (
            "moves.pause",
            {"operation": "ALTER", "resource": CLUSTER, "detail": "pause all moves"},
            "NONE",
        ),
    ]
    assert {each["host"] for each in lines} == {"127.0.0.1"}
    assert lines[-1]["offset"] > 0


@pytest.mark.parametrize(("on", "name"), [("TOPIC", "orders"), ("CLUSTER", None)])
async def test_a_topic_needs_the_rights_that_kafkas_own_requests_need(
    tmp_path: Path, on: str, name: str | None
) -> None:
    async with (
        a_controller(tmp_path, authorizer=AuthorizerConfig()) as node,
        http_door(node) as http,
    ):
        await join(node.controller, 101)
        orders = {"name": "orders", "partitions": 1, "replication_factor": 1}
        for path in ("/v1/topics?dry_run=true", "/v1/topics"):
            denied = await http.post(path, orders)
            check_problem(denied, 403, "User:ANONYMOUS needs CREATE on TOPIC orders")
        await set_acls(node, acl(NOBODY, f"CREATE {on}", name), acl(NOBODY, f"DELETE {on}", name))
        assert (await http.post("/v1/topics", orders)).status == 201
        others = await http.post("/v1/topics", orders | {"name": "others"})
        assert others.status == (201 if on == "CLUSTER" else 403)
        check_problem(await http.get("/v1/topics/orders/configs"), 403, "DESCRIBE_CONFIGS on TOPIC")
        check_problem(await http.get("/v1/topics/nothing"), 403, "needs DESCRIBE on TOPIC nothing")
        assert (await http._send("DELETE", "/v1/topics/orders")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "right"),
    [
        ("POST", "/v1/partitions:elect-leaders", ALL_PREFERRED, "ALTER CLUSTER"),
        ("GET", "/v1/features", None, "DESCRIBE CLUSTER"),
        ("PATCH", "/v1/features", SAME_LEVEL, "ALTER CLUSTER"),
        ("PATCH", "/v1/features?dry_run=true", SAME_LEVEL, "ALTER CLUSTER"),
        ("GET", "/v1/snapshots", None, "DESCRIBE CLUSTER"),
        ("POST", "/v1/snapshots", None, "ALTER CLUSTER"),
        ("GET", "/v1/quotas", None, "DESCRIBE_CONFIGS CLUSTER"),
        ("PATCH", "/v1/quotas", NO_QUOTA, "ALTER_CONFIGS CLUSTER"),
        ("PATCH", "/v1/quotas?dry_run=true", NO_QUOTA, "ALTER_CONFIGS CLUSTER"),
        ("GET", "/v1/acls", None, "DESCRIBE CLUSTER"),
        ("POST", "/v1/acls", {"acls": [AN_ACL]}, "ALTER CLUSTER"),
        ("DELETE", "/v1/acls?host=h", None, "ALTER CLUSTER"),
        ("DELETE", "/v1/acls?host=h&dry_run=true", None, "DESCRIBE CLUSTER"),
        ("GET", "/v1/users", None, "DESCRIBE CLUSTER"),
        ("PUT", "/v1/users/ann", {"password": "p"}, "ALTER CLUSTER"),
        ("DELETE", "/v1/users/admin", None, "ALTER CLUSTER"),
        ("GET", "/v1/cluster/configs", None, "DESCRIBE_CONFIGS CLUSTER"),
        ("GET", "/v1/brokers/101/configs", None, "DESCRIBE_CONFIGS CLUSTER"),
        ("PATCH", "/v1/cluster/configs", NO_CONFIG, "ALTER_CONFIGS CLUSTER"),
        ("PATCH", "/v1/cluster/configs?dry_run=true", NO_CONFIG, "ALTER_CONFIGS CLUSTER"),
        ("PATCH", "/v1/brokers/101/configs", NO_CONFIG, "ALTER_CONFIGS CLUSTER"),
        ("PATCH", "/v1/brokers/101/configs?dry_run=true", NO_CONFIG, "ALTER_CONFIGS CLUSTER"),
    ],
)
async def test_a_request_needs_the_right_that_kafkas_own_request_needs(
    one_node: tuple[Node, Http], method: str, path: str, body: Any, right: str
) -> None:
    node, http = one_node
    words = f"User:ANONYMOUS needs {right.replace(' ', ' on ')}"
    check_problem(await http._send(method, path, json=body), 403, words)
    await set_acls(node, acl(NOBODY, right))
    allowed = await http._send(method, path, json=body)
    # There is no such user.
    assert allowed.status < 300 or (path == "/v1/users/admin" and allowed.status == 404)


async def test_the_line_of_a_forwarded_request_says_that_it_came_by_http(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        async with (
            http_door(follower) as http,
            AdminClient([follower.address], is_controller=True) as client,
        ):
            caplog.clear()
            assert (await http.post("/v1/reassignments:pause")).status == 200
            await client.ask(ResumeMoves(everything=True))
    lines = [json.loads(each) for each in caplog.messages if each.startswith("{")]
    assert [each["door"] for each in lines] == ["http", "kafka"]
