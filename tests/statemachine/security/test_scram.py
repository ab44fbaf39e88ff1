"""AlterUserScramCredentials and DescribeUserScramCredentials, as Kafka's ScramControlManager."""

from typing import Any

import pytest

from statemachine.commands import AlterUserScramCredentials, FoundCluster
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.records import codec
from statemachine.records.field_names import as_kafka
from statemachine.records.kafka_records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    Record,
    RemoveUserScramCredential,
    UserScramCredential,
)
from statemachine.replay import replay
from statemachine.security.scram import describe_user_scram_credentials
from statemachine.slices import whole
from tests.statemachine.support.world import World


def upsert(user: str, mechanism: int = 1, iterations: int = 4_096, **f: Any) -> UserScramCredential:
    known = {"salt": b"salt", "stored_key": b"stored", "server_key": b"server"}
    return UserScramCredential(
        name=user, mechanism=mechanism, iterations=iterations, **{**known, **f}
    )


def delete(user: str, mechanism: int = 1) -> RemoveUserScramCredential:
    return RemoveUserScramCredential(name=user, mechanism=mechanism)


def alter(
    world: World, *asked: RemoveUserScramCredential | UserScramCredential
) -> dict[str, tuple[Error, str]]:
    command = AlterUserScramCredentials(
        deletions=tuple(e for e in asked if isinstance(e, RemoveUserScramCredential)),
        upsertions=tuple(e for e in asked if isinstance(e, UserScramCredential)),
    )
    answer: Any = world.ask(command).answer
    return {each.user: (each.error, each.message) for each in answer.users}


OK = (Error.NONE, "")
TWICE = (
    Error.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


def test_credentials_are_set_changed_and_deleted() -> None:
    world = World()
    assert alter(world, upsert("a"), upsert("b", 2, 16_384)) == {"a": OK, "b": OK}
    assert alter(world, upsert("a", iterations=8_192), delete("b", 2)) == {"a": OK, "b": OK}
    assert world.image.scram_credentials == {("a", 1): upsert("a", iterations=8_192)}


def uncommitted(*records: Record) -> Image:
    """An image that has replayed the first record, and the others before their commit."""
    image = Image()
    replay(image, records[0], 0)
    image.begin_undo_log(1)
    for record in records[1:]:
        replay(image, record, image.end_offset)
    return image


def in_force(image: Image, user: str) -> UserScramCredential | None:
    return image.committed_scram_credentials.get((user, 1))


def test_a_credential_is_in_force_once_it_is_committed() -> None:
    old, new = upsert("a"), upsert("a", iterations=8_192)
    image = uncommitted(old, new, upsert("b"), delete("a"))
    assert image.scram_credentials == {("b", 1): upsert("b")}
    found = []
    for offset in (1, 2, 3, 4):
        image.committed(offset)
        found.append((in_force(image, "a"), in_force(image, "b")))
    assert found == [(old, None), (new, None), (new, upsert("b")), (None, upsert("b"))]


def test_a_credential_that_is_lost_with_the_lead_never_was_in_force() -> None:
    image = uncommitted(upsert("a"), upsert("b"), delete("a"))
    image.committed(2)
    image.rewind(2)
    image.end_undo_log()
    assert (in_force(image, "a"), in_force(image, "b")) == (upsert("a"), upsert("b"))


def test_credentials_of_an_aborted_transaction_never_are_in_force() -> None:
    for end, kept in ((EndTransaction(), True), (AbortTransaction(reason=""), False)):
        image = Image()
        replay(image, BeginTransaction(name="t"), 0)
        replay(image, upsert("a"), 1)
        assert in_force(image, "a") is None
        replay(image, end, 2)
        assert (in_force(image, "a") is not None) == kept


def test_a_loaded_image_brings_its_credentials() -> None:
    image, loaded = uncommitted(upsert("a")), uncommitted(upsert("b"))
    image.become(loaded)
    assert (in_force(image, "a"), in_force(image, "b")) == (None, upsert("b"))
    replay(image, delete("b"), image.end_offset)
    image.committed(image.end_offset)
    assert in_force(image, "b") is None


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (upsert(""), Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (delete(""), Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("u", 0), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert("u", 3), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (delete("u", 3), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            upsert("u", salt=b""),
            Error.UNACCEPTABLE_CREDENTIAL,
            "the salt has 0 bytes; it may have 1 to 1024",
        ),
        (
            upsert("u", salt=bytes(1_025)),
            Error.UNACCEPTABLE_CREDENTIAL,
            "the salt has 1025 bytes; it may have 1 to 1024",
        ),
        (upsert("u", 1, 4_095), Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert("u", 2, 16_385), Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            delete("u", 2),
            Error.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (
            upsert("u", stored_key=b""),
            Error.UNACCEPTABLE_CREDENTIAL,
            "the salted password is empty",
        ),
        (
            upsert("u" * 40_000),
            Error.UNACCEPTABLE_CREDENTIAL,
            "the name of a user may have 32767 bytes",
        ),
    ],
)
def test_a_credential_that_is_not_allowed_is_refused_alone(
    asked: RemoveUserScramCredential | UserScramCredential, error: Error, message: str
) -> None:
    world = World()
    alter(world, upsert("u"))
    before = dict(world.image.scram_credentials)
    answers = alter(world, asked, upsert("other"))
    assert answers == {asked.name: (error, message), "other": OK}
    assert world.image.scram_credentials == {**before, ("other", 1): upsert("other")}


def test_a_user_that_is_named_twice_is_not_changed() -> None:
    """Even with two mechanisms: Kafka counts users."""
    world = World()
    alter(world, upsert("a"))
    alter(world, upsert("a", 2))
    for asked in (
        (upsert("a"), upsert("a", 2)),
        (delete("a"), upsert("a", 2)),
        (delete("a"), delete("a", 2)),
        (delete("a"), delete("a", 2), upsert("a"), upsert("a")),
    ):
        assert alter(world, *asked) == {"a": TWICE}
    assert len(world.image.scram_credentials) == 2


def test_the_first_fault_of_a_user_is_told() -> None:
    assert alter(World(), delete("a"), upsert("a"))["a"][0] is Error.RESOURCE_NOT_FOUND


def test_credentials_are_described_without_secrets() -> None:
    world = World()
    alter(world, upsert("b", 2, 5_000), upsert("a"))
    alter(world, upsert("b"))

    def found(*users: str) -> list[tuple[str, Any, list[tuple[int, int]]]]:
        return [
            (
                each.user,
                each.refusal and (each.refusal.error, each.refusal.message),
                [(info.mechanism, info.iterations) for info in each.infos],
            )
            for each in whole(describe_user_scram_credentials(world.image, users))
        ]

    both = [("a", None, [(1, 4_096)]), ("b", None, [(1, 4_096), (2, 5_000)])]
    assert found() == both
    assert found("b", "a") == [both[1], both[0]]
    assert found("a", "x", "b", "a") == [
        (
            "a",
            (
                Error.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request: a",
            ),
            [],
        ),
        (
            "x",
            (
                Error.RESOURCE_NOT_FOUND,
                "Attempt to describe a user credential that does not exist: x",
            ),
            [],
        ),
        both[1],
    ]


def test_no_text_of_a_credential_shows_its_secrets() -> None:
    credential = upsert("a")
    shown = [
        repr(credential),
        str(AlterUserScramCredentials(upsertions=(credential,))),
        str(as_kafka(codec.decode(codec.encode(credential, 29)), 0)),
    ]
    for text in shown:
        assert "4096" in text
        assert not any(secret in text for secret in ("stored'", "server'", "b'"))
    assert as_kafka(credential, 0)["storedKey"] == "(redacted)"


def test_a_cluster_is_founded_with_credentials() -> None:
    """KIP-900: they are in the transaction that puts the features in force."""
    image = Image()
    command = FoundCluster(metadata_version=29, scram_credentials=(upsert("a"), upsert("b", 2)))
    for record in decide(image, command).records:
        replay(image, record, image.end_offset)
    assert image.transaction is None
    assert list(image.scram_credentials) == [("a", 1), ("b", 2)]
    assert decide(image, command).records == ()
