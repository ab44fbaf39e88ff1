import pytest

from tests.quorum.log.folder_commands import FolderStage
from tests.support.transcript import Transcripts
from tests.support.tree import ROOT

STORIES = sorted(path.stem for path in (ROOT / "tests" / "transcripts").glob("folder_*.txt"))


@pytest.mark.parametrize("story", STORIES)
def test_a_folder_behaves_as_recorded(story: str, transcripts: Transcripts) -> None:
    transcripts.check(story, FolderStage().answer)


def test_there_are_stories_of_folders() -> None:
    assert len(STORIES) >= 5
