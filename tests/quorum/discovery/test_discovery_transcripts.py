import pytest

from tests.quorum.discovery.discovery_commands import DiscoveryCommands
from tests.support.transcript import Transcripts
from tests.support.tree import ROOT

STORIES = sorted(path.stem for path in (ROOT / "tests" / "transcripts").glob("discovery_*.txt"))


@pytest.mark.parametrize("story", STORIES)
def test_nodes_discover_each_other_as_recorded(story: str, transcripts: Transcripts) -> None:
    transcripts.check(story, DiscoveryCommands().answer)


def test_there_are_transcripts_of_discovery() -> None:
    assert len(STORIES) >= 6
