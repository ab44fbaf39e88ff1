"""Long decisions run in slices with the same result, and do not hold up others."""

import random
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import event_queue
from controller.event_queue import SLICE_US, ControllerEventQueue
from controller.ports import Unavailable
from quorum.core.vocabulary import Offset
from quorum.records.decode import decode as decode_records
from statemachine import commands
from statemachine.brokers.safety import SafetyCheck, check_safety
from statemachine.errors import Refusal
from statemachine.image.image import Image
from statemachine.records.codec import decode
from statemachine.replay import replay
from statemachine.slices import LOOKED_AT_US, Slices
from tests.controller.controller_commands import anything, heartbeat, topic
from tests.controller.lone_controller import SESSION_TIMEOUT_MS, Lone
from tests.controller.sliced_controller import Sliced, moves
from tests.statemachine.support.reference_checks import check_image, contents
from tests.support.parameters import at_most_in_quick

BROKERS = (101, 102, 103, 104)
MANY = 60


def folded(lone: Lone) -> Image:
    """The image of all that is committed."""
    image = Image()
    for record in decode_records(lone.replica.read_committed(Offset(0), 1 << 30)):
        image.advance(record.offset)
        if not record.control:
            assert record.value is not None
            replay(image, decode(record.value), record.offset)
    image.advance(lone.replica.node.high_watermark or 0)
    return image


def test_others_have_their_turns_while_something_takes_long() -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=2_000))
    told = lone.ask(moves("a", 2_000, 103, 104))
    slices = 0
    while lone.take_slice():
        slices += 1
        lone.settle()
    lone.settle()
    # Eight microseconds each to decide, as they are alike, and some to write and to replay.
    assert 2_000 * 15 / SLICE_US < slices < 2_000 * 40 / SLICE_US
    (answer,) = told
    assert isinstance(answer, commands.ReassignmentsAltered)
    assert len(lone.controller.image.index.moving) == 2_000
    check_image(lone.controller.image)


def test_others_have_their_turns_while_many_topics_are_deleted() -> None:
    lone = Sliced(*BROKERS)
    names = tuple(f"t{number}" for number in range(40))
    for name in names:
        lone.answer(topic(name, 101))
    told = lone.ask(commands.DeleteTopics(topics=names))
    slices = 0
    while lone.take_slice():
        slices += 1
        lone.settle()
    lone.settle()
    assert slices >= 3
    (answer,) = told
    assert isinstance(answer, commands.TopicsDeleted)
    assert not lone.controller.image.topics
    assert contents(folded(lone)) == contents(lone.controller.image)


def test_others_have_their_turns_while_it_is_judged_whether_brokers_may_stop() -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=2_000))
    found: list[SafetyCheck | Refusal | Unavailable] = []
    lone.controller.query_long(partial(check_safety, broker_ids=(101, 102)), found.append)
    slices = 0
    while lone.take_slice():
        slices += 1
        lone.settle()
    assert slices >= 2_000 * LOOKED_AT_US // SLICE_US - 1
    (safety,) = found
    assert isinstance(safety, SafetyCheck)
    assert (safety.unsafe_count, safety.looked_at) == (2_000, 2_000)


def test_a_short_decision_is_made_at_once() -> None:
    lone = Sliced(*BROKERS)
    told = lone.ask(topic("a", 101, 102))
    assert lone.controller.image.topic_named("a") is not None
    assert (lone.due, told) == ([], [])
    lone.settle()
    assert len(told) == 1


class Carried(NamedTuple):
    """A command that has been carried out at once."""

    command: commands.Command
    answer: list[commands.Answer | Unavailable]
    end: int
    """Everything below it was in the log when the answer was given."""


def carried_out(seed: int) -> tuple[Lone, list[Carried]]:
    """Some commands, one after the other, on a controller that does each of them at once."""
    rng, lone = random.Random(seed), Sliced(*BROKERS)
    carried = []
    for _ in range(12):
        command = anything(lone.controller, rng)
        told = lone.ask(command)
        assert not lone.due
        carried.append(Carried(command, told, lone.controller.image.end_offset))
    lone.settle()
    return lone, carried


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(20), deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_any_interleaving_gives_what_one_command_after_the_other_gives(
    seed: int, data: st.DataObject
) -> None:
    at_once, carried = carried_out(seed)
    told: list[list[object]] = [[] for _ in carried]

    def tell(place: int, answer: object) -> None:
        told[place].append(answer)
        # Nothing is said before everything that it rests on is committed.
        assert lone.controller.committed >= carried[place].end
        assert (lone.replica.node.high_watermark or 0) >= carried[place].end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_queue, "SLICE_US", 1)
        lone = Sliced(*BROKERS)
        left = list(enumerate(carried))
        while left or lone.due:
            match data.draw(st.sampled_from(("ask", "slice", "slice", "turn", "commit", "look"))):
                case "ask" if left:
                    place, each = left.pop(0)
                    lone.controller.submit(each.command, partial(tell, place))
                case "turn":
                    lone.replica.turn()
                case "commit":
                    lone.settle()
                case "look":
                    lone.look(check_image)
                case _:
                    lone.take_slice()
        lone.settle()
    assert told == [each.answer for each in carried]
    assert contents(lone.controller.image) == contents(at_once.controller.image)
    assert contents(folded(lone)) == contents(lone.controller.image)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("after", [0, 1, 30, 59, 61, 62, 66, 70, 72, 80])
def test_a_lead_that_is_lost_between_two_slices_leaves_what_is_committed(
    after: int, commits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    before = contents(lone.controller.image)
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    told = [lone.ask(moves("a", MANY, 103, 104)), lone.ask(topic("b", 101))]
    found = lone.look(lambda image: "b" in image.topic_ids)
    for _ in range(after):
        lone.take_slice()
    if commits:
        lone.settle()
    was_proposed = lone.replica.node.log_end.offset > before["end_offset"] or lone.replica.has_work
    lone.stop_leading()
    while lone.take_slice():
        pass
    # Each is told something once, and that it is not done only if it never will be.
    assert [len(each) for each in told] == [1, 1]
    assert len(found) == 1
    while lone.controller.is_behind:
        lone.controller.catch_up()
    image = contents(lone.controller.image)
    assert image == contents(folded(lone))
    check_image(lone.controller.image)
    if told[0] == [Unavailable.NOT_ACTIVE]:
        assert image["topics"] == before["topics"]
    else:
        assert was_proposed
        done = isinstance(told[0][0], commands.ReassignmentsAltered)
        assert done or told[0] == [Unavailable.LEAD_LOST]
        assert commits or not done


@pytest.mark.interpreted
def test_a_decision_of_many_batches_is_in_the_log_as_a_whole_or_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.record_appender.BATCH_RECORDS_MAX", 20)
    monkeypatch.setattr("controller.record_appender.CUT_RECORDS_MAX", 7)
    lone = Sliced(*BROKERS)
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    told = lone.ask(topic("whole", 101, 102, partitions=MANY))
    while lone.take_slice():
        lone.settle()
        if told == []:
            assert lone.look(lambda image: "whole" in image.topic_ids) in ([], [False])
    lone.settle()
    assert len(told) == 1
    assert contents(folded(lone)) == contents(lone.controller.image)
    before = contents(lone.controller.image)
    told = lone.ask(moves("whole", MANY, 103, 104))
    while lone.controller.image.transaction is None:
        lone.take_slice()
    # There is no room for a while: it waits, and is not given up.
    lone.replica.room(False)
    lone.settle()
    end = lone.controller.image.end_offset
    for _ in range(20):
        lone.take_slice()
    assert lone.controller.image.end_offset <= end + 7
    lone.replica.room(True)
    lone.settle()
    for _ in range(3):
        lone.take_slice()
        lone.settle()
    lone.stop_leading()
    assert told == [Unavailable.LEAD_LOST]
    while lone.controller.is_behind:
        lone.controller.catch_up()
    assert lone.controller.image.transaction is not None
    lone.controller.image.abort_transaction()
    assert contents(lone.controller.image)["topics"] == before["topics"]


def test_nobody_sees_half_of_what_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    told = lone.ask(moves("a", MANY, 103, 104))
    looks = []
    while lone.due:
        looks.append(lone.look(lambda image: len(image.index.moving)))
        looks.append([])
        lone.controller.query(lambda image: len(image.index.moving), looks[-1].append, stale=True)
        lone.take_slice()
        lone.settle()
    lone.finish()
    assert len(told) == 1
    assert {tuple(each) for each in looks} == {(0,), (MANY,)}


def test_a_long_query_reads_the_state_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    lone = Sliced(*BROKERS)
    monkeypatch.setattr(event_queue, "SLICE_US", 1)

    def reading(image: Image) -> Slices[tuple[int, int]]:
        before = len(image.topics)
        for _ in range(10):
            yield 1
        return before, len(image.topics)

    found: list[object] = []
    first = lone.ask(topic("a", 101))
    lone.controller.query_long(reading, found.append)
    second = lone.ask(topic("b", 101))
    lone.finish()
    assert (len(first), len(second), found) == (1, 1, [(1, 1)])
    lone.controller.query_long(reading, found.append, stale=True)
    lone.take_slice()
    lone.stop_leading()
    assert found[1:] == [Unavailable.NOT_ACTIVE]
    lone.controller.query_long(reading, found.append, stale=True)
    assert found[2:] == []
    while lone.take_slice():
        pass
    assert found[2:] == [(2, 2)]


def test_a_controller_asks_itself_once_for_what_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    lone.ask(moves("a", MANY, 103, 104))
    assert lone.controller.heartbeats is not None
    lone.controller.heartbeats.touch(101, lone.now_ms - SESSION_TIMEOUT_MS, 0)
    for _ in range(50):
        lone.controller.sweep()
        lone.controller.advance_moves()
        lone.take_slice()
    image = lone.controller.image
    assert sorted(image.index.isr_of) == [101, 102]
    lone.finish()
    assert sorted(each for each, keys in image.index.isr_of.items() if keys) == [102]
    end = image.end_offset
    lone.controller.sweep()
    lone.finish()
    assert image.end_offset == end


def test_heartbeats_that_wait_behind_something_long_are_answered_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    lone.ask(moves("a", MANY, 103, 104))
    alive = lone.ask(heartbeat(lone.controller, 101))
    lone.settle()
    assert alive == []
    lone.finish()
    assert len(alive) == 1


def test_there_is_an_end_to_what_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "WAITING_PIECES_MAX", 3)
    lone = Sliced(*BROKERS)
    lone.answer(topic("a", 101, 102, partitions=MANY))
    monkeypatch.setattr(event_queue, "SLICE_US", 1)
    told = [lone.ask(moves("a", MANY, 103, 104)) for _ in range(4)]
    assert told == [[], [], [], [Unavailable.OVERLOADED]]
    lone.finish()
    assert [len(each) for each in told] == [1, 1, 1, 1]


def test_an_error_is_raised_and_does_not_hold_up_later_commands() -> None:
    due: list[partial[None]] = []
    slices = ControllerEventQueue(lambda call: due.append(partial(call)))
    done: list[str] = []

    def works(name: str) -> Slices[None]:
        yield SLICE_US
        done.append(name)

    def fails() -> Slices[None]:
        yield SLICE_US
        raise AssertionError("a broken invariant")

    slices.add(fails(), lambda: None)
    slices.add(works("next"), lambda: None)
    with pytest.raises(AssertionError, match="a broken invariant"):
        due.pop()()
    slices.add(works("last"), lambda: None)
    while due:
        due.pop()()
    assert done == ["next", "last"]
