import json
import logging
from typing import Any

import pytest
from msgspec import Struct

from controller.service import AUDIT_CHARACTERS_MAX, excerpt
from quorum.protocol.extension import Origin
from quorum.transport import refusal_log
from quorum.transport.audit_log import REQUESTER, WITHOUT_EFFECT_MAX, AuditLog, Requester
from quorum.transport.refusal_log import QUIET_MS
from statemachine.security.authorizer import Decision, Rule
from statemachine.security.rights import ALTER_CLUSTER, ALTER_TOPIC

ANN = Requester("User:ann", "10.0.0.1", "SSL", Origin.KAFKA, "CreateTopics")
NOBODY = Decision(False, Rule.NOT_ALLOWED)


class Request(Struct, frozen=True):
    """Some command, with a part that may be large."""

    parts: tuple[object, ...]
    inner: "Request | None" = None


class NeverShown:
    """Something that is beyond what a line has room for."""

    def __repr__(self) -> str:
        raise AssertionError("it was written out only to be cut")


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
    AuditLog(Clock()).carried_out("User:ann", "CreateTopics()", "done", 77)
    REQUESTER.reset(token)
    AuditLog(Clock()).carried_out("User:bob", "Other()", "done", None)
    known, unknown = lines()
    assert known == {
        "time": "2023-11-14T22:13:20.123Z",
        "principal": "User:ann",
        "host": "10.0.0.1",
        "listener": "SSL",
        "door": "kafka",
        "request": "CreateTopics()",
        "resource": None,
        "outcome": "done",
        "offset": 77,
    }
    assert (unknown["principal"], unknown["host"], unknown["offset"]) == ("User:bob", "", None)


def test_a_refusal_names_the_right_the_resource_and_the_rule(lines: Any) -> None:
    AuditLog(Clock()).denied(ANN, ALTER_TOPIC, "a\nb", NOBODY)
    (line,) = lines()
    assert line["request"] == "CreateTopics"
    assert line["resource"] == "TOPIC a\nb"
    assert line["outcome"] == "denied: ALTER on TOPIC is needed; no ACL allows it"


def test_refusals_that_repeat_are_counted(lines: Any) -> None:
    clock = Clock()
    log = AuditLog(clock)
    for number in range(5):
        log.denied(ANN, ALTER_TOPIC, f"topic-{number}", NOBODY)
    log.denied(ANN, ALTER_CLUSTER, "kafka-cluster", NOBODY)
    clock.ms += QUIET_MS
    log.denied(ANN, ALTER_TOPIC, "topic-5", NOBODY)
    assert [(each["resource"], each.get("repeated")) for each in lines()] == [
        ("TOPIC topic-0", None),
        ("CLUSTER kafka-cluster", None),
        ("TOPIC topic-5", 4),
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
        log.without_effect("User:ann", "DeleteTopics", f"DeleteTopics({number})", "no such topic")
        log.carried_out("User:ann", f"DeleteTopics({number})", "done", number)
    log.without_effect("User:ann", "CreateTopics", "CreateTopics()", "it exists")
    clock.ms += QUIET_MS
    log.without_effect("User:ann", "DeleteTopics", "DeleteTopics(100)", "no such topic")
    said = lines()
    assert [each["offset"] for each in said if each["outcome"] == "done"] == list(range(100))
    others = [each for each in said if each["outcome"] != "done"]
    assert {each["offset"] for each in others} == {None}
    assert [each["request"] for each in others] == [
        *(f"DeleteTopics({number})" for number in range(WITHOUT_EFFECT_MAX)),
        "CreateTopics()",
        "DeleteTopics(100)",
    ]
    assert others[-1]["repeated"] == 100 - WITHOUT_EFFECT_MAX


def test_a_large_request_is_logged_by_its_beginning_only() -> None:
    """A request of 100,000 partitions would hold up whoever leads for half a second."""
    large = ("a-partition",) * AUDIT_CHARACTERS_MAX + (NeverShown(),)
    asked_for = excerpt(Request((), inner=Request(large)))
    assert asked_for.startswith("Request(parts=(), inner=Request(parts=('a-partition', 'a-")
    assert asked_for.endswith("...")
    assert len(asked_for) == AUDIT_CHARACTERS_MAX + len("...")
