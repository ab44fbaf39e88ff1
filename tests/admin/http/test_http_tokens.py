"""Bearer tokens: who has none is told nothing, and a role limits what a token may do."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from admin.capabilities.needs import Role
from admin.http.tokens import TokenFile, create
from tests.admin.http.raw_http import PAUSE, Listening, Raw, listening
from tests.support.controllers import a_controller, active, controllers

VOTERS = "/v1/quorum/voters"
RESUME = "/v1/reassignments:resume"


def bearer(secret: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def tokens_of_all_roles(path: Path) -> dict[Role, str]:
    return {role: create(path, f"a-{role}", role, f"User:{role}") for role in Role}


async def asked(http: Listening, method: str, path: str, secret: str, body: bytes = b"") -> Raw:
    return await http.ask(method, path, body, **bearer(secret))


async def test_without_a_valid_token_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    secret = create(path, "ci", Role.ADMIN, "User:ci")
    async with a_controller(tmp_path) as node, listening(node, tokens=TokenFile(path)) as http:
        for headers in (
            {},
            bearer(""),
            bearer("mq_unknown"),
            bearer(secret[:-1]),
            bearer(hashlib.sha256(secret.encode()).hexdigest()),
            {"Authorization": f"Basic {secret}"},
            {"Authorization": secret},
            {"Authorization": "Bearer \xff"},
        ):
            for method, where in (("GET", "/v1/quorum"), ("GET", "/v2"), ("POST", PAUSE)):
                answer = await http.ask(method, where, **headers)
                assert (answer.status, answer.data["title"]) == (401, "Not authenticated")
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert secret not in str(answer.body)
        assert (await asked(http, "GET", "/v1/quorum", secret)).status == 200
        # A page has no token, so where it comes from does not matter.
        answer = await http.ask("POST", PAUSE, Origin="http://evil.example", **bearer(secret))
        assert answer.status == 200


async def test_a_body_is_not_read_before_the_token_is_known(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    create(path, "ci", Role.ADMIN, "User:ci")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tokens=TokenFile(path)) as http,
        http.connected() as connection,
    ):
        connection.write(
            "POST", "/v1/reassignments", Content_Type="application/json", Content_Length="60000000"
        )
        assert (await connection.response()).status == 401


async def test_a_token_is_no_use_where_none_is_configured(tmp_path: Path) -> None:
    """Or a page could add any text as a token, and would not have to be of this node."""
    async with a_controller(tmp_path) as node, listening(node) as http:
        answer = await http.ask("POST", PAUSE, Origin="http://evil.example", **bearer("mq_any"))
        assert answer.status == 401


async def test_a_role_limits_what_a_token_may_do(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    secrets = tokens_of_all_roles(path)
    target = b'{"target_voters": [1]}'
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        listening(node, tokens=TokenFile(path)) as http,
    ):
        for role, move, voters in (
            (Role.VIEWER, 403, 403),
            (Role.OPERATOR, 200, 403),
            (Role.ADMIN, 200, 200),
        ):
            secret = secrets[role]
            assert (await asked(http, "GET", "/v1/quorum", secret)).status == 200
            paused = await asked(http, "POST", PAUSE, secret)
            assert paused.status == move
            changed = await asked(http, "PUT", VOTERS, secret, target)
            assert changed.status == voters
            if paused.status == 403:
                assert paused.data["detail"] == (
                    "token a-viewer has the role viewer; moves.pause needs the role operator "
                    "(ALTER on CLUSTER)"
                )
                assert paused.data["kafka_error"] == "CLUSTER_AUTHORIZATION_FAILED"
            else:
                assert (await asked(http, "POST", RESUME, secret)).status == 200


async def test_a_refusal_by_the_role_is_in_the_audit_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="audit")
    path = tmp_path / "tokens"
    secrets = tokens_of_all_roles(path)
    body = b'{"password": "swordfish"}'
    async with a_controller(tmp_path) as node, listening(node, tokens=TokenFile(path)) as http:
        for _ in range(20):
            denied = await asked(http, "POST", "/v1/reassignments/7:pause", secrets[Role.VIEWER])
            assert denied.status == 403
        denied = await asked(http, "PUT", "/v1/users/bob", secrets[Role.OPERATOR], body)
        assert denied.status == 403
    paused, user = map(json.loads, caplog.messages)
    assert user.pop("time")
    assert user == {
        "principal": "User:operator",
        "host": "127.0.0.1",
        "listener": "http",
        "door": "http",
        "request": "users.set",
        "actions": [
            {
                "operation": "ALTER",
                "resource": "Cluster:kafka-cluster",
                "detail": "User:bob set SCRAM-SHA-512",
            }
        ],
        "outcome": "CLUSTER_AUTHORIZATION_FAILED",
        "offset": None,
        "reason": "token a-operator has the role operator, and needs admin",
    }
    assert (paused["principal"], paused["request"]) == ("User:viewer", "moves.pause")


async def test_requests_without_a_token_leave_one_line_for_an_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="audit")
    path = tmp_path / "tokens"
    create(path, "ci", Role.ADMIN, "User:ci")
    async with a_controller(tmp_path) as node, listening(node, tokens=TokenFile(path)) as http:
        for number in range(50):
            answer = await http.ask("POST", f"/v1/reassignments/{number}:pause" + "x" * 1_000)
            assert answer.status == 401
    (line,) = map(json.loads, caplog.messages)
    assert (line["principal"], line["host"], line["door"]) == (
        *("User:ANONYMOUS", "127.0.0.1", "http"),
    )
    assert line["request"].startswith("POST /v1/reassignments/0:pausex")
    assert len(line["request"]) < 100
    assert (line["outcome"], line["offset"]) == ("SASL_AUTHENTICATION_FAILED", None)
    assert line["reason"] == "this node takes a bearer token"


async def test_the_principal_of_a_token_reaches_the_active_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    secret = create(path, "ci", Role.OPERATOR, "User:alice")
    caplog.set_level("INFO", logger="audit")
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        for node in (leader, follower):
            async with listening(node, tokens=TokenFile(path)) as http:
                answer = await asked(http, "POST", PAUSE, secret)
                assert answer.data["all_paused"]["by"] == "User:alice"
                assert (await asked(http, "POST", RESUME, secret)).status == 200
    assert "User:alice" in caplog.text
    assert secret not in caplog.text


async def test_the_file_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    first = create(path, "first", Role.VIEWER, "User:first")
    async with a_controller(tmp_path) as node, listening(node, tokens=TokenFile(path)) as http:

        async def valid(*secrets: str) -> list[bool]:
            return [
                (await asked(http, "GET", "/v1/quorum", each)).status == 200 for each in secrets
            ]

        second = create(path, "second", Role.VIEWER, "User:second")
        assert await valid(first, second) == [True, True]
        lines = path.read_text().splitlines()
        path.write_text(f"{lines[1]}\n")
        assert await valid(first, second) == [False, True]
        path.write_text(f"{lines[0]}\n{first}\n\n{lines[1]}\n{lines[1]}\n")
        assert await valid(first, second) == [True, True]
        assert f"{path}:2 is no token" in caplog.text
        assert f"{path}:5: there is a token second above" in caplog.text
        # An authorizer that cannot load lets nobody in.
        path.unlink()
        assert await valid(first, second) == [False, False]
        assert "no token is valid until it can be read" in caplog.text
        path.write_text(f"{lines[0]}\n")
        assert await valid(first, second) == [True, False]
    assert first not in caplog.text
