"""A request with a key is carried out once and answered alike by every controller."""

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from statemachine import commands
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.image.snapshot import begin
from statemachine.limits import KEYED_PARTS_MAX
from statemachine.replay import replay
from tests.statemachine.image.test_snapshot_written import loaded, whole
from tests.statemachine.support.random_commands import KEYED
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import World

MOVE = commands.BeginMove(
    reassignments=(
        commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4)),
        commands.Reassignment(topic="t", partition=9, replicas=(1, 2, 4)),
    ),
    who="ann",
)


@pytest.fixture
def world() -> World:
    """Partition 0 of "t" on brokers 1, 2 and 3, all in sync, led by 1."""
    world = World(broker_count=5)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    return world


def keyed(
    command: commands.KeyedCommand = MOVE, key: str = "k", fingerprint: bytes = b"one"
) -> commands.IdempotentCommand:
    """The request with a key."""
    return commands.IdempotentCommand(key=key, fingerprint=fingerprint, command=command)


def refusal(answer: commands.Answer, error: Error = Error.INVALID_REQUEST) -> str:
    """The reason for which the key of the request was refused."""
    assert isinstance(answer, commands.Done)
    assert answer.error is error
    return answer.message


def told_again(answer: commands.Answer) -> commands.Answer:
    """The answer as it is given to whoever asks once more."""
    return replace(answer, repeated=True)


def test_the_same_request_is_carried_out_once_and_answered_alike(world: World) -> None:
    first = world.ask(keyed()).answer
    assert isinstance(first, commands.MoveStarted)
    assert (first.move_id, first.accepted, first.refused_count) == (1, 1, 1)
    # Meanwhile it has arrived, and was moved on by somebody else.
    world.sync(1, 2, 3, 4)
    world.reassign(1, 2, 5)
    again = world.ask(keyed())
    assert (again.answer, again.records) == (told_again(first), ())
    assert world.partition().target == (1, 2, 5)


def test_the_move_says_by_which_key_it_was_asked_for(world: World) -> None:
    world.ask(keyed())
    begun = world.image.moves[1].begun
    assert (begun.key, begun.fingerprint) == ("k", b"one")
    world.reassign(1, 2, 5)
    assert world.image.moves[2].begun.key == ""


def test_another_request_with_the_same_key_is_refused(world: World) -> None:
    world.ask(keyed())
    other = world.ask(keyed(fingerprint=b"two"))
    assert "the key k belongs to another request" in refusal(other.answer, Error.DUPLICATE_RESOURCE)
    assert other.records == ()


def test_the_key_is_known_after_a_fail_over_and_from_a_snapshot(world: World) -> None:
    """The next controller's image is made of the log alone, or of a snapshot of it."""
    follower = Image()
    first = world.ask(keyed())
    for record in first.records:
        replay(follower, record, follower.end_offset)
    end = world.image.end_offset
    for image in (follower, loaded(whole(begin(world.image, end)), end)):
        again = decide(image, keyed())
        assert (again.answer, again.records) == (told_again(first.answer), ())


def test_a_request_that_was_not_committed_is_carried_out_when_repeated(world: World) -> None:
    world.image.begin_undo_log(world.image.end_offset)
    end, before = world.image.end_offset, contents(world.image)
    world.ask(keyed())
    world.image.rewind(end)
    assert contents(world.image) == before
    answer = world.ask(keyed()).answer
    assert isinstance(answer, commands.MoveStarted)
    assert (answer.move_id, world.partition().moving) == (1, True)


def test_a_refused_request_stays_refused(world: World) -> None:
    """Its asker may have given up, and asked for something else."""
    cancel = commands.AlterReassignments(
        reassignments=(commands.Reassignment(topic="t", partition=0, replicas=None),)
    )
    first = world.ask(keyed(cancel)).answer
    assert isinstance(first, commands.ReassignmentsAltered)
    assert first.partitions[0].error is Error.NO_REASSIGNMENT_IN_PROGRESS
    world.reassign(1, 2, 4)
    assert world.ask(keyed(cancel)).answer == told_again(first)
    assert world.partition().moving


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (keyed(key=""), "1 to 255 characters, not 0"),
        (keyed(key="x" * 256), "1 to 255 characters, not 256"),
        (keyed(fingerprint=b"x" * 65), "at most 64 bytes, not 65"),
    ],
)
def test_a_key_that_cannot_be_is_refused(
    world: World, command: commands.IdempotentCommand, said: str
) -> None:
    decision = world.ask(command)
    assert said in refusal(decision.answer)
    assert decision.records == ()


def several(count: int, **fields: Any) -> commands.AlterReassignments:
    """A request valid for partition 0, invalid for so many others, and valid for partition 1."""
    wrong = [asked_of(number) for number in range(2, count + 2)]
    return commands.AlterReassignments(reassignments=(asked_of(0), *wrong, asked_of(1)), **fields)


def asked_of(number: int) -> commands.Reassignment:
    return commands.Reassignment(topic="t", partition=number, replicas=(1, 2, 4))


def altered(answer: commands.Answer) -> commands.ReassignmentsAltered:
    assert isinstance(answer, commands.ReassignmentsAltered)
    return answer


def test_a_request_of_many_parts_is_answered_again_part_by_part(world: World) -> None:
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    first = altered(world.ask(keyed(several(3))).answer)
    assert [each.error.code for each in first.partitions] == [0, 3, 3, 3, 0]
    again = altered(world.ask(keyed(several(3))).answer)
    assert again == told_again(first)
    # Asked later, it tells of the replicas as they are then.
    world.sync(1, 2, 3, 4)
    later = altered(world.ask(keyed(several(3))).answer)
    assert [each.replicas for each in later.partitions] == [
        (1, 2, 4),
        (),
        (),
        (),
        (1, 2, 3, 4),
    ]
    world.ask(commands.DeleteTopics(topics=("t",)))
    gone = altered(world.ask(keyed(several(3))).answer)
    assert [each.error for each in gone.partitions] == [each.error for each in first.partitions]


def test_the_reasons_of_the_first_of_many_refused_partitions_are_kept(world: World) -> None:
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    many = several(KEYED_PARTS_MAX + 1)
    first = altered(world.ask(keyed(many)).answer)
    again = altered(world.ask(keyed(many)).answer)
    assert again.partitions[:-2] == first.partitions[:-2]
    assert again.partitions[-1].error is Error.NONE
    assert again.partitions[-2].error is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert again.partitions[-2].message == "there is no such topic or partition"
    assert len(world.image.keys["k"].answer) < 1_000_000


def test_an_answer_is_never_given_to_another_kind_of_request(world: World) -> None:
    """The fingerprint of a request may be wrong, whoever has made it."""
    world.ask(keyed(several(1)))
    for other in (MOVE, several(2), commands.PauseMoves(moves=None)):
        assert "belongs to another" in refusal(
            world.ask(keyed(other)).answer, Error.DUPLICATE_RESOURCE
        )


def test_of_a_large_cancel_the_refused_are_kept_first_and_all_are_counted(world: World) -> None:
    """Here nothing was under way, so all are refused but the one that was."""
    world.reassign(1, 2, 4)
    count = KEYED_PARTS_MAX + 1
    cancel = commands.CancelMoves(partitions=tuple(("t", number) for number in range(count)))
    first = world.ask(keyed(cancel)).answer
    again = world.ask(keyed(cancel)).answer
    assert isinstance(first, commands.MovesCancelled)
    assert isinstance(again, commands.MovesCancelled)
    assert (again.done_count, again.refused_count) == (1, KEYED_PARTS_MAX)
    assert again.partitions == first.partitions[1:]


@given(command=KEYED)
def test_every_remembered_answer_is_returned_again(command: commands.KeyedCommand) -> None:
    """The answer comes back from its bytes as it was."""
    world = World(broker_count=3)
    first = world.ask(keyed(command))
    again = world.ask(keyed(command))
    assert (again.answer, again.records) == (told_again(first.answer), ())


def test_a_request_of_a_hundred_thousand_partitions_leaves_a_few_bytes(world: World) -> None:
    """And tells of the three that are wrong when it is asked again, at the same places."""
    count = 100_000
    wrong = {7: "x", 8: "y", count - 1: "z"}
    asked = tuple(
        [
            commands.Reassignment(topic=wrong.get(place, "t"), partition=0, replicas=(1, 2, 4))
            for place in range(count)
        ]
    )
    command = keyed(commands.AlterReassignments(reassignments=asked))
    answers = []
    for _ in range(2):
        decision = decide(world.image, command)
        for record in decision.records:
            replay(world.image, record, world.image.end_offset)
        answers.append(altered(decision.answer))
    for answer in answers:
        refused = [n for n, each in enumerate(answer.partitions) if each.error is not Error.NONE]
        assert refused == sorted(wrong)
    assert answers[1] == told_again(answers[0])
    assert len(world.image.keys["k"].answer) < 1_000
