"""A long stale query runs in slices too, on a controller that is not active."""

from functools import partial
from typing import Any

import pytest

from controller import quorum_controller
from controller.event_queue import SLICE_US
from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.core.vocabulary import Offset
from statemachine.brokers.safety import SafetyCheck, check_safety
from statemachine.errors import Refusal
from statemachine.image.image import Image
from statemachine.slices import LOOKED_AT_US, Slices
from tests.controller.controller_commands import topic
from tests.controller.sliced_controller import Sliced
from tests.statemachine.support.reference_checks import contents

BROKERS = (101, 102)
MANY = 2_000
TURNS = 10


class Pair:
    """An active controller, and one beside it that takes in what the first one has committed."""

    def __init__(self) -> None:
        self.active = Sliced(*BROKERS)
        self.due: list[Any] = []
        self.standby: QuorumController = self.active.standby(self.due.append)
        self.commit()
        while self.standby.is_behind:
            self.standby.catch_up()
        assert self.standby.is_ready
        assert not self.standby.is_active

    def create(self, name: str, partitions: int = 1) -> None:
        """The active one creates a topic; the other one does not hear of it yet."""
        self.active.answer(topic(name, *BROKERS, partitions=partitions))

    def commit(self) -> None:
        """The standby hears how much is committed."""
        self.standby.on_commit(Offset(self.active.controller.committed))

    def take_slice(self) -> bool:
        """One slice of what the standby reads; whether there was one."""
        if not self.due:
            return False
        self.due.pop(0)()
        return True

    def look(self, found: list[Any]) -> None:
        """Count the topics, at the first and at the last of several turns."""
        self.standby.query_long(_count_twice, found.append, stale=True)


def _count_twice(image: Image) -> Slices[tuple[int, int]]:
    before = len(image.topics)
    for _ in range(TURNS):
        yield SLICE_US
    return before, len(image.topics)


def test_others_have_their_turns_while_a_controller_that_is_not_active_judges() -> None:
    pair = Pair()
    pair.create("a", MANY)
    pair.commit()
    assert not pair.standby.is_behind
    found: list[SafetyCheck | Refusal | Unavailable] = []
    pair.standby.query_long(partial(check_safety, broker_ids=BROKERS), found.append, stale=True)
    slices = 1
    while pair.take_slice():
        slices += 1
    assert slices >= MANY * LOOKED_AT_US // SLICE_US
    (safety,) = found
    assert isinstance(safety, SafetyCheck)
    assert (safety.unsafe_count, safety.looked_at) == (MANY, MANY)


def test_commits_during_a_long_query_are_replayed_when_it_has_ended() -> None:
    pair = Pair()
    found: list[Any] = []
    pair.look(found)
    pair.create("a")
    pair.commit()
    while pair.take_slice():
        pair.standby.catch_up()
    assert found == [(0, 0)]
    pair.standby.catch_up()
    assert not pair.standby.is_behind
    assert contents(pair.standby.image) == contents(pair.active.controller.image)


def test_a_snapshot_that_comes_meanwhile_waits_as_well() -> None:
    pair = Pair()
    found: list[Any] = []
    pair.look(found)
    pair.create("a")
    taken = pair.active.controller.snapshot()
    assert taken is not None
    records = [record for group in taken.groups for record in group]
    pair.standby.load_snapshot(records, taken.end, pair.active.replica.node.epoch)
    while pair.take_slice():
        pair.standby.catch_up()
    assert found == [(0, 0)]
    while pair.standby.is_behind:
        pair.standby.catch_up()
    assert len(pair.standby.image.topics) == 1


@pytest.mark.interpreted
def test_repeated_long_queries_let_the_image_follow_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second look begins when the image has taken in what there is, or had time for much."""
    pair = Pair()
    found: list[Any] = []
    pair.look(found)
    pair.look(found)
    pair.create("a")
    pair.commit()
    while pair.take_slice():
        pair.standby.catch_up()
    assert found == [(0, 0), (1, 1)]
    # It does not follow for long, for nobody lets it: who looks has an answer all the same.
    pair.create("b")
    monkeypatch.setattr(quorum_controller, "BEHIND_TURNS_MAX", 3)
    pair.standby.query_long(_count_twice, found.append, stale=True)
    pair.look(found)
    pair.commit()
    slices = 0
    while pair.take_slice():
        slices += 1
    assert found[2:] == [(1, 1), (1, 1)]
    assert slices <= 2 * TURNS + 3 + 1


def test_a_look_that_is_under_way_when_the_controller_becomes_active_goes_on() -> None:
    pair = Pair()
    found: list[Any] = []
    pair.look(found)
    pair.standby.on_lead(pair.active.replica.node.epoch, pair.standby.committed)
    assert pair.standby.is_active
    while not found:
        assert pair.take_slice()
    assert found == [(0, 0)]


def test_a_look_that_fails_does_not_keep_the_image_from_following() -> None:
    pair = Pair()

    def fails(_: Image) -> Slices[int]:
        yield SLICE_US
        raise AssertionError("a broken invariant")

    pair.standby.query_long(fails, print, stale=True)
    pair.create("a")
    pair.commit()
    assert pair.standby.is_behind
    with pytest.raises(AssertionError, match="a broken invariant"):
        pair.take_slice()
    pair.standby.catch_up()
    assert not pair.standby.is_behind
