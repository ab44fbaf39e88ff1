import pytest

from tests.quorum.core.snapshot_commands import SnapshotsStage
from tests.support.transcript import Transcripts
from tests.support.tree import ROOT

STORIES = sorted(path.stem for path in (ROOT / "tests" / "transcripts").glob("quorum_*.txt"))


@pytest.mark.parametrize("story", STORIES)
def test_the_quorum_behaves_as_recorded(story: str, transcripts: Transcripts) -> None:
    transcripts.check(story, SnapshotsStage().answer)


def test_there_are_stories() -> None:
    assert len(STORIES) > 15
