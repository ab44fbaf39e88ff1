"""The settings that our controllers take over of Kafka's, and those that they must not lack."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from admin.tools.migrate.findings import findings, is_blocked, obstacle
from admin.tools.migrate.guide import settings_text
from admin.tools.migrate.node_settings import lines_to_add, settings_of, taken_over
from admin.tools.migrate.state import Finding, Kind, Probe, Weight
from statemachine.security.authorization import STANDARD_AUTHORIZER
from tests.admin.tools.test_migration_planner import OURS, address, look

JAAS: Final = "listener.name.controller.plain.sasl.jaas.config"
TOKEN_KEY: Final = "delegation.token.secret.key"
KAFKAS: Final[Mapping[str, str | None]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "broker.id": "1",
    "broker.session.timeout.ms": "18000",
    "controller.listener.names": "CONTROLLER",
    TOKEN_KEY: None,
    "listener.name.clients.ssl.client.auth": "required",
    "listener.name.controller.ssl.client.auth": "requested",
    "listener.name.controller.scram-sha-512.sasl.jaas.config": None,
    JAAS: None,
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENTS:SASL_SSL",
    "listeners": "CONTROLLER://k1:9093",
    "log.dirs": "/kafka",
    "node.id": "1",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "ssl.keystore.location": "/etc/kafka/1.pem",
    "super.users": None,
}
"""What a controller of Kafka 4.3.1 tells of its file; None is hidden."""
OF_OURS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:a;User:b",
    TOKEN_KEY: "[hidden]",
}


def test_what_kafkas_controllers_tell_is_taken_over() -> None:
    assert taken_over(KAFKAS, "CONTROLLER").values == {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "broker.session.timeout.ms": "18000",
        "listener.name.controller.ssl.client.auth": "requested",
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENTS:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
    }


def test_what_they_hide_or_have_for_one_machine_is_left_to_the_operator() -> None:
    wanted = (TOKEN_KEY, JAAS, "ssl.keystore.location", "super.users")
    assert taken_over(KAFKAS, "CONTROLLER").to_add == wanted
    state = look(kafka_settings=KAFKAS)
    comment, *lines = lines_to_add(state)
    assert "Secured clusters" in comment
    assert lines == [f"# {name}=" for name in wanted]
    (note,) = (each for each in findings(state) if "do not tell the value" in each.sentence)
    assert note.weight is Weight.NOTE
    assert all(name in note.sentence for name in wanted)


def test_a_node_has_its_own_place_whatever_kafkas_have() -> None:
    found = settings_of(look(kafka_settings=KAFKAS), 11)
    assert (found["node.id"], found["listeners"]) == ("11", "CONTROLLER://10.0.0.1:9011")
    assert found["broker.session.timeout.ms"] == "18000"


def test_a_cluster_without_security_has_nothing_to_add() -> None:
    assert lines_to_add(look(kafka_settings={"num.partitions": "3"})) == []
    assert settings_of(look(kafka_settings={"num.partitions": "3"}), 11)["num.partitions"] == "3"


@pytest.mark.parametrize(
    ("name", "value", "weight"),
    [
        ("authorizer.class.name", "org.example.Ranger", Weight.BLOCKS),
        ("sasl.mechanism.controller.protocol", "GSSAPI", Weight.BLOCKS),
        ("super.users", "admin", Weight.BLOCKS),
        ("ssl.keystore.type", "JKS", Weight.NOTE),
        ("sasl.enabled.mechanisms", "GSSAPI", Weight.NOTE),
    ],
)
def test_a_setting_that_ours_cannot_have_is_told(name: str, value: str, weight: Weight) -> None:
    found = findings(look(kafka_settings={name: value}, our_settings={11: OF_OURS}))
    (told,) = (each for each in found if "cannot take over" in each.sentence)
    assert told.weight is weight
    assert name in told.sentence
    assert value in told.sentence


def blocked(kafkas: Mapping[str, str | None], ours: Mapping[str, str]) -> Finding | None:
    return obstacle(look(kafka_settings=kafkas, our_settings={11: ours}), 11)


@pytest.mark.parametrize("missing", OF_OURS)
def test_one_of_ours_that_would_decide_otherwise_gets_no_vote(missing: str) -> None:
    assert blocked(KAFKAS, OF_OURS) is None
    found = blocked(KAFKAS, {name: each for name, each in OF_OURS.items() if name != missing})
    assert found is not None
    assert found.sentence.startswith(f"controller 11 has no {missing}, and Kafka's")


def test_one_of_ours_that_does_not_tell_its_settings_gets_no_vote() -> None:
    """It did not answer in time, or does not know the user: it may lack all of them."""
    state = look(
        kafka_settings=KAFKAS,
        our_settings={11: OF_OURS},
        our_settings_problems={12: "no answer within 3000 ms"},
    )
    assert obstacle(state, 11) is None
    found = obstacle(state, 12)
    assert found is not None
    assert found.sentence.startswith(
        "controller 12 does not tell its settings (no answer within 3000 ms), and Kafka's "
        f"controllers have authorizer.class.name, super.users, {TOKEN_KEY}"
    )
    planned = [each.sentence for each in findings(state) if "does not tell its" in each.sentence]
    assert [each.split(" (")[0].split(",")[0] for each in planned] == [
        f"controller {id} does not tell its settings" for id in (12, 13)
    ]
    assert obstacle(replace(state, kafka_settings={}), 12) is None


def test_a_controller_that_does_not_answer_gets_no_vote() -> None:
    """The levels that it supports are not known either; the plan only notes that."""
    silent = Probe(address=address(12), problem="an answer did not come in time")
    state = look(probes={**look().probes, 12: silent})
    assert obstacle(state, 11) is None
    found = obstacle(state, 12)
    assert found is not None
    assert found.sentence.startswith(
        "controller 12 follows the log, but does not answer here (an answer did not come in time)"
    )
    assert not is_blocked(findings(state))


def test_the_key_of_tokens_has_two_names() -> None:
    kafkas = {name: each for name, each in KAFKAS.items() if name != TOKEN_KEY}
    assert blocked({**kafkas, "delegation.token.master.key": None}, OF_OURS) is None


def test_without_security_at_kafkas_nothing_is_asked_of_ours() -> None:
    assert blocked({}, {}) is None
    assert blocked({"authorizer.class.name": ""}, {}) is None


def test_the_super_users_of_ours_are_shown_for_the_operator_to_compare() -> None:
    state = look(kafka_settings=KAFKAS, our_settings=dict.fromkeys(OURS, OF_OURS))
    notes = [each.sentence for each in findings(state) if "super users" in each.sentence]
    assert notes == [f"the super users of controller {id} are User:a;User:b" for id in OURS]
    assert not [each for each in findings(state) if "do not tell" in each.sentence]


@pytest.mark.parametrize(
    ("kafkas", "missing"), [("User:b; User:a", ""), ("User:a;User:broker-1;User:c", "broker-1")]
)
def test_super_users_that_are_known_are_compared(kafkas: str, missing: str) -> None:
    found = blocked({**KAFKAS, "super.users": kafkas}, OF_OURS)
    if not missing:
        assert found is None
    else:
        assert found is not None
        assert "controller 11 lacks the super users User:broker-1;User:c of" in found.sentence


def test_what_the_file_of_kafkas_has_is_written_and_never_shown() -> None:
    state = look(kafka_settings={**KAFKAS, JAAS: "module required x=secret;", TOKEN_KEY: "secret"})
    assert settings_of(state, 11)[JAAS] == "module required x=secret;"
    assert lines_to_add(state)[1:] == ["# ssl.keystore.location=", "# super.users="]
    shown = settings_text(state)
    assert "secret;" not in shown
    assert f"{TOKEN_KEY}=...\n" in shown


def test_settings_that_are_not_told_are_a_note() -> None:
    found = findings(look(kafka_settings_problem="broker 1 cannot be described: NOT_ALLOWED"))
    assert [each.weight for each in found] == [Weight.NOTE]
    assert "NOT_ALLOWED" in found[0].sentence
    assert "DESCRIBE_CONFIGS" in found[0].remedy


def test_the_way_back_asks_nothing_of_settings() -> None:
    wanted = {id: address(id) for id in (1, 2, 3)}
    state = look(into=Kind.KAFKA, wanted=wanted, kafka_settings=KAFKAS, our_settings={11: {}})
    assert obstacle(state, 1) is None
