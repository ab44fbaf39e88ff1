"""Very many ISRs that change by one request change in slices, and all of them or none."""

import pytest

from broker.slicing import SLICE_US
from tests.admin.controller.asking import isr, topic
from tests.broker.sliced_controller import Sliced
from tests.broker.test_slicing import BROKERS, folded
from tests.statemachine.checks import check_image, contents

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
