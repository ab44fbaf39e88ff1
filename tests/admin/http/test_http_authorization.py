"""HTTP goes through the authorizer of the Kafka listener."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.brokers import SafeToStop
from admin.capabilities.moves import CancelMoves, ResumeMoves
from admin.capabilities.quorum import DescribeQuorum, Quorum
from admin.capabilities.users import ListUsers, SetUser
from admin.client.admin_client import AdminClient
from admin.faults import Refused
from admin.http.caller import Caller
from admin.http.gateway import Gateway
from quorum.clocks import wall_ms
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.refusal_log import Repetitions
from statemachine.image.image import Image
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.security.authorization import Authorization, AuthorizerConfig
from tests.admin.http.raw_http import listening
from tests.admin.http.test_http_api import Http, check_problem, http_door, plan
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
    pause = {"operation": "ALTER", "resource": CLUSTER, "detail": "pause all moves"}
    assert [(each["request"], each["actions"][0], each["outcome"]) for each in lines] == [
        ("brokers.list", {"operation": "DESCRIBE", "resource": CLUSTER}, missing),
        ("moves.pause", pause, missing),
        ("moves.pause", pause, "NONE"),
    ]
    assert {each["host"] for each in lines} == {"127.0.0.1"}
    assert lines[-1]["offset"] > 0


async def test_a_shared_description_reaches_only_those_with_the_right(
    one_node: tuple[Node, Http],
) -> None:
    node, _ = one_node
    await set_acls(node, acl("User:ann", "DESCRIBE CLUSTER"))
    gateway = Gateway(node.service, node.router)
    principals = [KafkaPrincipal.parse(f"User:{name}") for name in ("ann", "bob", "ann")]
    ann, bob, again = await asyncio.gather(
        *[gateway.ask(DescribeQuorum(), Caller(each)) for each in principals],
        return_exceptions=True,
    )
    assert isinstance(bob, Refused)
    assert "User:bob needs DESCRIBE on CLUSTER" in str(bob)
    assert ann == again
    assert isinstance(ann, Quorum)


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


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("PUT", "/v1/users/eve", {"password": "swordfish"}, "User:eve set SCRAM-SHA-512"),
        ("DELETE", "/v1/users/eve", None, "User:eve remove SCRAM-SHA-512"),
        (
            *("POST", "/v1/acls", {"acls": [AN_ACL]}),
            "Topic:t ALLOW READ to User:ann from *, pattern LITERAL",
        ),
        (
            *("DELETE", "/v1/acls?host=h", None),
            "Any:any ANY ANY to any from h, pattern ANY",
        ),
        ("POST", "/v1/reassignments/7:pause", None, "pause move 7"),
        ("POST", "/v1/reassignments/7:resume", None, "resume move 7"),
        ("POST", "/v1/reassignments:cancel", {"topics": ["t"]}, "Topic:t cancel"),
        ("POST", "/v1/reassignments/7:rollback", None, "roll back move 7"),
        ("PATCH", "/v1/reassignments/7", {"priority": 1}, "alter move 7"),
        ("PATCH", "/v1/quotas", NO_QUOTA, "user ann: producer_byte_rate"),
        ("PATCH", "/v1/brokers/101/configs", NO_CONFIG, "broker 101: log.cleaner.threads"),
        ("PATCH", "/v1/topics/t/configs", {"set": {"retention.ms": "7"}}, "retention.ms"),
    ],
)
async def test_a_refusal_names_what_was_wanted(
    one_node: tuple[Node, Http],
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: Any,
    detail: str,
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    _, http = one_node
    assert (await http._send(method, path, json=body)).status == 403
    (line,) = [json.loads(each) for each in caplog.messages if '"door":"http"' in each]
    assert [each["detail"] for each in line["actions"]] == [detail]
    assert "swordfish" not in caplog.text


TWICE = plan(("a", 0, [101]), ("a", 0, [101]))
WRONG = [
    ("PATCH", "/v1/quotas", {"entity": {"user": "ann"}}, "ALTER_CONFIGS CLUSTER", "set or delete"),
    ("PATCH", "/v1/cluster/configs", {}, "ALTER_CONFIGS CLUSTER", "set or delete"),
    ("PATCH", "/v1/reassignments/1", {}, "ALTER CLUSTER", "nothing to change"),
    ("POST", "/v1/reassignments:cancel", {"moves": []}, "ALTER CLUSTER", "nothing is named"),
    ("POST", "/v1/reassignments:cancel", {"moves": ["x"]}, "ALTER CLUSTER", "expected `int`"),
    ("POST", "/v1/reassignments", TWICE, "ALTER CLUSTER", "a-0"),
    ("POST", "/v1/reassignments?dry_run=true", {"a": 1}, "DESCRIBE CLUSTER", "partitions"),
    ("POST", "/v1/acls", {"acls": [AN_ACL | {"principal": "x"}]}, "ALTER CLUSTER", "acls[0]"),
    ("PUT", "/v1/users/ann", {}, "ALTER CLUSTER", "give a password"),
    ("PUT", "/v1/users/ann", {"password": "p", "salt": "eA=="}, "ALTER CLUSTER", "give a password"),
    ("GET", "/v1/brokers?page_token=x", None, "DESCRIBE CLUSTER", "page_token 'x' is invalid"),
    ("GET", "/v1/topics/t?page_token=x", None, "DESCRIBE TOPIC", "page_token 'x' is invalid"),
    ("GET", "/v1/brokers?size=1", None, "DESCRIBE CLUSTER", "'size' is not known"),
]


@pytest.mark.parametrize(("method", "path", "body", "right", "words"), WRONG)
async def test_whoever_lacks_the_right_does_not_hear_what_is_wrong_with_the_request(
    one_node: tuple[Node, Http], method: str, path: str, body: Any, right: str, words: str
) -> None:
    node, http = one_node
    denied = await http._send(method, path, json=body)
    check_problem(denied, 403, f"User:ANONYMOUS needs {right.replace(' ', ' on ')}")
    await set_acls(node, acl(NOBODY, right, "t" if "TOPIC" in right else None))
    check_problem(await http._send(method, path, json=body), 400, words)


async def test_a_password_is_salted_only_for_whoever_may_set_it(
    one_node: tuple[Node, Http], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To salt it takes thousands of rounds."""
    node, http = one_node
    salted: list[str] = []
    salt = SetUser.without_password

    def counted(request: SetUser) -> SetUser:
        salted.append(request.name)
        return salt(request)

    monkeypatch.setattr(SetUser, "without_password", counted)
    body = {"password": "a long one"}
    assert (await http._send("PUT", "/v1/users/ann", json=body)).status == 403
    assert salted == []
    await set_acls(node, acl(NOBODY, "ALTER CLUSTER"))
    assert (await http._send("PUT", "/v1/users/ann", json=body)).status == 200
    assert salted == ["ann"]


@pytest.mark.parametrize("path", ["/v1/reassignments", "/v1/reassignments:cancel"])
async def test_a_long_body_is_not_read_of_whoever_lacks_the_right(
    one_node: tuple[Node, Http], path: str
) -> None:
    node, _ = one_node
    long = {"Content_Type": "application/json", "Content_Length": "60000000"}
    async with listening(node) as http, http.connected() as connection:
        connection.write("POST", path, **long)
        assert (await connection.response()).status == 403


async def test_no_command_is_built_of_a_long_request_that_is_refused(
    one_node: tuple[Node, Http],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    node, _ = one_node
    async with AdminClient([node.address], is_controller=True) as client:
        for count in (1, 10_000):
            with pytest.raises(Refused, match="User:ANONYMOUS needs"):
                await client.ask(CancelMoves(topics=("topic",) * count))
            # Another refusal of the same kind would only be counted.
            monkeypatch.setattr(node.service.audit_log, "_repetitions", Repetitions(wall_ms))
    short, long = [json.loads(each)["actions"] for each in caplog.messages if "cancel" in each]
    assert short[0]["detail"] == "Topic:topic cancel"
    assert "detail" not in long[0]


async def test_the_right_comes_first_on_the_private_request_too(
    one_node: tuple[Node, Http],
) -> None:
    node, _ = one_node
    async with AdminClient([node.address], is_controller=True) as client:
        for wrong in (CancelMoves(), SafeToStop(broker_ids=()), ListUsers(page_token="x")):
            with pytest.raises(Refused, match="User:ANONYMOUS needs"):
                await client.ask(wrong)
        await set_acls(node, acl(NOBODY, "ALTER CLUSTER"))
        with pytest.raises(Refused, match="nothing is named"):
            await client.ask(CancelMoves())


async def test_the_active_controller_decides_where_the_acls_of_a_node_are_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The nodes are anonymous as well.
    authorizer = AuthorizerConfig(super_users=frozenset({NOBODY}))
    async with controllers(tmp_path, 1, 2, authorizer=authorizer) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        # As if none had been replayed there.
        behind = Authorization(AuthorizerConfig().authorizer(Image(), lambda: True), print)
        monkeypatch.setattr(follower.service, "authorization", behind)
        async with http_door(follower) as http:
            assert (await http.post("/v1/reassignments:pause")).status == 200
            wrong = await http.post("/v1/reassignments:cancel", {"moves": []})
            check_problem(wrong, 400, "nothing is named")


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
