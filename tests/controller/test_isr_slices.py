"""ISR changes in one request: very many in slices, all or none; a single one at once."""

import pytest

from controller.event_queue import SLICE_US
from controller.ports import Unavailable
from statemachine.commands import PartitionsAltered
from statemachine.errors import Error
from tests.controller.controller_commands import isr, topic
from tests.controller.sliced_controller import Sliced
from tests.controller.test_event_queue import BROKERS, folded
from tests.statemachine.support.reference_checks import check_image, contents

MANY = 3_000


def halved() -> Sliced:
    """A controller that has been asked to take one of two brokers out of very many ISRs."""
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    told = lone.ask(isr(lone.controller, "a", (101,), range(MANY)))
    assert not told
    return lone


def isrs(lone: Sliced) -> set[tuple[int, ...]]:
    """All that there are."""
    found = lone.controller.image.topic_named("a")
    assert found is not None
    return {partition.isr for _, partition in found.existing()}


def test_others_have_their_turns_while_very_many_isrs_change() -> None:
    lone = halved()
    slices = 0
    while lone.take_slice():
        slices += 1
        lone.settle()
    lone.settle()
    # Three microseconds each to decide, one to write, and two to replay.
    assert MANY * 4 / SLICE_US < slices < MANY * 8 / SLICE_US
    assert isrs(lone) == {(101,)}
    check_image(lone.controller.image)
    assert contents(folded(lone)) == contents(lone.controller.image)


@pytest.mark.parametrize("slices", range(10))
def test_isrs_that_are_halfway_when_the_lead_is_lost_change_for_all_or_none(slices: int) -> None:
    lone = halved()
    for _ in range(slices):
        lone.take_slice()
    lone.stop_leading()
    lone.settle()
    while lone.controller.is_behind:
        lone.controller.catch_up()
    check_image(lone.controller.image)
    assert isrs(lone) in ({(101,)}, {(101, 102)})
    assert contents(folded(lone)) == contents(lone.controller.image)


def test_one_isr_changes_at_once_and_is_answered_when_it_is_committed() -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102))
    told = lone.ask(isr(lone.controller, "a", (101,)))
    assert not lone.due
    assert isrs(lone) == {(101,)}
    assert not told
    lone.settle()
    (answer,) = told
    assert isinstance(answer, PartitionsAltered)
    assert answer.partitions[0].isr == (101,)
    assert contents(folded(lone)) == contents(lone.controller.image)


def test_one_isr_waits_for_what_is_under_way() -> None:
    lone = halved()
    told = lone.ask(isr(lone.controller, "a", (101,), [MANY - 1]))
    # It was as it asks for, and is not any more when its turn comes.
    assert lone.due
    lone.finish()
    (answer,) = told
    assert isinstance(answer, PartitionsAltered)
    assert answer.partitions[0].error is Error.INVALID_UPDATE_VERSION


def test_one_isr_is_undone_with_the_lead() -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102))
    before = contents(lone.controller.image)
    told = lone.ask(isr(lone.controller, "a", (101,)))
    assert isrs(lone) == {(101,)}
    lone.stop_leading()
    assert told == [Unavailable.LEAD_LOST]
    assert contents(lone.controller.image) == before


def test_one_isr_needs_room_on_the_disk_unless_it_changes_nothing() -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102))
    lone.replica.room(False)
    lone.settle()
    assert lone.ask(isr(lone.controller, "a", (101,))) == [Unavailable.DISK_FULL]
    (answer,) = lone.ask(isr(lone.controller, "a", (102, 101)))
    assert isinstance(answer, PartitionsAltered)
    assert answer.partitions[0].isr == (101, 102)
