"""Transcripts of moved partitions, by the state machine itself."""

import pytest

from tests.statemachine.support.maintenance_scenarios import CareStage
from tests.support.transcript import Transcripts
from tests.support.tree import ROOT

STORIES = sorted(path.stem for path in (ROOT / "tests" / "transcripts").glob("moves_*.txt"))


@pytest.mark.parametrize("story", STORIES)
def test_partitions_move_as_recorded(story: str, transcripts: Transcripts) -> None:
    transcripts.check(story, CareStage().answer)


def test_there_are_stories_of_moves() -> None:
    assert len(STORIES) >= 20
