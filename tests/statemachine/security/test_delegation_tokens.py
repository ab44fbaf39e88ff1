"""Delegation tokens are given, renewed and removed as by Kafka's DelegationTokenControlManager."""

from typing import Any

import pytest
from msgspec.structs import replace

from statemachine.commands import (
    CreateDelegationToken,
    ExpireDelegationToken,
    ForgetDelegationTokens,
    RenewDelegationToken,
)
from statemachine.errors import Error
from statemachine.limits import DELEGATION_TOKENS_FORGOTTEN_MAX
from statemachine.records.kafka_records import DelegationToken, RemoveDelegationToken
from statemachine.security import delegation_tokens
from statemachine.security.delegation_tokens import describe_delegation_tokens, has_expired_tokens
from statemachine.slices import whole
from tests.statemachine.support.world import World

DAY, WEEK = 1_000, 7_000
CREATE = CreateDelegationToken(
    token_id="t",
    owner="User:alice",
    requester="User:alice",
    renewers=("User:bob",),
    max_lifetime_ms=-1,
    default_max_lifetime_ms=WEEK,
    default_renew_period_ms=DAY,
)
RENEW = RenewDelegationToken(
    token_id="t", requester="User:bob", renew_period_ms=-1, default_renew_period_ms=DAY
)
EXPIRE = ExpireDelegationToken(token_id="t", requester="User:bob", expiry_period_ms=10)


def a_token(**fields: Any) -> World:
    world = World()
    assert given(world, replace(CREATE, **fields))[0] is Error.NONE
    return world


def given(world: World, command: Any) -> tuple[Error, int]:
    answer: Any = world.ask(command).answer
    return answer.error, answer.expiry_timestamp_ms


def test_a_token_names_who_asked_for_it_and_ends_by_the_defaults() -> None:
    world = a_token(owner="User:carol")
    now = world.now_ms
    assert world.image.delegation_tokens == {
        "t": DelegationToken(
            owner="User:carol",
            requester="User:alice",
            renewers=("User:bob",),
            issue_timestamp_ms=now,
            max_timestamp_ms=now + WEEK,
            expiration_timestamp_ms=now + DAY,
            token_id="t",
        )
    }


@pytest.mark.parametrize(
    ("asked", "end", "expiry"),
    [
        (0, WEEK, DAY),
        (2 * WEEK, WEEK, DAY),
        (3 * DAY, 3 * DAY, DAY),
        (DAY // 2, DAY // 2, DAY // 2),
    ],
)
def test_a_lifetime_may_only_be_shortened(asked: int, end: int, expiry: int) -> None:
    world = a_token(max_lifetime_ms=asked)
    token = world.image.delegation_tokens["t"]
    assert token.max_timestamp_ms == world.now_ms + end
    assert token.expiration_timestamp_ms == world.now_ms + expiry


def test_a_lifetime_beyond_all_times_is_the_last_one() -> None:
    endless = 2**63 - 1
    world = a_token(default_max_lifetime_ms=endless, default_renew_period_ms=endless)
    assert world.image.delegation_tokens["t"].expiration_timestamp_ms == endless


def test_only_users_renew() -> None:
    world = World()
    asked = replace(CREATE, renewers=("User:bob", "Group:admins"))
    assert given(world, asked) == (Error.INVALID_PRINCIPAL_TYPE, -1)
    assert not world.image.delegation_tokens


def test_owner_and_renewers_renew_within_the_lifetime() -> None:
    world = a_token()
    begin = world.now_ms
    for requester in ("User:alice", "User:bob"):
        world.now_ms += DAY
        renew = replace(RENEW, requester=requester)
        assert given(world, renew) == (Error.NONE, world.now_ms + DAY)
    assert given(world, replace(RENEW, renew_period_ms=5)) == (Error.NONE, world.now_ms + 5)
    assert given(world, replace(RENEW, renew_period_ms=2 * DAY))[1] == world.now_ms + DAY
    while world.now_ms < begin + WEEK - DAY:
        world.now_ms += DAY
        given(world, RENEW)
    assert given(world, RENEW) == (Error.NONE, begin + WEEK)
    world.now_ms += DAY + 1
    assert given(world, RENEW) == (Error.DELEGATION_TOKEN_EXPIRED, -1)


@pytest.mark.parametrize("command", [RENEW, EXPIRE])
def test_nobody_else_changes_a_token_and_one_that_is_not_there_is_not_found(command: Any) -> None:
    world = a_token(owner="User:carol")
    for stranger in ("User:alice", "User:mallory"):
        refused = given(world, replace(command, requester=stranger))
        assert refused == (Error.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    for missing in (None, "u"):
        refused = given(world, replace(command, token_id=missing))
        assert refused == (Error.DELEGATION_TOKEN_NOT_FOUND, -1)


def test_a_token_expires_when_its_owner_says_so() -> None:
    world = a_token()
    assert given(world, EXPIRE) == (Error.NONE, world.now_ms + 10)
    assert given(world, replace(EXPIRE, expiry_period_ms=9 * WEEK)) == (
        Error.NONE,
        world.now_ms + WEEK,
    )
    assert given(world, replace(EXPIRE, expiry_period_ms=0)) == (Error.NONE, world.now_ms)
    world.now_ms += 1
    assert given(world, EXPIRE) == (Error.DELEGATION_TOKEN_EXPIRED, -1)
    assert given(world, replace(EXPIRE, expiry_period_ms=-1)) == (Error.NONE, world.now_ms)
    assert not world.image.delegation_tokens


def test_expired_tokens_are_removed_a_bounded_number_at_a_time() -> None:
    world = World()
    count = DELEGATION_TOKENS_FORGOTTEN_MAX + 5
    for number in range(count):
        short = 10 if number else DAY
        given(world, replace(CREATE, token_id=str(number), max_lifetime_ms=short))
    assert not has_expired_tokens(world.image, world.now_ms + 10)
    world.now_ms += 11
    assert has_expired_tokens(world.image, world.now_ms)
    decision = world.ask(ForgetDelegationTokens())
    assert decision.records[0] == RemoveDelegationToken(token_id="1")
    assert len(decision.records) == DELEGATION_TOKENS_FORGOTTEN_MAX
    world.ask(ForgetDelegationTokens())
    assert list(world.image.delegation_tokens) == ["0"]
    assert world.ask(ForgetDelegationTokens()).records == ()


def test_a_principal_sees_its_own_tokens_and_those_it_may_describe() -> None:
    world = World()
    for token_id, owner, renewer in (("1", "a", "b"), ("2", "b", "c"), ("3", "c", "c")):
        given(
            world,
            replace(
                CREATE,
                token_id=token_id,
                owner=f"User:{owner}",
                requester=f"User:{owner}",
                renewers=(f"User:{renewer}",),
            ),
        )

    def seen(requester: str, *owners: str, every: bool = False, may: str = "") -> list[str]:
        asked = None if every else [f"User:{each}" for each in owners]
        found = whole(
            describe_delegation_tokens(
                world.image, f"User:{requester}", asked, lambda token: token.token_id in may
            )
        )
        return [each.token_id for each in found]

    assert seen("b", every=True) == ["1", "2"]
    assert seen("b", every=True, may="3") == ["1", "2", "3"]
    assert seen("b", "a") == ["1"]
    assert seen("b", "c") == ["2"]
    assert seen("x", "a", "b", "c") == []
    assert seen("b") == []


def test_whoever_asks_for_many_tokens_leaves_time_to_others() -> None:
    world = World()
    for number in range(250):
        given(world, replace(CREATE, token_id=str(number), owner="User:a", requester="User:a"))
    owners = [f"User:{number}" for number in range(4_000)]
    slices = describe_delegation_tokens(world.image, "User:a", owners, lambda _: False)
    assert [type(each) for each in slices] == [int, int, int]


def test_nobody_can_fill_the_controllers_with_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "DELEGATION_TOKENS_OF_REQUESTER_MAX", 2)
    monkeypatch.setattr(delegation_tokens, "DELEGATION_TOKENS_MAX", 4)
    world = World()

    def created(number: int, requester: str) -> Error:
        return given(world, replace(CREATE, token_id=str(number), requester=requester))[0]

    assert [created(each, "User:alice") for each in range(3)] == [
        Error.NONE,
        Error.NONE,
        Error.POLICY_VIOLATION,
    ]
    assert [created(each, f"User:{each}") for each in (3, 4, 5)] == [
        Error.NONE,
        Error.NONE,
        Error.POLICY_VIOLATION,
    ]
    assert len(world.image.delegation_tokens) == 4
    world.ask(replace(EXPIRE, token_id="0", expiry_period_ms=-1))
    assert created(6, "User:alice") is Error.NONE
