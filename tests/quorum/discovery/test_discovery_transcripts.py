import pytest

from tests.quorum.discovery.discovery_commands import TownStage
from tests.support.transcript import Transcripts
from tests.support.tree import ROOT

STORIES = sorted(path.stem for path in (ROOT / "tests" / "transcripts").glob("town_*.txt"))


@pytest.mark.parametrize("story", STORIES)
def test_the_town_tells_the_story_as_it_is_recorded(story: str, transcripts: Transcripts) -> None:
    transcripts.check(story, TownStage().answer)


def test_there_are_stories_of_the_town() -> None:
    assert len(STORIES) >= 6
