"""The rules of a migration between Kafka's controllers and ours."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from admin.monitoring.health_rules import Member
from admin.tools.migrate.findings import findings, is_blocked, release_of
from admin.tools.migrate.guide import brokers_text, plan_text, status_text
from admin.tools.migrate.planner import (
    Retirement,
    next_of_change,
    next_of_retirement,
    next_step,
    servers_line,
    unstarted,
)
from admin.tools.migrate.state import (
    AddVoter,
    BrokerSettings,
    BrokerState,
    Contents,
    Controller,
    Done,
    Finding,
    Kind,
    Look,
    Probe,
    QuorumState,
    RemoveVoter,
    Step,
    TransferLead,
    Wait,
)
from quorum.transport.address import Address

KAFKAS = (1, 2, 3)
OURS = (11, 12, 13)
BROKERS = (101, 102)
LEVELS = {"metadata.version": (15, 29), "kraft.version": (0, 1)}
IN_FORCE = {"metadata.version": 29, "kraft.version": 1}
ENDED_AGO_MS = 60_000


def address(id: int) -> Address:
    return Address("10.0.0.1", 9000 + id)


def controller(
    id: int, *, votes: bool, leads: bool = False, is_live: bool = True, is_level: bool = True
) -> Controller:
    fetched_ms_ago = 100 if is_live else ENDED_AGO_MS
    return Controller(
        kind=Kind.OURS if id in OURS else Kind.KAFKA,
        member=Member(
            id=id,
            is_voter=votes,
            is_leader=leads,
            fetched_ms_ago=fetched_ms_ago,
            lag=0 if is_level else 50,
            lag_ms=fetched_ms_ago if is_level else ENDED_AGO_MS,
        ),
        address=address(id),
        listener="CONTROLLER",
    )


def quorum(
    voters: tuple[int, ...],
    leader: int | None,
    *,
    observers: tuple[int, ...] = (),
    dead: tuple[int, ...] = (),
    behind: tuple[int, ...] = (),
) -> QuorumState:
    """A quorum; all that neither vote nor observe are not known to it."""
    return QuorumState(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        controllers=tuple(
            controller(
                id,
                votes=id in voters,
                leads=id == leader,
                is_live=id not in dead,
                is_level=id not in behind,
            )
            for id in sorted((*voters, *observers))
        ),
    )


def places(ids: tuple[int, ...]) -> dict[int, Address]:
    return {id: address(id) for id in ids}


def settings(**configured: str | None) -> BrokerSettings:
    """Brokers that look for the controllers there; by default at ours."""
    servers = {f"b{id}": str(address(OURS[0])) for id in BROKERS} | configured
    return BrokerSettings(
        brokers=tuple(BrokerState(id=id, epoch=5, fenced=False) for id in BROKERS),
        configured={id: servers[f"b{id}"] for id in BROKERS},
    )


# --- the next step -----------------------------------------------------------------------------


def after(state: QuorumState, step: Step, lead_goes_to: int) -> QuorumState:
    """The quorum once the step is done."""

    def changed(each: Controller) -> Controller:
        member = each.member
        match step:
            case AddVoter(controller=added) if added.id == each.id:
                member = replaced(member, is_voter=True)
            case RemoveVoter(controller=removed) if removed.id == each.id:
                member = replaced(member, is_voter=False, is_leader=False)
            case TransferLead():
                member = replaced(member, is_leader=each.id == step.to.id)
            case RemoveVoter(controller=removed) if removed.member.is_leader:
                member = replaced(member, is_leader=each.id == lead_goes_to)
            case _:
                pass
        return replace(each, member=member)

    return replace(state, controllers=tuple(map(changed, state.controllers)))


def replaced(member: Member, **values: Any) -> Member:
    from msgspec.structs import replace as replace_struct

    return replace_struct(member, **values)


def steps(state: QuorumState, wanted: tuple[int, ...], rng: random.Random) -> Iterator[Step]:
    """All steps until nothing is left to do; whoever votes may be elected."""
    for _ in range(30):
        step = next_step(state, places(wanted))
        yield step
        if isinstance(step, Done | Wait):
            return
        leader = state.leader
        assert leader is not None
        voters = [each.id for each in state.voters if each.id != leader.id]
        state = after(state, step, rng.choice(voters))
        spare = sum(each.has_caught_up for each in state.voters) - (len(state.voters) // 2 + 1)
        assert spare >= 1, "fewer voters may be lost than before"


@pytest.mark.parametrize("leader", KAFKAS)
def test_ours_take_the_place_of_kafkas_one_by_one(leader: int) -> None:
    state = quorum(KAFKAS, leader, observers=OURS)
    found = list(steps(state, OURS, random.Random(leader)))
    assert [type(each) for each in found] == [AddVoter, RemoveVoter] * 3 + [Done]
    last = found[-2]
    assert isinstance(last, RemoveVoter)
    assert last.controller.id == leader, "the lead moves once only"


@pytest.mark.parametrize("leader", OURS)
def test_the_way_back_hands_the_lead_over_before_the_last_of_ours_goes(leader: int) -> None:
    state = quorum(OURS, leader, observers=KAFKAS)
    found = list(steps(state, KAFKAS, random.Random(leader)))
    assert [type(each) for each in found] == [
        *[AddVoter, RemoveVoter] * 2,
        *(AddVoter, TransferLead, RemoveVoter, Done),
    ]


def test_an_interrupted_migration_goes_on_from_every_mixture_in_either_direction() -> None:
    """The voters of the log are all that the next step depends on."""
    for of_kafka, of_ours in itertools.product(range(4), repeat=2):
        voters = KAFKAS[:of_kafka] + OURS[:of_ours]
        if len(voters) not in (3, 4):
            continue
        others = tuple(id for id in (*KAFKAS, *OURS) if id not in voters)
        for leader in voters:
            for wanted in (OURS, KAFKAS):
                state = quorum(voters, leader, observers=others)
                *_, last = steps(state, wanted, random.Random(leader))
                assert isinstance(last, Done), (voters, leader, wanted, last)


def led_by(state: QuorumState, leader: int | None) -> QuorumState:
    """The same quorum with another leader, or without one."""

    def changed(each: Controller) -> Controller:
        return replace(each, member=replaced(each.member, is_leader=each.id == leader))

    return replace(state, controllers=tuple(map(changed, state.controllers)))


@pytest.mark.parametrize("wanted", [OURS, KAFKAS])
@pytest.mark.parametrize("seed", range(20))
def test_a_lead_that_moves_elsewhere_changes_the_steps_and_not_the_end(
    seed: int, wanted: tuple[int, ...]
) -> None:
    """Under load any voter may be elected between two looks, or none for a while."""
    rng = random.Random(seed)
    first = KAFKAS if wanted == OURS else OURS
    state = quorum(first, first[0], observers=wanted)
    for _ in range(100):
        step = next_step(state, places(wanted))
        if isinstance(step, Done):
            break
        if isinstance(step, Wait):
            assert state.leader is None
        else:
            state = after(state, step, rng.choice(wanted))
        voters = [each.id for each in state.voters]
        assert len(voters) in (3, 4)
        state = led_by(state, rng.choice([None, *voters]))
    assert isinstance(step, Done)
    assert {each.id for each in state.voters} == set(wanted)


@pytest.mark.parametrize("leader", KAFKAS)
def test_the_way_back_goes_on_whichever_of_kafkas_took_the_lead(leader: int) -> None:
    """The transfer names one of them, and another one may win the election."""
    step = next_step(quorum((*KAFKAS, 11), leader), places(KAFKAS))
    assert isinstance(step, RemoveVoter)
    assert step.controller.id == 11


def test_a_lead_that_came_back_is_transferred_again() -> None:
    state = quorum((*KAFKAS, 11), 11)
    first = next_step(state, places(KAFKAS))
    assert isinstance(first, TransferLead)
    assert next_step(led_by(after(state, first, 1), 11), places(KAFKAS)) == first


def test_a_lead_that_went_to_kafkas_early_is_none_to_transfer() -> None:
    found = list(steps(quorum((1, 12, 13), 1, observers=(2, 3, 11)), KAFKAS, random.Random(1)))
    assert TransferLead not in map(type, found)
    assert isinstance(found[-1], Done)


def test_it_waits_for_a_controller_that_is_not_started() -> None:
    step = next_step(quorum(KAFKAS, 1), places(OURS))
    assert isinstance(step, Wait)
    assert "11 at 10.0.0.1:9011" in step.reason
    assert "Start it" in step.remedy


def test_it_waits_for_a_log_that_is_not_whole() -> None:
    step = next_step(quorum(KAFKAS, 1, observers=OURS, behind=OURS), places(OURS))
    assert step == Wait(reason="controller 11 does not have the whole log yet")


def test_the_one_that_has_caught_up_is_added_first() -> None:
    step = next_step(quorum(KAFKAS, 1, observers=OURS, behind=(11, 13)), places(OURS))
    assert isinstance(step, AddVoter)
    assert step.controller.id == 12


def test_no_voter_is_removed_while_one_of_those_that_stay_is_away() -> None:
    step = next_step(quorum((*KAFKAS, 11), 1, observers=(12, 13), dead=(11,)), places(OURS))
    assert isinstance(step, Wait)
    assert step.reason == "controller 11 votes and does not follow the log"


def test_no_voter_is_removed_if_the_others_would_lack_a_majority_that_has_caught_up() -> None:
    voters = (1, 2, 3, 4, 5, 11)
    step = next_step(quorum(voters, 1, observers=(12, 13), dead=(2, 3, 4, 5)), places(OURS))
    assert isinstance(step, Wait)
    assert "would be needed" in step.reason


def test_no_voter_is_removed_if_fewer_could_be_lost_then() -> None:
    """As when the command is given again with fewer controllers; all of them follow the log."""
    step = next_step(quorum((1, 11, 12), 1), places((11, 12)))
    assert step == Wait(
        reason="without controller 1, fewer controllers could be lost than now",
        remedy="Name more controllers that are to vote",
    )


def test_a_dead_voter_is_removed_before_a_live_one() -> None:
    step = next_step(quorum((*KAFKAS, 11), 1, observers=(12, 13), dead=(2,)), places(OURS))
    assert isinstance(step, RemoveVoter)
    assert step.controller.id == 2


def test_no_voter_is_added_that_would_leave_no_majority() -> None:
    step = next_step(quorum(KAFKAS, 1, observers=OURS, dead=(2, 3)), places(OURS))
    assert isinstance(step, Wait)
    assert step.reason == "with controllers 2, 3 away, one more voter would leave no majority"


def test_without_a_leader_it_waits() -> None:
    assert isinstance(next_step(quorum(KAFKAS, None, observers=OURS), places(OURS)), Wait)


@pytest.mark.parametrize(
    ("voters", "observers", "words"),
    [
        (OURS, KAFKAS, "Next: `metaquorum migrate finish` says when to stop those of Kafka."),
        (OURS, (), "No controller of Kafka is registered: nothing is left to do."),
        (KAFKAS, OURS, "Next: `metaquorum migrate finish` says when to stop those of metaquorum"),
        (KAFKAS, (), "nothing has been started, or left to do."),
    ],
)
def test_the_end_of_either_direction_names_the_next_command(
    voters: tuple[int, ...], observers: tuple[int, ...], words: str
) -> None:
    state = quorum(voters, voters[0], observers=observers, dead=observers)
    step = next_step(state, places(voters))
    assert isinstance(step, Done)
    assert words in str(step)
    forward, back = (places(voters), {}) if voters == OURS else (places(OURS), places(voters))
    contents = Contents(levels=IN_FORCE)
    shown = status_text(state, contents, {}, settings(), forward=forward, back=back)
    assert words in shown


# --- brokers come first ------------------------------------------------------------------------


def test_no_vote_changes_before_every_broker_finds_the_new_controllers() -> None:
    """A broker whose servers are all Kafka's loses the leader with Kafka's last vote."""
    state = quorum(KAFKAS, 1, observers=OURS)
    stale = settings(b102="10.0.0.1:9001,10.0.0.1:9002")
    step = next_of_change(state, places(OURS), stale)
    assert isinstance(step, Wait)
    assert step.reason.startswith("broker 102 does not look for the controllers at those")
    line = "controller.quorum.bootstrap.servers=10.0.0.1:9011,10.0.0.1:9012,10.0.0.1:9013"
    assert line in step.remedy
    assert isinstance(next_of_change(state, places(OURS), settings()), AddVoter)


def test_a_broker_may_name_the_controllers_as_static_voters() -> None:
    named = settings(b101="11@10.0.0.1:9011,12@10.0.0.1:9012")
    step = next_of_change(quorum(KAFKAS, 1, observers=OURS), places(OURS), named)
    assert isinstance(step, AddVoter)


def test_the_operator_vouches_for_a_broker_that_does_not_say() -> None:
    state = quorum(KAFKAS, 1, observers=OURS)
    silent = settings(b101=None)
    step = next_of_change(state, places(OURS), silent)
    assert isinstance(step, Wait)
    assert "--rolled 101" in step.remedy
    vouched = replace(silent, confirmed=frozenset({101}))
    assert isinstance(next_of_change(state, places(OURS), vouched), AddVoter)


def test_the_line_of_brokers_has_both_kinds_so_that_the_way_back_needs_no_restart() -> None:
    line = servers_line(quorum(KAFKAS, 1), places(OURS))
    assert line.endswith("=" + ",".join(str(address(id)) for id in (*OURS, *KAFKAS)))


# --- the plan ----------------------------------------------------------------------------------


def look(**changes: Any) -> Look:
    """A cluster that can be migrated: three of Kafka's, and three of ours that observe."""
    probes = {id: Probe(address=address(id), kind=Kind.KAFKA, levels=LEVELS) for id in KAFKAS}
    probes |= {
        id: Probe(address=address(id), kind=Kind.OURS, levels=LEVELS, node_id=id) for id in OURS
    }
    values: dict[str, Any] = {
        "into": Kind.OURS,
        "quorum": quorum(KAFKAS, 1, observers=OURS),
        "contents": Contents(levels=IN_FORCE, brokers=settings().brokers),
        "wanted": places(OURS),
        "probes": probes,
        "settings": settings(),
    }
    return Look(**(values | changes))


def contents(**changes: Any) -> Contents:
    return replace(Contents(levels=IN_FORCE, brokers=settings().brokers), **changes)


def probes(**changed: Probe) -> Mapping[int, Probe]:
    return dict(look().probes) | {int(name[1:]): each for name, each in changed.items()}


def in_the_way(found: list[Finding]) -> list[str]:
    return [each.sentence for each in found if is_blocked([each])]


def test_nothing_stands_in_the_way_of_a_sound_cluster() -> None:
    assert findings(look()) == []


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a level that ours do not know": (
        {"contents": contents(levels={"metadata.version": 30, "kraft.version": 1})},
        "metadata.version is at level 30, and controller 11 supports 15 to 29",
    ),
    "a feature that ours do not know": (
        {"contents": contents(levels={**IN_FORCE, "shiny.version": 1})},
        "shiny.version is at level 1, and controller 11 supports 0 to 0",
    ),
    "records that ours do not know": (
        {"contents": contents(unsupported=("2 records of type 99, which is not known",))},
        "2 records of type 99",
    ),
    "a log that cannot be read": (
        {"contents": contents(problem="Fetch is refused: CLUSTER_AUTHORIZATION_FAILED")},
        "the metadata cannot be looked at: Fetch is refused",
    ),
    "no leader": ({"quorum": quorum(KAFKAS, None, observers=OURS)}, "no controller leads"),
    "no live majority": (
        {"quorum": quorum(KAFKAS, 1, observers=OURS, dead=(2, 3))},
        "controllers 2, 3 vote, but do not follow the log",
    ),
    "fewer than before": (
        {"wanted": places(OURS[:2])},
        "2 controllers are to take the place of 3",
    ),
    "an id of a broker": (
        {"wanted": {101: address(101), **places(OURS)}},
        "id 101 of --controllers belongs to a node of Kafka's already",
    ),
    "a combined node": (
        {"contents": contents(brokers=(BrokerState(id=2, epoch=1, fenced=False),))},
        "node 2 is a broker and a controller in one process",
    ),
    "a controller of Kafka at our address": (
        {"probes": probes(p12=Probe(address=address(12), kind=Kind.KAFKA, levels=LEVELS))},
        "the node at 10.0.0.1:9012 is one of Kafka, not of metaquorum",
    ),
    "two addresses mixed up": (
        {"probes": probes(p12=replace(look().probes[12], node_id=13))},
        "the node at 10.0.0.1:9012 is controller 13, not 12",
    ),
    "a node of another cluster": (
        {"probes": probes(p12=replace(look().probes[12], cluster_id="another"))},
        "controller 12 belongs to cluster another",
    ),
    "a voter that cannot be reached": (
        {"probes": probes(p3=Probe(address=address(3), problem="Connection refused"))},
        "voter 3 cannot be reached from here at 10.0.0.1:9003",
    ),
    "an address of this machine alone": (
        {"wanted": places(OURS) | {11: Address("127.0.0.1", 9011)}},
        "controller 11 is to listen at 127.0.0.1:9011, which other machines do not reach",
    ),
    "a full disk": (
        {"probes": probes(p11=replace(look().probes[11], has_full_disk=True))},
        "controller 11 has no room on its disk",
    ),
    "one of ours that runs at another address": (
        {
            "wanted": places(OURS) | {11: Address("10.0.0.1", 31019)},
            "probes": probes(p11=Probe(address=Address("10.0.0.1", 31019), problem="refused")),
        },
        "controller 11 runs and is registered at 10.0.0.1:9011, and at 10.0.0.1:31019 nobody "
        "answers",
    ),
    "one of ours that is not named": (
        {"quorum": quorum((*KAFKAS, 13), 1, observers=(11, 12)), "wanted": places(OURS[:2])},
        "controller 13 votes and is one of metaquorum, but --controllers does not name it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_plan_says_what_stands_in_the_way(case: str) -> None:
    changes, sentence = CASES[case]
    found = in_the_way(findings(look(**changes)))
    assert any(each.startswith(sentence) for each in found), found


@pytest.mark.parametrize(
    ("level", "highest", "remedy"),
    [
        (19, 19, "Upgrade all brokers and controllers"),
        (21, 21, "Upgrade Kafka's controllers to 4.1 or newer"),
        (25, 25, "Upgrade Kafka's controllers to 4.1 or newer"),
        (25, 27, "upgrade --feature kraft.version=1"),
        (29, 30, "upgrade --feature kraft.version=1"),
    ],
)
def test_static_voters_are_in_the_way_with_the_next_step(
    level: int, highest: int, remedy: str
) -> None:
    """KAFKA-16538: kraft.version is raised by Kafka 4.1 and later."""
    kafkas = {
        f"p{id}": replace(look().probes[id], levels={"metadata.version": (7, highest)})
        for id in KAFKAS
    }
    static = look(contents=contents(levels={"metadata.version": level}), probes=probes(**kafkas))
    (found,) = [each for each in findings(static) if is_blocked([each])]
    assert found.sentence.startswith("the voters are static")
    assert remedy in found.remedy


def test_security_and_clocks_are_notes() -> None:
    found = findings(
        look(
            contents=contents(acls=3, scram_credentials=2, delegation_tokens=1, reassigning=4),
            clock_ahead_ms=-5_000,
        )
    )
    assert not is_blocked(found)
    assert [each.sentence for each in found] == [
        "3 ACLs are taken over",
        "2 SCRAM credentials are taken over",
        "1 delegation tokens are taken over",
        "4 partitions are being reassigned",
        "the clock of the leader is 5.0 s behind the one here",
    ]


def test_one_of_ours_that_has_stopped_may_be_started_at_another_address() -> None:
    moved = Address("10.0.0.1", 31019)
    found = findings(
        look(
            quorum=quorum(KAFKAS, 1, observers=OURS, dead=(11,)),
            wanted=places(OURS) | {11: moved},
            probes=probes(p11=Probe(address=moved, problem="refused")),
        )
    )
    assert not is_blocked(found)
    assert "controller 11 does not answer yet (refused)" in [each.sentence for each in found]


def test_an_address_of_kafkas_where_nobody_answers_is_a_note() -> None:
    nobody = (Probe(address=address(9), problem="refused"),)
    (found,) = findings(look(silent_kafkas=nobody))
    assert not is_blocked([found])
    assert found.sentence.startswith("nobody answers at 10.0.0.1:9009 (refused) of --from")
    retired = quorum(OURS, 11)
    assert findings(look(quorum=retired, silent_kafkas=nobody)) == []


def told(state: Look) -> str:
    return plan_text(state, findings(state), command="metaquorum")


def test_what_start_waits_for_is_no_beginning() -> None:
    silent = {f"p{id}": Probe(address=address(id), problem="refused") for id in OURS}
    said = told(look(quorum=quorum(KAFKAS, 1), probes=probes(**silent)))
    assert "migrate start` waits first: no controller that is still to vote follows" in said
    assert "controllers 11, 12, 13 do not answer yet" in said
    assert "begins with: add controller 11" in told(look(settings=settings()))


def test_the_line_for_the_brokers_is_told_once() -> None:
    stale = look(settings=settings(b101=str(address(1)), b102=None))
    said = f"{told(stale)}\n{brokers_text(stale.settings)}"
    assert said.count("controller.quorum.bootstrap.servers=") == 1
    assert "migrate start` waits first: brokers 101, 102 do not look for" in said
    assert "  broker 101: 10.0.0.1:9001\n  broker 102: not known\n" in said


def test_ids_that_are_taken_are_in_no_line_to_copy_and_their_nodes_still_run() -> None:
    taken = Address("10.0.0.1", 31019)
    said = told(
        look(
            wanted={1: taken, **places(OURS[1:])},
            settings=settings(b101=str(address(1))),
            probes=probes(p1=Probe(address=taken, problem="refused")),
        )
    )
    assert "id 1 of --controllers belongs to a node of Kafka's already" in said
    assert "controller.quorum.bootstrap.servers=" not in said
    (line,) = [each for each in said.splitlines() if each.startswith("1 ")]
    assert line.split()[1] == "Kafka", line


def test_a_running_move_is_in_the_way_of_going_back() -> None:
    back = look(
        into=Kind.KAFKA,
        quorum=quorum(OURS, 11, observers=KAFKAS),
        wanted=places(KAFKAS),
        running_moves=(7,),
    )
    assert in_the_way(findings(back)) == [
        "move 7 is under way, and Kafka's controllers do not know the steps that are left"
    ]


@pytest.mark.parametrize(
    ("highest", "release"),
    [(14, "older than 3.7"), (21, "3.9"), (25, "4.0"), (27, "4.1"), (29, "4.2"), (99, "newer")],
)
def test_the_release_is_known_by_the_highest_level(highest: int, release: str) -> None:
    assert release_of({"metadata.version": (1, highest)}).startswith(release)


# --- the end -----------------------------------------------------------------------------------


def retirement(**changes: Any) -> Retirement:
    values: dict[str, Any] = {
        "stays": Kind.OURS,
        "quorum": quorum(OURS, 11, observers=KAFKAS),
        "settings": settings(),
        "answering": frozenset(),
        "quiet_ms": 9_001,
        "session_ms": 9_000,
    }
    return Retirement(**(values | changes))


def test_without_a_controller_of_ours_there_is_nothing_to_finish() -> None:
    reason = unstarted(quorum(KAFKAS, 1))
    assert reason is not None
    assert reason.startswith("nothing has been started")


def test_after_back_ours_stay_registered_and_are_finished() -> None:
    assert unstarted(quorum(KAFKAS, 1, observers=OURS, dead=OURS)) is None


def test_nothing_is_stopped_before_the_old_ones_have_no_vote() -> None:
    step = next_of_retirement(retirement(quorum=quorum((*OURS, 1), 11)))
    assert isinstance(step, Wait)
    assert step.reason == "controller 1 of Kafka still votes"


def test_all_but_one_are_stopped_then_a_session_passes_then_the_last_is_stopped() -> None:
    first = next_of_retirement(retirement(answering=frozenset(KAFKAS)))
    assert isinstance(first, Wait)
    assert first.remedy.startswith("Stop 2, 3, and leave 1 running")
    one = retirement(answering=frozenset({1}), quiet_ms=9_000)
    second = next_of_retirement(one)
    assert isinstance(second, Wait)
    assert second.reason.startswith("no broker may be fenced for longer than a session")
    third = next_of_retirement(replace(one, quiet_ms=9_001))
    assert isinstance(third, Wait)
    assert third.remedy == "Stop it"
    assert isinstance(next_of_retirement(retirement(quiet_ms=9_000)), Wait)
    assert isinstance(next_of_retirement(retirement()), Done)


@pytest.mark.parametrize("running", [OURS, OURS[:1]])
def test_ours_that_observe_may_be_yet_to_vote(running: tuple[int, ...]) -> None:
    """Nobody knows whether `back` has ended or `start` has not begun."""
    step = next_of_retirement(
        retirement(
            stays=Kind.KAFKA,
            quorum=quorum(KAFKAS, 1, observers=OURS),
            settings=settings(b101=str(address(1)), b102=str(address(1))),
            answering=frozenset(running),
        )
    )
    assert isinstance(step, Wait)
    assert step.remedy.startswith("Stop ")
    assert step.remedy.endswith(". If they are still to vote: `metaquorum migrate start`")


def test_no_controller_is_stopped_while_a_broker_is_fenced_or_would_be_lost() -> None:
    fenced = replace(
        settings(), brokers=tuple(replace(each, fenced=True) for each in settings().brokers)
    )
    step = next_of_retirement(retirement(settings=fenced, answering=frozenset(KAFKAS)))
    assert isinstance(step, Wait)
    assert step.reason == "brokers 101, 102 are fenced"
    lost = settings(b101=str(address(1)))
    step = next_of_retirement(retirement(settings=lost, answering=frozenset(KAFKAS)))
    assert isinstance(step, Wait)
    assert step.reason.startswith("broker 101 does not look for the controllers")
