"""CreateAcls, DeleteAcls and DescribeAcls decide as Kafka's AclControlManager."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine.commands import AclCreation, AclFilter, CreateAcls, DeleteAcls
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import ACL_RECORDS_MAX, ACL_TEXT_BYTES_MAX
from statemachine.records.kafka_records import AccessControlEntry, RemoveAccessControlEntry
from statemachine.security import acls
from statemachine.slices import whole
from tests.statemachine.support.world import World

EVERYTHING = AclFilter(resource_type=1, pattern_type=1, operation=1, permission_type=1)


def acl(number: int, name: str = "orders", **fields: Any) -> AclCreation:
    """ALLOW READ on that topic to User:alice from everywhere, unless `fields` say otherwise."""
    known: dict[str, Any] = {
        "resource_type": 2,
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(id=UUID(int=number), resource_name=name, **{**known, **fields})


def create(world: World, *creations: AclCreation) -> list[tuple[Error, str]]:
    answer: Any = world.ask(CreateAcls(creations=creations)).answer
    return [(each.error, each.message) for each in answer.results]


def numbers(found: Sequence[AccessControlEntry]) -> list[int]:
    return [each.id.int for each in found]


def deleted(world: World, *filters: AclFilter) -> list[list[int]]:
    answer: Any = world.ask(DeleteAcls(filters=filters)).answer
    assert {each.error for each in answer.results} <= {Error.NONE}
    return [numbers(each.acls) for each in answer.results]


def described(image: Image, asked: AclFilter) -> list[int]:
    found = whole(acls.describe_acls(image, asked))
    assert not isinstance(found, Refusal)
    return numbers(found)


def test_an_acl_is_created_once_and_a_second_time_is_a_success_without_a_record() -> None:
    world = World()
    ok = (Error.NONE, "")
    assert create(world, acl(1), acl(2), acl(3, operation=4)) == [ok] * 3
    assert create(world, acl(4)) == [ok]
    assert [each.int for each in world.image.acls] == [1, 3]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 5}, "Invalid patternType UNKNOWN"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 0}, "Invalid permissionType UNKNOWN"),
        ({"name": ""}, "Resource name should not be empty"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "principal 'alice' has no type: write it like User:alice"),
        ({"host": ""}, "the host is empty: * is every host"),
        ({"name": "x" * 40_000}, "a name, principal or host may have 32767 bytes"),
    ],
)
def test_an_acl_that_makes_no_sense_is_refused_and_the_others_are_created(
    fields: dict[str, Any], message: str
) -> None:
    world = World()
    refused = (Error.INVALID_REQUEST, message)
    assert create(world, acl(1), acl(2, **fields), acl(3, "b")) == [
        (Error.NONE, ""),
        refused,
        (Error.NONE, ""),
    ]
    assert [each.int for each in world.image.acls] == [1, 3]


def test_the_longest_name_and_the_one_name_of_the_cluster_are_taken() -> None:
    world = World()
    long = acl(1, "x" * ACL_TEXT_BYTES_MAX)
    cluster = acl(2, "kafka-cluster", resource_type=4, operation=9)
    assert create(world, long, cluster) == [(Error.NONE, "")] * 2


@pytest.mark.thorough
def test_more_than_one_request_may_change_is_refused_as_a_whole() -> None:
    world = World()
    creations = [acl(number, f"t{number}") for number in range(1, ACL_RECORDS_MAX + 2)]
    assert {error for error, _ in create(world, *creations)} == {Error.POLICY_VIOLATION}
    assert not world.image.acls
    create(world, *creations[1:])
    create(world, creations[0])
    answer: Any = world.ask(DeleteAcls(filters=(EVERYTHING, only("t1")))).answer
    assert [each.error for each in answer.results] == [Error.POLICY_VIOLATION, Error.NONE]
    assert len(world.image.acls) == ACL_RECORDS_MAX


def only(name: str | None, pattern_type: int = 3, **fields: Any) -> AclFilter:
    """A filter by the name of a topic."""
    asked = replace(EVERYTHING, resource_type=2, resource_name=name, pattern_type=pattern_type)
    return replace(asked, **fields)


def test_an_acl_that_several_filters_match_is_deleted_once_and_told_by_each() -> None:
    world = World()
    create(world, acl(1), acl(2, "other"), acl(3, "ord", pattern_type=4))
    decision = world.ask(DeleteAcls(filters=(only("orders"), only(None, 4), only("orders", 2))))
    answer: Any = decision.answer
    assert [numbers(each.acls) for each in answer.results] == [[1], [3], [1, 3]]
    assert list(decision.records) == [
        RemoveAccessControlEntry(id=UUID(int=number)) for number in (1, 3)
    ]
    assert described(world.image, EVERYTHING) == [2]


MATCHED = [
    acl(1, "orders"),
    acl(2, "*"),
    acl(3, "ord", pattern_type=4),
    acl(4, "orders", pattern_type=4),
    acl(5, "orders-2"),
    acl(6, "orders", resource_type=3),
    acl(7, "orders", principal="User:bob", host="10.0.0.1", operation=4, permission_type=2),
    acl(8, "x", pattern_type=4),
]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (EVERYTHING, [1, 2, 3, 4, 5, 6, 7, 8]),
        (only("orders"), [1, 7]),
        (only("orders", 4), [4]),
        (only("orders", 1), [1, 4, 7]),
        (only("orders", 2), [1, 2, 3, 4, 7]),
        (only("*", 2), [2]),
        (only("*"), [2]),
        (only(None), [1, 2, 5, 7]),
        (only(None, 4), [3, 4, 8]),
        (only(None, 2), [1, 2, 3, 4, 5, 7, 8]),
        (only("orders", principal="User:bob"), [7]),
        (only("orders", host="*"), [1]),
        (only("orders", operation=4), [7]),
        (only("orders", permission_type=2), [7]),
        (replace(EVERYTHING, resource_name="orders", pattern_type=3), [1, 6, 7]),
        (only("nothing"), []),
    ],
)
def test_a_filter_matches_as_in_kafka(asked: AclFilter, found: list[int]) -> None:
    """KIP-290: MATCH is every pattern that covers the resource, ANY every one of that name."""
    world = World()
    create(world, *MATCHED)
    assert described(world.image, asked) == found
    assert deleted(world, asked) == [found]
    assert described(world.image, asked) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": 0},
        {"resource_type": 42},
        {"pattern_type": 0},
        {"operation": 42},
        {"permission_type": -1},
    ],
)
def test_a_filter_with_a_number_that_is_not_known_is_refused(fields: dict[str, int]) -> None:
    world = World()
    create(world, acl(1))
    asked = replace(EVERYTHING, **fields)
    found = whole(acls.describe_acls(world.image, asked))
    assert isinstance(found, Refusal)
    assert found.error is Error.INVALID_REQUEST
    answer: Any = world.ask(DeleteAcls(filters=(asked, EVERYTHING))).answer
    assert [each.error for each in answer.results] == [Error.INVALID_REQUEST, Error.NONE]


FEW_FILTERS = st.builds(
    AclFilter,
    resource_type=st.integers(1, 3),
    resource_name=st.sampled_from([None, "a", "ab", "*"]),
    pattern_type=st.integers(1, 4),
    principal=st.sampled_from([None, "User:a"]),
    host=st.sampled_from([None, "*"]),
    operation=st.integers(1, 4),
    permission_type=st.integers(1, 3),
)
FEW_ACLS = st.lists(
    st.builds(
        acl,
        st.integers(1, 2**100),
        st.sampled_from(["a", "ab", "abc", "*"]),
        resource_type=st.integers(2, 3),
        pattern_type=st.integers(3, 4),
        principal=st.sampled_from(["User:a", "User:b"]),
        host=st.sampled_from(["*", "h"]),
        operation=st.integers(2, 4),
        permission_type=st.integers(2, 3),
    ),
    max_size=12,
)


@given(creations=FEW_ACLS, filters=st.lists(FEW_FILTERS, min_size=1, max_size=4))
def test_deleting_by_several_filters_finds_what_each_describes(
    creations: list[AclCreation], filters: list[AclFilter]
) -> None:
    world = World()
    create(world, *creations)
    expected = [described(world.image, each) for each in filters]
    assert deleted(world, *filters) == expected


def test_filters_that_would_compare_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    create(world, *MATCHED)
    monkeypatch.setattr(acls, "ACLS_COMPARED_MAX", 15)
    answer: Any = world.ask(DeleteAcls(filters=(EVERYTHING, EVERYTHING))).answer
    assert [each.error for each in answer.results] == [Error.POLICY_VIOLATION] * 2
    assert deleted(world, *[only(f"t{n}") for n in range(100)], only("orders")) == [
        *([[]] * 100),
        [1, 7],
    ]


def test_acls_are_told_by_pattern_without_repetition() -> None:
    world = World()
    create(world, acl(1), acl(2, operation=4), acl(3, "b"))
    told = acls.grouped(world.image.acls.values())
    assert [(each["resource_name"], len(each["acls"])) for each in told] == [
        ("orders", 2),
        ("b", 1),
    ]
    assert told[0]["acls"][1] == {
        "principal": "User:alice",
        "host": "*",
        "operation": 4,
        "permission_type": 3,
    }
