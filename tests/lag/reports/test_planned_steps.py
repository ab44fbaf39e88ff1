"""The planned steps of a move and the names of its outcomes agree with the state machine's."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports import operations
from lag.reports.planned_steps import limits_in_force, steps_needed
from statemachine.reassignment import settings
from statemachine.reassignment.step import steps_left
from statemachine.vocabulary import MoveKind, MoveOutcome, MoveState


class Configured(NamedTuple):
    configs: dict[tuple[int, str], dict[str, str]]


@given(
    before=st.permutations(range(8)).flatmap(lambda ids: st.integers(1, 5).map(lambda n: ids[:n])),
    planned=st.permutations(range(8)).flatmap(lambda ids: st.integers(1, 5).map(lambda n: ids[:n])),
    values=st.dictionaries(
        st.sampled_from(sorted(settings.LIMITS)), st.sampled_from(["1", " 2 ", "+3", "0", "x", "4"])
    ),
)
def test_the_steps_needed_are_those_of_the_controller_if_every_replica_catches_up(
    before: list[int], planned: list[int], values: dict[str, str]
) -> None:
    config = {"resourceType": 4, "resourceName": ""}
    said = [{**config, "name": name, "value": value} for name, value in values.items()]
    records = [{"type": "ConfigRecord", "offset": 0, "said": each} for each in said]
    in_force = settings.limits(Configured({(4, ""): values}))
    steps = steps_left(
        tuple(before), tuple(planned), isr=tuple(before), leader=before[0], min_isr=1,
        live=lambda _: True, limits=in_force,
    )  # fmt: skip
    assert steps_needed(before, planned, 1, limits_in_force(records)) == len(steps)


def test_the_names_of_kinds_and_outcomes_are_those_of_the_state_machine() -> None:
    assert [each.name.lower() for each in MoveKind] == list(operations.KINDS)
    assert [each.name.lower() for each in MoveOutcome] == list(operations.OUTCOMES)
    assert int(MoveState.RUNNING) == operations.RUNNING
