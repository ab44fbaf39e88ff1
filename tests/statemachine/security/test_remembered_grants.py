"""Nodes ask all the time: the grant of CLUSTER_ACTION is remembered until an ACL changes."""

from typing import NamedTuple
from uuid import UUID

from statemachine.image.image import Image
from statemachine.records.kafka_records import AccessControlEntry, RemoveAccessControlEntry
from statemachine.replay import replay
from statemachine.security.authorization import Authorization, AuthorizerConfig
from statemachine.security.authorizer import CLUSTER_NAME, Operation, Rule
from statemachine.security.rights import ALTER_CLUSTER, UNLIMITED, Needs
from tests.support.acl_rights import acl


class Asking(NamedTuple):
    principal: str
    host: str = "10.0.0.1"


class Scene:
    """The authorization of a node, and what it decided and told."""

    def __init__(self) -> None:
        self.image = Image()
        self.is_loaded = True
        self.asked = 0
        self.denied: list[str] = []
        config = AuthorizerConfig(super_users=frozenset({"User:admin"}))
        self.authorization: Authorization[Asking] = Authorization(
            config.authorizer(self.image, lambda: self.is_loaded),
            lambda asking, right, name, decision: self.denied.append(
                f"{asking.principal} {right} {name}: {decision.reason}"
            ),
        )

    def grant(self, principal: str, number: int = 1) -> None:
        entry = acl(principal, "CLUSTER_ACTION CLUSTER", id=UUID(int=number))
        record = AccessControlEntry(**{n: getattr(entry, n) for n in entry.__struct_fields__})
        replay(self.image, record, self.image.end_offset)

    def may_act(self, connection: int, principal: object, name: str = "User:n") -> Rule | None:
        def asking() -> Asking:
            self.asked += 1
            return Asking(name)

        return self.authorization.may_act(connection, principal, asking)


def test_a_grant_is_remembered_for_the_connection_and_the_principal() -> None:
    scene, me, other = Scene(), object(), object()
    scene.grant("User:n")
    assert [scene.may_act(1, me) for _ in range(5)] == [None] * 5
    assert scene.asked == 1
    assert scene.may_act(2, me) is None
    assert scene.asked == 2
    # The connection has authenticated again, as somebody else.
    assert scene.may_act(1, other, "User:eve") is Rule.NOT_ALLOWED
    assert scene.denied == [f"User:eve CLUSTER_ACTION on CLUSTER {CLUSTER_NAME}: no ACL allows it"]


def test_a_change_of_the_acls_ends_it() -> None:
    scene, me = Scene(), object()
    scene.grant("User:n")
    assert scene.may_act(1, me) is None
    replay(scene.image, RemoveAccessControlEntry(id=UUID(int=1)), scene.image.end_offset)
    assert scene.may_act(1, me) is not None
    scene.grant("User:n", 2)
    assert scene.may_act(1, me) is None


def test_a_refusal_is_not_remembered() -> None:
    scene, me = Scene(), object()
    scene.is_loaded = False
    assert scene.may_act(1, me) is Rule.NOT_READY
    assert scene.may_act(2, me, "User:admin") is None
    scene.is_loaded = True
    scene.grant("User:n")
    assert scene.may_act(1, me) is None


def test_without_an_authorizer_nobody_is_asked() -> None:
    authorization: Authorization[Asking] = Authorization(None, lambda *_: None)
    assert authorization.is_loaded
    assert authorization.access(Asking("User:n")) is UNLIMITED
    assert UNLIMITED.may(ALTER_CLUSTER)
    assert authorization.may_act(1, object(), lambda: Asking("User:n")) is None


def test_needs_read_as_a_sentence() -> None:
    assert str(Needs(ALTER_CLUSTER)) == "ALTER on CLUSTER"
    assert str(Needs()) == "nothing"
    assert ALTER_CLUSTER.operation is Operation.ALTER
