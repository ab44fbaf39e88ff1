"""The rules of health: each fires for its facts, and none for a cluster that is well."""

from typing import Any

import pytest
from msgspec.structs import replace

from admin.monitoring.health_rules import (
    EXPIRING_DAYS,
    LAGGING_MS,
    NOT_FETCHING_MS,
    BackupFacts,
    Facts,
    FolderFacts,
    Member,
    NodeProbe,
    Rule,
    SettingsFacts,
    Severity,
    is_healthy,
    reasons,
    reasons_of_backups,
    reasons_of_folder,
    reasons_of_probes,
    reasons_of_settings,
    tolerance,
)

DAY_S = 24 * 3_600


def member(id_: int, **more: Any) -> Member:
    fields = {"is_voter": True, "fetched_ms_ago": 5, "lag": 0, "lag_ms": 5, **more}
    return Member(id=id_, **fields)


def voters(*more: Member) -> tuple[Member, ...]:
    """Voter 1, which leads, and these."""
    return (member(1, is_leader=True, fetched_ms_ago=None, lag_ms=0), *more)


WELL = Facts(leader_id=1, members=voters(member(2), member(3), member(101, is_voter=False)))
LOST = member(3, fetched_ms_ago=NOT_FETCHING_MS)

CASES: dict[str, tuple[Facts, dict[Rule, Severity]]] = {
    "no leader": (Facts(leader_id=None), {Rule.NO_LEADER: Severity.ERROR}),
    "one of three voters is lost": (
        replace(WELL, members=voters(member(2), LOST)),
        {Rule.VOTER_NOT_FETCHING: Severity.ERROR, Rule.NO_FAILURE_TOLERANCE: Severity.ERROR},
    ),
    "one of five voters is lost": (
        replace(WELL, members=voters(member(2), LOST, member(4), member(5))),
        {Rule.VOTER_NOT_FETCHING: Severity.ERROR},
    ),
    "a voter lags": (
        replace(WELL, members=voters(member(2), member(3, lag=7, lag_ms=LAGGING_MS))),
        {Rule.VOTER_LAGGING: Severity.ERROR},
    ),
    "an idle voter does not lag": (
        replace(WELL, members=voters(member(2), member(3, lag=0, lag_ms=LAGGING_MS))),
        {},
    ),
    "a lost observer is no lost voter": (
        replace(WELL, members=(*WELL.members, member(102, is_voter=False, fetched_ms_ago=10**6))),
        {},
    ),
    "a single voter": (
        replace(WELL, members=voters()),
        {Rule.NO_FAILURE_TOLERANCE: Severity.WARNING},
    ),
    "four voters": (
        replace(WELL, members=voters(member(2), member(3), member(4))),
        {Rule.EVEN_VOTERS: Severity.WARNING},
    ),
    "a change of voters waits": (
        replace(WELL, target_voters=(1, 2, 4), waits_for="4 to catch up"),
        {Rule.VOTER_CHANGE_STUCK: Severity.WARNING},
    ),
    "a full disk": (replace(WELL, full_disks=(1,)), {Rule.DISK_FULL: Severity.ERROR}),
    "fenced brokers": (
        replace(WELL, fenced_brokers=(101, 102)),
        {Rule.BROKER_FENCED: Severity.ERROR},
    ),
    "no leaders": (
        replace(WELL, without_leader=2),
        {Rule.PARTITIONS_WITHOUT_LEADER: Severity.ERROR},
    ),
    "too few in sync": (
        replace(WELL, under_min_isr=1),
        {Rule.PARTITIONS_UNDER_MIN_ISR: Severity.ERROR},
    ),
    "a stalled move": (
        replace(WELL, stalled=3, stalled_moves=(7,)),
        {Rule.MOVE_STALLED: Severity.ERROR},
    ),
    "a certificate for another month": (
        replace(WELL, now_s=1.0, certificates_end_s=1.0 + EXPIRING_DAYS * DAY_S),
        {},
    ),
    "a certificate for less": (
        replace(WELL, certificates_end_s=EXPIRING_DAYS * DAY_S - 1.0),
        {Rule.CERTIFICATE_EXPIRING: Severity.WARNING},
    ),
    "no certificate any more": (
        replace(WELL, now_s=1.0, certificates_end_s=1.0),
        {Rule.CERTIFICATE_EXPIRING: Severity.ERROR},
    ),
}


def test_nothing_is_wrong_with_a_cluster_that_is_well() -> None:
    assert reasons(WELL) == []
    assert is_healthy([])


@pytest.mark.parametrize("name", CASES)
def test_the_rules_fire_for_their_facts_alone(name: str) -> None:
    facts, wanted = CASES[name]
    found = reasons(facts)
    assert {each.rule: each.severity for each in found} == wanted
    assert is_healthy(found) is (Severity.ERROR not in wanted.values())
    for each in found:
        assert each.sentence
        assert each.why
        assert each.command
        # One form: the programs that are Kafka's scripts are commands of metaquorum as well.
        for program in ("metadata-quorum", "reassign-partitions"):
            assert each.command.count(program) == each.command.count(f"metaquorum {program}")


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        (Facts(leader_id=None), "NODE --dir '/tmp/m q', for each controller that does not run"),
        (CASES["one of five voters is lost"][0], "3 --dir '/tmp/m q'; or replace for good: meta"),
        (replace(WELL, fenced_brokers=(101,)), "101 --dir '/tmp/m q'; or empty for good: meta"),
        (CASES["fenced brokers"][0], "NODE --dir '/tmp/m q', for 101, 102; or empty for good: me"),
        (CASES["no leaders"][0], "NODE --dir '/tmp/m q', for each broker that was last in sync"),
    ],
)
def test_the_nodes_of_a_local_cluster_are_restarted_by_its_own_command(
    facts: Facts, command: str
) -> None:
    (elsewhere,) = reasons(facts)
    assert elsewhere.command.startswith("metaquorum start --config FILE, on ")
    (found,) = reasons(replace(facts, local_folder="/tmp/m q"))
    assert found.command.startswith(f"metaquorum local restart {command}")


OF_FOLDER: dict[Rule, FolderFacts] = {
    Rule.FOLDER_UNUSABLE: FolderFacts(folder="/d", problem="/d is locked"),
    Rule.LOG_CUT_SHORT: FolderFacts(folder="/d", cut="cut 7 bytes"),
    Rule.FOLDER_OPEN: FolderFacts(folder="/d", is_open_to_others=True),
}
OF_SETTINGS: dict[Rule, SettingsFacts] = {
    Rule.SETTINGS_INVALID: SettingsFacts(problem="node.id is missing"),
    Rule.EVEN_VOTERS: SettingsFacts(voters=4),
    Rule.NO_FAILURE_TOLERANCE: SettingsFacts(voters=1),
    Rule.LISTENER_OPEN: SettingsFacts(open_listeners=("Listener X is open",)),
    Rule.CERTIFICATE_EXPIRING: SettingsFacts(certificates_end_s=1.0),
}


OF_BACKUPS: dict[str, BackupFacts] = {
    "the newest backup in /b was taken at": BackupFacts(
        place="/b", newest_ms=1_000, age_max_ms=999, now_ms=2_000
    ),
    "the newest backup in /b was taken at 1970-01-01T00:05:01Z by the clock": BackupFacts(
        place="/b", newest_ms=301_000, age_max_ms=999, now_ms=0
    ),
    "/b holds no backup": BackupFacts(place="/b", age_max_ms=999, now_ms=2_000),
    "/b: no bucket": BackupFacts(place="/b", problem="/b: no bucket", age_max_ms=1, now_ms=2),
}


@pytest.mark.parametrize("rule", OF_FOLDER)
def test_the_rules_of_a_folder_fire_for_their_facts_alone(rule: Rule) -> None:
    assert [each.rule for each in reasons_of_folder(OF_FOLDER[rule])] == [rule]


@pytest.mark.parametrize("rule", OF_SETTINGS)
def test_the_rules_of_settings_fire_for_their_facts_alone(rule: Rule) -> None:
    assert [each.rule for each in reasons_of_settings(OF_SETTINGS[rule])] == [rule]


OF_PROBES: list[tuple[dict[str, Any], dict[Rule, Severity]]] = [
    ({}, {}),
    (
        {"refusal": "a:1: expired", "is_certificate_refused": True},
        {Rule.CERTIFICATE_REFUSED: Severity.ERROR},
    ),
    ({"refusal": "a:1: no such user"}, {Rule.CLIENT_REFUSED: Severity.ERROR}),
    ({"refusal": "a:1: no such mechanism", "is_of_target": False}, {}),
    ({"silence": "timed out"}, {Rule.NODE_UNREACHABLE: Severity.WARNING}),
    ({"silence": "timed out", "is_alive": False}, {}),
]


@pytest.mark.parametrize(("probe", "rules"), OF_PROBES)
def test_the_rules_of_a_connection_fire_for_their_outcomes_alone(
    probe: dict[str, Any], rules: dict[Rule, Severity]
) -> None:
    node = NodeProbe(**{"name": "broker 101", "address": "a:1", "is_of_target": True, **probe})
    found = list(reasons_of_probes([node]))
    assert {each.rule: each.severity for each in found} == rules
    assert all("broker 101" in each.sentence and "a:1" in each.sentence for each in found)


def test_nothing_is_wrong_with_a_sound_folder_and_settings_for_three_voters() -> None:
    assert not list(reasons_of_folder(FolderFacts(folder="/d")))
    assert not list(reasons_of_settings(SettingsFacts(voters=3)))


@pytest.mark.parametrize("words", OF_BACKUPS)
def test_backups_that_are_old_or_missing_are_told(words: str) -> None:
    (found,) = reasons_of_backups(OF_BACKUPS[words])
    assert (found.rule, found.severity) == (Rule.BACKUP_OLD, Severity.ERROR)
    assert found.sentence.startswith(words)


def test_manifests_that_cannot_be_used_are_named() -> None:
    facts = BackupFacts(place="/b", newest_ms=2, damaged=["backup-1.json"], age_max_ms=1, now_ms=2)
    (found,) = reasons_of_backups(facts)
    assert (found.rule, found.severity) == (Rule.BACKUP_DAMAGED, Severity.WARNING)
    assert found.sentence == "/b has manifests that cannot be used: backup-1.json"


def test_nothing_is_wrong_with_a_backup_that_is_just_young_enough() -> None:
    facts = BackupFacts(place="/b", newest_ms=1_000, age_max_ms=1_000, now_ms=2_000)
    assert not list(reasons_of_backups(facts))


def test_nothing_is_wrong_with_a_backup_from_a_clock_that_is_a_little_ahead() -> None:
    facts = BackupFacts(place="/b", newest_ms=300_000, age_max_ms=1, now_ms=0)
    assert not list(reasons_of_backups(facts))


def test_every_rule_has_a_case() -> None:
    of_cluster = {rule for _, wanted in CASES.values() for rule in wanted}
    of_nodes = OF_FOLDER.keys() | OF_SETTINGS.keys()
    of_nodes |= {rule for _, wanted in OF_PROBES for rule in wanted}
    assert of_cluster | of_nodes | {Rule.BACKUP_OLD, Rule.BACKUP_DAMAGED} == set(Rule)


@pytest.mark.parametrize(
    ("count", "lost", "wanted"),
    [(1, 0, 0), (2, 0, 0), (3, 0, 1), (3, 1, 0), (4, 0, 1), (5, 0, 2), (5, 1, 1), (5, 3, 0)],
)
def test_as_many_voters_may_be_lost_as_a_majority_can_do_without(
    count: int, lost: int, wanted: int
) -> None:
    followers = [
        member(each, fetched_ms_ago=None if each > count - lost else 5)
        for each in range(2, count + 1)
    ]
    assert tolerance(voters(*followers)) == wanted
