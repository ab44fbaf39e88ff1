"""ACLs, SCRAM credentials and delegation tokens over the Kafka protocol."""

import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.client.admin_client import AdminClient
from admin.client.security import AclFilter, describe_acls
from admin.client.security import delete_acls as delete_all
from admin.faults import AdminError
from controller.apis.controller_apis import OFFERED
from controller.service import NO_AUTHORIZER
from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.security.token_hmacs import DelegationTokenConfig, DelegationTokens
from statemachine.security.authorization import AuthorizerConfig
from tests.controller.apis.samples import (
    ANY_ACL,
    alter_scram,
    create_acls,
    create_token,
    delete_acls,
    wrapped,
)
from tests.support.acl_rights import codes, messages
from tests.support.controllers import Node, a_controller, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

# Controllers elect each other before they know the ACLs.
EVERYONE = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}))
ENVELOPE = Form(ApiKey.ENVELOPE, 0)
KEY = "the key of the tokens"
TOKENS = DelegationTokenConfig(secret_key=KEY, max_lifetime_ms=7_000_000, renew_period_ms=1_000_000)


def versions(api_key: ApiKey) -> list[int]:
    offered = OFFERED[api_key]
    return list(range(offered.lowest, offered.highest + 1))


async def by(
    client: KafkaClient, principal: str, form: Form, payload: Any, *, is_token: bool = False
) -> Any:
    """The answer to a request of this principal, which another node passes on."""
    who = replace(KafkaPrincipal.parse(principal), token_authenticated=is_token)
    answer = await client.send_bytes(ENVELOPE, wrapped(form, payload, who))
    assert answer.error_code.value == 0, answer
    data = answer.response_data
    start = headers.response_body_start(data, form.api_key, form.version)
    return decode_response(form.api_key, form.version, data[start:])


# --- ACLs ----------------------------------------------------------------------------------------


async def described(client: KafkaClient, version: int, **asked: Any) -> dict[Any, list[Any]]:
    form = Form(ApiKey.DESCRIBE_ACLS, version)
    answer = await client.send(form, form.request(**{**ANY_ACL, **asked}))
    assert answer.error_code.value == 0, answer
    return {
        (each.resource_type, each.resource_name, each.pattern_type): [
            (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls
        ]
        for each in answer.resources
    }


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_ACLS))
async def test_acls_are_created_described_and_deleted_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with (
        a_controller(tmp_path, authorizer=EVERYONE) as node,
        kafka_client(node.address) as client,
    ):
        form = Form(ApiKey.CREATE_ACLS, version)
        acls: list[Mapping[str, Any]] = [
            {},
            {"operation": 4, "permission_type": 2, "host": "10.0.0.1"},
            {"resource_pattern_type": 4},
            {"resource_type": 4},
        ]
        answer = await client.send(form, create_acls(form, *acls))
        assert [each.error_code.value for each in answer.results] == [0, 0, 0, 42]
        assert answer.results[3].error_message == (
            "The only valid name for the CLUSTER resource is kafka-cluster"
        )
        literal = [("User:alice", "*", 3, 3), ("User:alice", "10.0.0.1", 4, 2)]
        assert await described(client, version) == {
            (2, "t", 3): literal,
            (2, "t", 4): literal[:1],
        }
        assert await described(client, version, pattern_type_filter=4) == {(2, "t", 4): literal[:1]}
        form = Form(ApiKey.DELETE_ACLS, version)
        filters = ({"resource_name_filter": "t", "pattern_type_filter": 3}, {"operation": 0})
        answer = await client.send(form, delete_acls(form, *filters))
        first, second = answer.filter_results
        assert (first.error_code.value, second.error_code.value) == (0, 42)
        assert [(a.resource_name, a.host, a.operation) for a in first.matching_acls] == [
            ("t", "*", 3),
            ("t", "10.0.0.1", 4),
        ]
        assert second.matching_acls == ()
        assert list(await described(client, version)) == [(2, "t", 4)]


async def test_a_filter_of_unknown_numbers_is_refused(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path, authorizer=EVERYONE) as node,
        kafka_client(node.address) as client,
    ):
        form = Form(ApiKey.DESCRIBE_ACLS, 3)
        answer = await client.send(form, form.request(**{**ANY_ACL, "operation": 77}))
        assert (answer.error_code.value, answer.resources) == (42, ())
        assert answer.error_message == "the filter has an unknown Operation"


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_ACLS))
async def test_without_an_authorizer_there_are_no_acls(tmp_path: Path, version: int) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        create = Form(ApiKey.CREATE_ACLS, version)
        created = await client.send(create, create_acls(create, {}, {"operation": 4}))
        assert list(codes(created)) == [54, 54]
        assert set(messages(created)) == {NO_AUTHORIZER[1]}
        delete = Form(ApiKey.DELETE_ACLS, version)
        assert list(codes(await client.send(delete, delete_acls(delete)))) == [54]
        describe = Form(ApiKey.DESCRIBE_ACLS, version)
        assert list(codes(await client.send(describe, describe.request(**ANY_ACL)))) == [54]
        assert not node.controller.image.acls
        whole = AclFilter()
        async with AdminClient([node.address], is_controller=True) as admin:
            for call, failing in (
                (describe_acls(whole), "the ACLs cannot be listed"),
                (delete_all(whole), "the ACLs cannot be deleted"),
            ):
                with pytest.raises(AdminError) as refused:
                    await admin.carry_out(call)
                assert str(refused.value) == f"{failing}: {NO_AUTHORIZER[1]} (SECURITY_DISABLED)"


# --- SCRAM credentials ---------------------------------------------------------------------------


async def scram(client: KafkaClient, payload: Any) -> dict[str, tuple[int, str | None]]:
    answer = await client.send(Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0), payload)
    return {each.user: (each.error_code.value, each.error_message) for each in answer.results}


async def users(client: KafkaClient, *asked: str) -> dict[str, Any]:
    form = Form(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    names = tuple(form.part("UserName", name=each) for each in asked) or None
    answer = await client.send(form, form.request(users=names))
    assert answer.error_code.value == 0
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        or (each.error_code.value, each.error_message)
        for each in answer.results
    }


async def test_scram_credentials_are_kept_as_keys_and_never_as_a_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 5802: StoredKey = H(HMAC(SaltedPassword, "Client Key")), and the server's key."""
    caplog.set_level(logging.INFO, "audit")
    form = Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    password = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt of bob", 4_096)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        bob = {"name": "bob", "mechanism": 2, "salt": b"salt of bob", "salted_password": password}
        empty = {"name": "eve", "salted_password": b""}
        assert await scram(client, alter_scram(form, {"name": "alice"}, bob, empty)) == {
            "alice": (0, None),
            "bob": (0, None),
            "eve": (93, "the salted password is empty"),
        }
        assert await users(client) == {"alice": [(1, 4096)], "bob": [(2, 4096)]}
        kept = node.controller.image.scram_credentials["bob", 2]
        client_key = hmac.digest(password, b"Client Key", "sha512")
        assert kept.stored_key == hashlib.sha512(client_key).digest()
        assert kept.server_key == hmac.digest(password, b"Server Key", "sha512")
        assert kept.salt == b"salt of bob"
        assert await scram(client, alter_scram(form, bob, deletions=(("alice", 1),))) == {
            "alice": (0, None),
            "bob": (0, None),
        }
        assert await users(client, "alice", "bob") == {
            "alice": (91, "Attempt to describe a user credential that does not exist: alice"),
            "bob": [(2, 4096)],
        }
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert '"resource":"User:bob","detail":"set SCRAM-SHA-512"' in said
    for secret in (password, kept.stored_key, kept.server_key, b"salt of bob"):
        assert str(secret)[2:-1] not in said


@pytest.mark.parametrize(
    ("upsertion", "code", "message"),
    [
        ({"name": "u", "iterations": 4_095}, 93, "Too few iterations"),
        ({"name": "u", "iterations": 16_385}, 93, "Too many iterations"),
        ({"name": "u", "mechanism": 3}, 33, "Unknown SCRAM mechanism"),
        ({"name": ""}, 93, "Username must not be empty"),
    ],
)
async def test_credentials_are_refused_as_by_kafka(
    tmp_path: Path, upsertion: dict[str, Any], code: int, message: str
) -> None:
    form = Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await scram(client, alter_scram(form, upsertion))
        assert answer == {upsertion["name"]: (code, message)}


# --- Delegation tokens ---------------------------------------------------------------------------


@asynccontextmanager
async def a_token_giver(
    folder: Path, config: DelegationTokenConfig = TOKENS
) -> AsyncIterator[tuple[Node, KafkaClient]]:
    async with a_controller(folder) as node, kafka_client(node.address) as client:
        node.service.tokens = DelegationTokens(config)
        yield node, client


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_DELEGATION_TOKEN))
async def test_a_token_is_its_id_and_an_hmac_of_it(tmp_path: Path, version: int) -> None:
    form = Form(ApiKey.CREATE_DELEGATION_TOKEN, version)
    async with a_token_giver(tmp_path) as (node, client):
        answer = await by(client, "User:alice", form, create_token(form, "bob"))
        assert (answer.error_code.value, answer.principal_type) == (0, "User")
        assert answer.principal_name == "alice"
        assert answer.hmac == hmac.digest(KEY.encode(), answer.token_id.encode(), "sha512")
        (token,) = node.controller.image.delegation_tokens.values()
        assert (token.owner, token.requester, token.renewers) == (
            "User:alice",
            "User:alice",
            ("User:bob",),
        )
        assert token.max_timestamp_ms - token.issue_timestamp_ms == TOKENS.max_lifetime_ms
        # kio's reader drops the milliseconds.
        seconds = (answer.max_timestamp - answer.issue_timestamp).total_seconds()
        assert abs(seconds - TOKENS.max_lifetime_ms / 1_000) <= 1
        asked = Form(ApiKey.DESCRIBE_DELEGATION_TOKEN, version)
        told = await by(client, "User:bob", asked, asked.request(owners=None))
        (found,) = told.tokens
        assert (told.error_code.value, found.hmac) == (0, answer.hmac)
        assert found.expiry_timestamp == token.expiration_timestamp_ms
        assert [each.principal_name for each in found.renewers] == ["bob"]


async def test_a_token_is_renewed_and_expired_by_its_hmac(tmp_path: Path) -> None:
    create = Form(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    renew, expire = Form(ApiKey.RENEW_DELEGATION_TOKEN, 2), Form(ApiKey.EXPIRE_DELEGATION_TOKEN, 2)
    async with a_token_giver(tmp_path) as (node, client):
        asked = create_token(create, "bob", owner="carol")
        answer = await by(client, "User:alice", create, asked)
        assert (answer.principal_name, answer.token_requester_principal_name) == ("carol", "alice")
        tokens = node.controller.image.delegation_tokens

        async def change(form: Form, who: str, period_ms: int, token: bytes = answer.hmac) -> int:
            period = timedelta(milliseconds=period_ms)
            request = form.request(hmac=token, renew_period=period, expiry_time_period=period)
            code: int = (await by(client, who, form, request)).error_code.value
            return code

        assert await change(renew, "User:bob", 5_000) == 0
        (token,) = tokens.values()
        assert token.expiration_timestamp_ms < token.issue_timestamp_ms + 60_000
        assert await change(renew, "User:alice", 5_000) == 63
        assert await change(expire, "User:bob", 5_000, b"unknown") == 62
        assert await change(expire, "User:mallory", -1) == 63
        assert await change(expire, "User:carol", -1) == 0
        assert not tokens
        assert await change(expire, "User:carol", -1) == 62


@pytest.mark.parametrize(
    ("who", "is_token", "config", "code"),
    [
        ("User:ANONYMOUS", False, TOKENS, 64),
        ("User:alice", True, TOKENS, 64),
        ("User:alice", False, DelegationTokenConfig(), 61),
        ("User:alice", False, DelegationTokenConfig(secret_key=""), 61),
    ],
)
async def test_nobody_gets_a_token_unnamed_or_by_a_token_or_without_a_key(
    tmp_path: Path, who: str, is_token: bool, config: DelegationTokenConfig, code: int
) -> None:
    async with a_token_giver(tmp_path, config) as (node, client):
        for api_key, fields in (
            (ApiKey.CREATE_DELEGATION_TOKEN, {"renewers": (), "max_lifetime": timedelta(0)}),
            (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"", "renew_period": timedelta(0)}),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"", "expiry_time_period": timedelta(0)}),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
        ):
            form = Form(api_key, OFFERED[api_key].highest)
            nobody = {"owner_principal_type": None, "owner_principal_name": None}
            answer = await by(
                client, who, form, form.request(**nobody, **fields), is_token=is_token
            )
            assert answer.error_code.value == code
        assert not node.controller.image.delegation_tokens


async def test_only_users_may_renew(tmp_path: Path) -> None:
    form = Form(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    async with a_token_giver(tmp_path) as (_, client):
        group = form.part("CreatableRenewers", principal_type="Group", principal_name="admins")
        asked = form.request(
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=(group,),
            max_lifetime=timedelta(0),
        )
        answer = await by(client, "User:alice", form, asked)
        assert (answer.error_code.value, answer.token_id, answer.hmac) == (67, "", b"")


async def test_expired_tokens_are_removed_and_others_found_again(tmp_path: Path) -> None:
    form = Form(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    async with a_token_giver(tmp_path) as (node, client):
        await by(client, "User:alice", form, create_token(form, lifetime_ms=1))
        last = await by(client, "User:alice", form, create_token(form))
        image = node.controller.image
        service = node.service
        assert service.tokens.find(image.delegation_tokens, last.hmac) == last.token_id
        while len(image.delegation_tokens) > 1:
            # The clock of the wall goes on by itself, and 1 ms is soon over.
            assert node.controller.forget_delegation_tokens(50_000) in (2_000, 50_000)
            await users(client)
        assert list(image.delegation_tokens) == [last.token_id]
        assert service.tokens.find(image.delegation_tokens, last.hmac) == last.token_id


# --- All of them ---------------------------------------------------------------------------------


async def test_any_controller_passes_them_on_with_the_same_outcome(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, authorizer=EVERYONE) as nodes:
        leader = await active(nodes.values())
        others = [node for node in nodes.values() if node is not leader]
        async with kafka_client(others[0].address) as client:
            form = Form(ApiKey.CREATE_ACLS, 3)
            answer = await client.send(form, create_acls(form))
            assert [each.error_code.value for each in answer.results] == [0]
            assert list(await described(client, 3)) == [(2, "t", 3)]
            form = Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
            assert await scram(client, alter_scram(form)) == {"alice": (0, None)}
            assert await users(client) == {"alice": [(1, 4096)]}
