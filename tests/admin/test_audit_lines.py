import json
import logging
from typing import Any

import pytest

from controller.audited_actions import AuditedRequest, Outcome, outcomes
from controller.ports import Unavailable
from quorum.core.messages import TransferRequest
from quorum.core.vocabulary import ReplicaId
from quorum.protocol.extension import Origin
from quorum.transport import refusal_log
from quorum.transport.audit_log import (
    ACTIONS_MAX,
    CHARACTERS_MAX,
    REQUESTER,
    WITHOUT_EFFECT_MAX,
    Action,
    AuditLog,
    Requester,
)
from quorum.transport.refusal_log import QUIET_MS
from statemachine.commands import (
    AclFilter,
    AlterClientQuotas,
    AlterReassignments,
    CancelMoves,
    CreateDelegationToken,
    DeleteAcls,
    ElectionType,
    ElectLeaders,
    IdempotentCommand,
    PauseMoves,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
    UnregisterBroker,
)
from statemachine.errors import Error
from statemachine.security.authorizer import Decision, Rule
from statemachine.security.rights import ALTER_CLUSTER, ALTER_TOPIC

ANN = Requester("User:ann", "10.0.0.1", "SSL", Origin.KAFKA, "CreateTopics")
NOBODY = Decision(False, Rule.NOT_ALLOWED)


CREATE = Action("CREATE", "Topic:a")
DELETE = Action("DELETE", "Topic:a")


class Clock:
    """A wall clock that the test sets."""

    ms = 1_700_000_000_123

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, logger="audit")
    return lambda: [json.loads(each) for each in caplog.messages]


def test_a_line_says_who_did_what_from_where_and_how_it_ended(lines: Any) -> None:
    token = REQUESTER.set(ANN)
    AuditLog(Clock()).carried_out("User:ann", "CreateTopics", [CREATE], "NONE", 77)
    REQUESTER.reset(token)
    AuditLog(Clock()).carried_out("User:bob", "Other", [], "REQUEST_TIMED_OUT", None, reason="why")
    known, unknown = lines()
    assert known == {
        "time": "2023-11-14T22:13:20.123Z",
        "principal": "User:ann",
        "host": "10.0.0.1",
        "listener": "SSL",
        "door": "kafka",
        "request": "CreateTopics",
        "actions": [{"operation": "CREATE", "resource": "Topic:a"}],
        "outcome": "NONE",
        "offset": 77,
    }
    assert (unknown["request"], unknown["reason"]) == ("Other", "why")
    assert (unknown["principal"], unknown["host"], unknown["offset"]) == ("User:bob", "", None)


def test_a_refusal_names_the_right_the_resource_and_the_rule(lines: Any) -> None:
    AuditLog(Clock()).denied(ANN, ALTER_TOPIC, "a\nb", NOBODY)
    (line,) = lines()
    assert line["request"] == "CreateTopics"
    assert line["actions"] == [{"operation": "ALTER", "resource": "Topic:a\nb"}]
    assert line["outcome"] == "TOPIC_AUTHORIZATION_FAILED"
    assert line["reason"] == "no ACL allows it"


def test_a_refusal_where_no_acl_names_the_resource_says_what_the_setting_is(lines: Any) -> None:
    AuditLog(Clock()).denied(ANN, ALTER_TOPIC, "a", Decision(False, Rule.NO_ACL_FOUND))
    (line,) = lines()
    assert line["reason"] == "no ACL allows it, and allow.everyone.if.no.acl.found is false"


def test_refusals_that_repeat_are_counted(lines: Any) -> None:
    clock = Clock()
    log = AuditLog(clock)
    for number in range(5):
        log.denied(ANN, ALTER_TOPIC, f"topic-{number}", NOBODY)
    log.denied(ANN, ALTER_CLUSTER, "kafka-cluster", NOBODY)
    clock.ms += QUIET_MS
    log.denied(ANN, ALTER_TOPIC, "topic-5", NOBODY)
    assert [(each["actions"][0]["resource"], each.get("repeated")) for each in lines()] == [
        ("Topic:topic-0", None),
        ("Cluster:kafka-cluster", None),
        ("Topic:topic-5", 4),
    ]


def test_refusals_of_many_requesters_share_one_line(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_log, "KEYS_MAX", 3)
    log = AuditLog(Clock())
    for number in range(1_000):
        log.denied(Requester(f"User:{number}"), ALTER_TOPIC, "t", NOBODY)
    assert len(lines()) == 4
    assert len(log._repetitions._counts) == 4


def test_requests_without_effect_are_bounded_and_changes_are_not(lines: Any) -> None:
    clock = Clock()
    log = AuditLog(clock)
    for number in range(100):
        log.without_effect("User:ann", "DeleteTopics", [DELETE], "INVALID_REQUEST")
        log.carried_out("User:ann", "DeleteTopics", [DELETE], "NONE", number)
    log.without_effect("User:ann", "CreateTopics", [CREATE], "TOPIC_ALREADY_EXISTS")
    clock.ms += QUIET_MS
    log.without_effect("User:ann", "DeleteTopics", [DELETE], "INVALID_REQUEST")
    said = lines()
    assert [each["offset"] for each in said if each["outcome"] == "NONE"] == list(range(100))
    others = [each for each in said if each["outcome"] != "NONE"]
    assert {each["offset"] for each in others} == {None}
    assert [each["request"] for each in others] == [
        *["DeleteTopics"] * WITHOUT_EFFECT_MAX,
        "CreateTopics",
        "DeleteTopics",
    ]
    assert others[-1]["repeated"] == 100 - WITHOUT_EFFECT_MAX


def test_a_large_request_is_logged_by_its_first_actions_only() -> None:
    parts = tuple(Reassignment(topic="t", partition=each, replicas=(1,)) for each in range(100_000))
    results = tuple(ReassignmentAltered(topic="t", partition=each.partition) for each in parts)
    refused = Error.UNKNOWN_TOPIC_OR_PARTITION
    wrong = ReassignmentAltered(topic="t", partition=0, error=refused, message="no such topic")
    keyed = IdempotentCommand(
        key="k", fingerprint=b"", command=AlterReassignments(reassignments=parts)
    )
    done, failed = outcomes(keyed, ReassignmentsAltered(partitions=(*results[:-1], wrong)))
    assert (done.error, done.count, len(done.actions)) == ("NONE", 99_999, ACTIONS_MAX)
    assert done.actions[3] == Action("ALTER", "Topic:t", "partition 3: to 1")
    last = Action("ALTER", "Topic:t", "partition 99999: to 1")
    assert failed == Outcome(refused.name, "no such topic", [last], 1)


def test_names_are_cut() -> None:
    action = Action.of(ALTER_TOPIC, "n" * 100_000, "d" * 100_000)
    assert (len(action.resource), len(action.detail)) == (CHARACTERS_MAX + 3, CHARACTERS_MAX + 3)


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        (
            CancelMoves(partitions=(("t", 1),), topics=("u",), moves=(7,), everything=True),
            "ALTER Topic:t partition 1: cancel|ALTER Topic:u cancel|"
            "ALTER Cluster:kafka-cluster cancel move 7|"
            "ALTER Cluster:kafka-cluster cancel all moves",
        ),
        (PauseMoves(moves=None), "ALTER Cluster:kafka-cluster pause all moves"),
        (
            ElectLeaders(election=ElectionType.UNCLEAN, partitions=(("t", 0),)),
            "ALTER Topic:t partition 0: unclean leader",
        ),
        (UnregisterBroker(broker_id=5), "ALTER Cluster:kafka-cluster unregister broker 5"),
        (TransferRequest(ReplicaId(2)), "ALTER Cluster:kafka-cluster Transfer(to 2)"),
        (
            DeleteAcls(
                filters=(
                    AclFilter(resource_type=99, pattern_type=1, operation=1, permission_type=1),
                )
            ),
            "ALTER Unknown:any ANY ANY to any from any, pattern ANY",
        ),
        (
            CreateDelegationToken(
                token_id="i", owner="User:o", requester="User:o", renewers=(),
                max_lifetime_ms=0, default_max_lifetime_ms=0, default_renew_period_ms=0,
            ),
            "CREATE_TOKENS User:o ",
        ),
        (AlterClientQuotas(changes=()), ""),
    ],
)  # fmt: skip
def test_actions_are_named_as_kafka_names_them(command: AuditedRequest, actions: str) -> None:
    found = outcomes(command, Unavailable.LEAD_LOST)
    said = [f"{a.operation} {a.resource} {a.detail}" for each in found for a in each.actions]
    assert "|".join(said) == actions
    assert {each.error for each in found} <= {"REQUEST_TIMED_OUT"}
