from typing import get_args

import pytest

from quorum.core.roles import (
    TRANSITIONS,
    Cause,
    Follower,
    Resigned,
    Role,
    Unattached,
    as_markdown,
    check_transition,
)
from quorum.core.vocabulary import ReplicaId
from tests.support.tree import ROOT

ROLES = set(get_args(Role))
ARCHITECTURE = ROOT / "docs" / "architecture.md"


def test_every_role_obeys_a_higher_epoch() -> None:
    """Raft §5.1, KIP-595: whoever learns of a higher epoch leaves its role."""
    assert set(TRANSITIONS) == ROLES
    assert all(moves[Cause.HIGHER_EPOCH] == (Unattached,) for moves in TRANSITIONS.values())


def test_every_role_can_be_reached_from_unattached() -> None:
    reached: set[type[Role]] = set()
    found: set[type[Role]] = {Unattached}
    while found != reached:
        reached = found
        found = reached | {
            after for role in reached for moves in TRANSITIONS[role].values() for after in moves
        }
    assert reached == ROLES


def test_every_cause_moves_some_role() -> None:
    assert {cause for moves in TRANSITIONS.values() for cause in moves} == set(Cause)


def test_nobody_leads_without_having_stood() -> None:
    leading = [
        (role.__name__, cause)
        for role, moves in TRANSITIONS.items()
        for cause, after in moves.items()
        if "Leader" in {each.__name__ for each in after}
    ]
    assert leading == [("Candidate", Cause.MAJORITY_GRANTED)]


def test_a_move_that_the_table_does_not_list_is_refused() -> None:
    follower = Follower(ReplicaId(1), deadline_ms=0)
    check_transition(follower, Cause.HIGHER_EPOCH, Unattached(None))
    with pytest.raises(AssertionError, match="must not become resigned"):
        check_transition(follower, Cause.QUORUM_LOST, Resigned(None))
    with pytest.raises(AssertionError, match="must not become follower of 1"):
        check_transition(follower, Cause.HIGHER_EPOCH, follower)


def test_the_table_has_a_row_for_every_move() -> None:
    lines = as_markdown().splitlines()
    assert len(lines) == 2 + sum(map(len, TRANSITIONS.values()))
    assert all(line.count("|") == 4 for line in lines)


def test_the_documented_table_is_the_table() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- transitions -->")
    documented, closing, _ = rest.partition("<!-- /transitions -->")
    assert closing
    assert documented.strip() == as_markdown()
