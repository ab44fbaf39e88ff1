"""The authorizer decides as StandardAuthorizer; its index is never anything but the ACLs' own.

tests/process/test_authorizer_oracle.py asks Kafka's own class.
"""

import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine.image.image import Image
from statemachine.image.snapshot import begin, load
from statemachine.records.kafka_records import (
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    EndTransaction,
    Record,
    RemoveAccessControlEntry,
)
from statemachine.replay import replay
from statemachine.security.authorizer import (
    Authorizer,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    Rule,
)
from tests.statemachine.support.acl_sets import (
    OPERATIONS,
    Request,
    image_of,
    random_scene,
    slowly,
    slowly_by_type,
)
from tests.statemachine.support.reference_checks import acls_indexed, acls_scanned

ACL = AccessControlEntry(
    id=UUID(int=1),
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=PermissionType.ALLOW,
)
ASKED = Request("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")


@given(seed=st.integers(0, 2**32))
def test_it_decides_as_a_look_at_every_acl_does(seed: int) -> None:
    rng = random.Random(seed)
    scene = random_scene(rng, acls=rng.choice([0, 5, 40]), requests=30, operations=len(OPERATIONS))
    authorizer = Authorizer(
        image_of(scene.acls), super_users=scene.super_users, allow_if_no_acl=scene.allow_if_no_acl
    )
    for asked in scene.requests:
        assert authorizer.authorize(*asked).allowed == slowly(scene, asked), asked
        by_type = authorizer.authorize_by_resource_type(*asked[:4])
        assert by_type.allowed == slowly_by_type(scene, asked), asked


@given(seed=st.integers(0, 2**32))
def test_the_index_follows_every_change_and_its_undoing(seed: int) -> None:
    rng = random.Random(seed)
    acls = random_scene(rng, acls=20, requests=0, operations=3).acls
    image, states = Image(), []
    image.begin_undo_log(0)
    for _ in range(40):
        # Ids come again, and so do ACLs under other ids, which no controller of Kafka's writes.
        acl = replace(rng.choice(acls), id=UUID(int=rng.randrange(6)))
        states.append(acls_indexed(image))
        gone = RemoveAccessControlEntry(id=acl.id)
        record: Record = gone if rng.random() < 0.3 else acl
        replay(image, record, image.end_offset)
        assert acls_indexed(image) == acls_scanned(image)
    image.committed(10)
    for offset in (30, 10):
        image.rewind(offset)
        assert acls_indexed(image) == acls_scanned(image) == states[offset]
    snapshot = begin(image, 10)
    assert snapshot is not None
    image.become(load([each for group in snapshot for each in group], 10))
    assert acls_indexed(image) == states[10]


def test_an_acl_that_is_there_twice_goes_with_the_second_removal() -> None:
    image = image_of([ACL, replace(ACL, id=UUID(int=2)), replace(ACL, id=UUID(int=3))])
    authorizer = Authorizer(image)
    for number, allowed in ((1, True), (2, True), (3, False)):
        replay(image, RemoveAccessControlEntry(id=UUID(int=number)), image.end_offset)
        assert authorizer.authorize(*ASKED).allowed is allowed
    assert not acls_indexed(image)


def test_super_users_may_do_everything_before_anything_is_loaded() -> None:
    loaded = False
    image = image_of([replace(ACL, permission_type=PermissionType.DENY)])
    authorizer = Authorizer(
        image, super_users=["User:root"], allow_if_no_acl=True, is_ready=lambda: loaded
    )
    other = ASKED._replace(resource_name="other")
    assert authorizer.authorize(*other._replace(principal="User:root")).rule is Rule.SUPER_USER
    for decision in (
        authorizer.authorize(*other),
        authorizer.authorize_by_resource_type(*other[:4]),
    ):
        assert (decision.allowed, decision.rule) == (False, Rule.NOT_READY)
    loaded = True
    assert authorizer.authorize(*other).allowed
    assert authorizer.authorize(*ASKED).reason == (
        "ACL DENY READ on TOPIC LITERAL orders to User:alice from *"
    )


@pytest.mark.parametrize("allow_if_no_acl", [False, True])
def test_without_an_acl_for_the_resource_the_setting_decides(allow_if_no_acl: bool) -> None:
    authorizer = Authorizer(image_of([ACL]), allow_if_no_acl=allow_if_no_acl)
    decision = authorizer.authorize(*ASKED._replace(resource_name="other"))
    assert (decision.allowed, decision.rule) == (allow_if_no_acl, Rule.NO_ACL_FOUND)
    # One for somebody else is an ACL for the resource.
    decision = authorizer.authorize(*ASKED._replace(principal="User:bob"))
    assert (decision.allowed, decision.rule) == (False, Rule.NOT_ALLOWED)


@pytest.mark.parametrize("operation", [each for each in Operation if each > Operation.ANY])
def test_only_an_allowed_operation_implies_another(operation: Operation) -> None:
    implied = {operation}
    if operation is Operation.ALL:
        implied = set(OPERATIONS)
    elif operation in {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}:
        implied.add(Operation.DESCRIBE)
    elif operation is Operation.ALTER_CONFIGS:
        implied.add(Operation.DESCRIBE_CONFIGS)
    acl = replace(ACL, operation=operation)
    everything = replace(ACL, id=UUID(int=2), operation=Operation.ALL)
    denial = replace(acl, permission_type=PermissionType.DENY)
    allowing, denying = Authorizer(image_of([acl])), Authorizer(image_of([everything, denial]))
    for asked in OPERATIONS:
        request = ASKED._replace(operation=asked)
        assert allowing.authorize(*request).allowed == (asked in implied)
        is_denied = asked is operation or operation is Operation.ALL
        assert denying.authorize(*request).allowed != is_denied


def test_the_acl_that_decides_is_named() -> None:
    prefixed = replace(
        ACL,
        id=UUID(int=2),
        resource_name="ord",
        pattern_type=PatternType.PREFIXED,
        principal="User:*",
        operation=Operation.ALL,
        host="10.0.0.1",
    )
    image = image_of([ACL, prefixed])
    authorizer = Authorizer(image)
    assert authorizer.authorize(*ASKED._replace(resource_name="order")).reason == (
        "ACL ALLOW ALL on TOPIC PREFIXED ord to User:* from 10.0.0.1"
    )
    denial = replace(prefixed, id=UUID(int=3), permission_type=PermissionType.DENY)
    replay(image, denial, image.end_offset)
    decision = authorizer.authorize(*ASKED)
    assert decision.acl is not None
    assert (decision.allowed, decision.acl.permission) == (False, PermissionType.DENY)


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        # As StandardAuthorizer reads what only a later release could write.
        ({"operation": 99}, False),
        ({"operation": -1}, False),
        ({"permission_type": 99}, False),
        ({"resource_type": 99}, True),
        ({"pattern_type": 99, "resource_name": "ord"}, True),
    ],
)
def test_numbers_that_are_not_known_are_read_as_kafka_reads_them(
    fields: dict[str, int | str], allowed: bool
) -> None:
    authorizer = Authorizer(image_of([replace(ACL, **fields)]), allow_if_no_acl=True)
    assert authorizer.authorize(*ASKED).allowed is allowed


def test_what_is_remembered_by_type_does_not_outlive_a_change() -> None:
    image = image_of([ACL])
    authorizer = Authorizer(image)
    assert authorizer.authorize_by_resource_type(*ASKED[:4]).allowed
    replay(image, RemoveAccessControlEntry(id=ACL.id), image.end_offset)
    assert not authorizer.authorize_by_resource_type(*ASKED[:4]).allowed
    image.become(image_of([ACL]))
    assert authorizer.authorize_by_resource_type(*ASKED[:4]).allowed


def uncommitted(*records: Record) -> Image:
    """An image of an active controller that has replayed these records, from offset 10 on."""
    image = Image()
    image.advance(10)
    image.begin_undo_log(10)
    for record in records:
        replay(image, record, image.end_offset)
    return image


def test_acls_are_in_force_once_they_are_committed() -> None:
    image = uncommitted(ACL, replace(ACL, id=UUID(int=2), permission_type=PermissionType.DENY))
    authorizer = Authorizer(image)
    assert image.acl_index.has(ACL)
    assert authorizer.authorize(*ASKED).rule is Rule.NO_ACL_FOUND
    image.committed(11)
    assert authorizer.authorize(*ASKED).allowed
    image.committed(12)
    assert not authorizer.authorize(*ASKED).allowed


def test_removals_are_in_force_once_they_are_committed() -> None:
    image = uncommitted(ACL, RemoveAccessControlEntry(id=ACL.id))
    image.committed(11)
    assert not image.acl_index.has(ACL)
    assert Authorizer(image).authorize(*ASKED).allowed
    image.committed(12)
    assert not Authorizer(image).authorize(*ASKED).allowed


def test_acls_that_are_undone_never_were_in_force() -> None:
    other = replace(ACL, id=UUID(int=2), resource_name="invoices")
    image = uncommitted(ACL, other, RemoveAccessControlEntry(id=ACL.id))
    image.committed(11)
    image.rewind(11)
    image.end_undo_log()
    assert (image.acl_index.has(ACL), image.acl_index.has(other)) == (True, False)
    assert Authorizer(image).authorize(*ASKED).allowed
    assert acls_indexed(image) == acls_scanned(image)


def test_acls_of_a_transaction_are_in_force_once_it_has_ended() -> None:
    for is_leader in (False, True):
        for end, allowed in ((EndTransaction(), True), (AbortTransaction(reason=""), False)):
            image = uncommitted(BeginTransaction(), ACL)
            if is_leader:
                image.committed(12)
            else:
                image.end_undo_log()
            assert not Authorizer(image).authorize(*ASKED).allowed
            replay(image, end, image.end_offset)
            if is_leader:
                image.committed(13)
            assert Authorizer(image).authorize(*ASKED).allowed is allowed
            assert acls_indexed(image) == acls_scanned(image)
