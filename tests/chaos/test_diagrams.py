"""The sequence diagram of a story: well-formed, and with the events of the story alone."""

from xml.etree import ElementTree

from chaos.story.diagram import svg
from chaos.story.recorder import DECISIVE, FAULT, Event
from chaos.story.story import Story, story_of

TEXT = "R1: 1 and 2 lead epoch 4, <both>"
EVENTS = (
    Event(0, None, "fault: 1 is isolated", FAULT),
    Event(900, 2, "Vote(epoch 4)", DECISIVE, to=3, epoch=4),
    Event(1_000, 2, "becomes leader of epoch 4", DECISIVE, epoch=4),
)


def story() -> Story:
    return story_of(EVENTS, "R1", TEXT, (1, 2, 3), 1_200)


def test_a_diagram_has_a_lane_for_each_replica_that_acts() -> None:
    root = ElementTree.fromstring(svg(story()))
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [each for each in texts if each.startswith("replica ")] == ["replica 2", "replica 3"]
    assert "fault: 1 is isolated" in texts
    assert "R1 is violated: 1 and 2 lead epoch 4, <both>" in texts
    assert "R1 VIOLATED" in texts


def test_a_story_has_the_time_and_the_replica_of_each_event() -> None:
    assert str(story()).splitlines()[-5:] == [
        "   0.000 s  fault: 1 is isolated",
        "   0.900 s  2 -> 3: Vote(epoch 4)",
        "   1.000 s  2 becomes leader of epoch 4",
        "   1.200 s  R1 VIOLATED",
        "(0 further events of the run are left out)",
    ]
