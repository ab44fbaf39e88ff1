"""A replica without an event loop: the test owns it, and the disk works on request."""

import pytest

from quorum.applier import GATHER_MS, GATHERED_MAX, PUT_OFF_MAX
from quorum.core.effects import ReadRefusal
from quorum.core.events import Asker
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.ports import Done, LogFailure
from quorum.records.batch import outlines
from tests.contracts.batches import batch
from tests.quorum.driver.one_replica import ELECTION_MS, World
from tests.support.memory_storage import MemoryLog


def vote(epoch: int, candidate: int = 3) -> VoteRequest:
    return VoteRequest(
        epoch=Epoch(epoch),
        candidate=ReplicaKey(ReplicaId(candidate)),
        log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
    )


def test_a_lone_voter_leads_and_commits_by_turns_alone() -> None:
    world = World(1)
    assert world.replica.deadline_ms is not None
    world.now_ms = world.replica.deadline_ms
    world.settle()
    assert world.told == ["commit 1", "lead 1 from 1"]
    assert world.replica.propose([b"x", b"y"]) == 1
    world.settle()
    assert world.told[2:] == ["commit 3"]


def test_nothing_is_looked_at_while_the_disk_keeps_a_vote() -> None:
    world = World(1, 2, 3)
    world.replica.asked(Asker(1), vote(epoch=1, candidate=2))
    world.replica.asked(Asker(2), vote(epoch=1, candidate=3))
    world.replica.turn()
    assert world.elections.read() == ElectionState()
    assert world.answered == []
    assert not world.replica.has_work
    assert world.replica.deadline_ms is None  # Time alone does not end the waiting.
    world.replica.turn()
    assert world.answered == []
    woken = world.woken
    world.disk.work()
    assert world.woken > woken
    assert world.answered == []  # What follows is the work of a turn, not of the disk's report.
    world.replica.turn()
    granted = [response for _, response in world.answered]
    assert [isinstance(each, VoteResponse) and each.granted for each in granted] == [True, False]
    assert world.elections.read().voted_for == ReplicaKey(ReplicaId(2))


def test_the_appends_of_one_turn_are_flushed_once() -> None:
    world = World(1)
    world.now_ms = 2 * ELECTION_MS
    world.settle()
    for value in (b"1", b"2", b"3"):
        world.replica.propose([value])
    world.replica.turn()
    assert len(world.disk.waiting) == 1


def observe(world: World, replica: int, offset: int) -> Asker:
    """Fetch as an observer from there on."""
    request = FetchRequest(
        replica=ReplicaKey(ReplicaId(replica)),
        epoch=Epoch(1),
        log_end=OffsetAndEpoch(Epoch(1), Offset(offset)),
        max_wait_ms=500,
        max_bytes=1_000,
    )
    world.replica.asked(Asker(replica), request)
    return Asker(replica)


def test_observers_are_answered_last_and_with_records_that_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(1)
    world.now_ms = 2 * ELECTION_MS
    world.settle()
    for _ in range(2):  # By the first answer they learn the high watermark.
        world.answered.clear()
        observers = [observe(world, replica, 1) for replica in (8, 9)]
        world.settle()
    world.replica.propose([b"x"])
    world.settle()
    assert world.replica.node.high_watermark == 2
    assert world.answered == []
    assert world.replica.deadline_ms == world.now_ms
    reads = []

    def read(start: Offset, end: Offset, max_bytes: int) -> bytes:
        reads.append((start, end, max_bytes))
        return MemoryLog.read(world.log, start, end, max_bytes)

    monkeypatch.setattr(world.log, "read", read)
    world.replica.asked(Asker(3), vote(epoch=1))
    world.replica.turn()
    assert [asker for asker, _ in world.answered] == [Asker(3), *observers]
    assert reads == [(1, 2, 1_000)]


def test_a_failure_of_the_disk_ends_the_next_turn() -> None:
    world = World(1)
    world.replica.fail(LogFailure("no space left"))
    assert world.replica.has_work
    with pytest.raises(LogFailure, match="no space left"):
        world.replica.turn()


def test_a_node_that_leads_nobody_says_farewell_at_once() -> None:
    world = World(1, 2, 3)
    world.replica.say_farewell()
    assert not world.replica.farewell_is_said
    world.replica.turn()
    assert world.replica.farewell_is_said


def following(world: World) -> Done:
    """Replica 1 follows 2, and has asked it for records; who answers for 2."""
    known = BeginQuorumEpochRequest(
        epoch=Epoch(1), leader=ReplicaId(2), voter=ReplicaKey(ReplicaId(1))
    )
    world.replica.asked(Asker(1), known)
    world.settle()
    return fetches(world)[-1][1]


def fetches(world: World) -> list[tuple[FetchRequest, Done]]:
    return [(asked, done) for _, asked, done in world.sent if isinstance(asked, FetchRequest)]


def records(base: int, count: int, high_watermark: int) -> tuple[FetchResponse, bytes]:
    data = batch(base, count)
    response = FetchResponse(
        epoch=Epoch(1),
        leader=ReplicaId(2),
        high_watermark=Offset(high_watermark),
        batches=tuple(outlines(data)),
    )
    return response, data


def test_a_follower_acknowledges_within_the_turn_what_a_quick_disk_has_taken() -> None:
    world = World(1, 2, 3)
    answer = following(world)
    world.disk.is_quick = True
    answer(*records(0, 2, high_watermark=1))
    world.replica.turn()
    assert fetches(world)[-1][0].log_end == OffsetAndEpoch(Epoch(1), Offset(2))
    assert not world.disk.waiting


def test_a_followers_state_machine_hears_of_commits_when_the_leader_has_its_answer() -> None:
    world = World(1, 2, 3)
    answer = following(world)
    world.disk.is_quick = True
    answer(*records(0, 2, high_watermark=1))
    world.replica.turn()
    assert world.told == []
    assert world.replica.has_work
    world.replica.turn()
    assert world.told == ["commit 1"]
    assert not world.replica.has_work


def test_a_commit_is_not_put_off_for_ever_by_other_events() -> None:
    world = World(1, 2, 3)
    answer = following(world)
    world.disk.is_quick = True
    answer(*records(0, 2, high_watermark=1))
    for turn in range(PUT_OFF_MAX + 2):
        world.replica.asked(Asker(turn + 2), vote(epoch=1))
        world.replica.turn()
    assert world.told == ["commit 1"]


def test_commits_that_follow_each_other_closely_gather_and_are_told_together() -> None:
    world = committing(World(1, 2, 3), 1, 2, 3)
    assert world.told == ["commit 1"]  # The first one comes after a pause.
    assert not world.replica.has_work
    assert world.replica.deadline_ms == world.now_ms + GATHER_MS
    world.now_ms += GATHER_MS
    world.replica.turn()  # That time has passed is told to the node first.
    world.replica.turn()
    assert world.told == ["commit 1", "commit 3"]


def test_no_more_commits_gather_than_are_taken_in_quickly() -> None:
    world = committing(World(1, 2, 3), 1, GATHERED_MAX + 1, GATHERED_MAX + 2)
    assert world.told == ["commit 1", f"commit {GATHERED_MAX + 2}"]


def test_an_observer_is_told_of_every_commit_at_once() -> None:
    assert committing(World(2, 3, 4), 1, 2, 3).told == ["commit 1", "commit 2", "commit 3"]


def committing(world: World, *high_watermarks: int) -> World:
    """Replica 2 answers with records up to each of these, and that they are committed."""
    following(world)
    world.disk.is_quick = True
    for each in high_watermarks:
        asked, answer = fetches(world)[-1]
        answer(*records(asked.log_end.offset, each - asked.log_end.offset, high_watermark=each))
        world.settle()
    return world


def test_an_election_is_written_down_after_the_commits_that_came_before() -> None:
    world = World(1, 2, 3)
    answer = following(world)
    world.disk.is_quick = True
    answer(*records(0, 2, high_watermark=1))
    world.replica.asked(Asker(2), vote(epoch=2))
    world.replica.turn()
    assert world.told == ["commit 1"]
    assert world.disk.waiting


def test_the_messages_of_a_turn_leave_before_a_fast_disk_is_used() -> None:
    world = World(1, 2, 3)
    answer = following(world)
    world.disk.is_quick = True
    world.replica.asked(Asker(2), vote(epoch=1))
    answer(*records(0, 2, high_watermark=1))
    world.replica.turn()
    assert len(world.disk.waiting) == 1


def test_a_state_machine_that_is_behind_has_one_stride_a_turn_and_leads_only_then() -> None:
    world = World(1)
    world.strides_behind = 3
    world.now_ms = 2 * ELECTION_MS
    turns = []
    while world.strides_behind:
        told = len(world.told)
        world.replica.turn()
        turns.append(world.told[told:])
        if world.disk.waiting:
            world.disk.work()
        # Nobody else would see to it that there is another turn.
        assert world.replica.has_work is (world.strides_behind > 0)
    # The disk keeps the vote, then the record of the new leader.
    assert turns == [
        [],
        ["2 strides behind"],
        ["commit 1"],  # What comes goes first.
        ["1 strides behind"],
        ["0 strides behind", "lead 1 from 1"],
    ]


def leads(world: World) -> bool:
    return world.replica.node.epoch_start is not None


def test_a_state_machine_that_never_heard_that_it_leads_does_not_hear_of_the_end() -> None:
    world = World(1)
    world.strides_behind = 9
    world.now_ms = 2 * ELECTION_MS
    while "commit 1" not in world.told:
        world.replica.turn()
        if world.disk.waiting:
            world.disk.work()
    assert leads(world)
    world.replica.say_farewell()
    world.replica.turn()
    assert not leads(world)
    assert world.strides_behind
    world.settle()
    assert not world.strides_behind
    assert [each for each in world.told if "lead" in each] == []


class Losing(World):
    """Uncommitted decisions go with the lead, and missing commits are replayed at once."""

    def on_stop_leading(self, epoch: Epoch) -> None:
        super().on_stop_leading(epoch)
        self.strides_behind = 2


def test_a_state_machine_that_loses_the_lead_applies_missing_commits_at_once() -> None:
    world = Losing(1)
    world.now_ms = 2 * ELECTION_MS
    world.settle()
    world.replica.say_farewell()
    world.settle()
    # Nothing more is committed, and nobody else would see to it.
    assert world.told[-3:] == ["stop leading 1", "1 strides behind", "0 strides behind"]


def test_a_read_is_answered_when_all_that_it_is_to_show_was_taken_in() -> None:
    world = World(1)
    world.now_ms = 2 * ELECTION_MS
    world.settle()
    world.strides_behind = 2
    found: list[Offset | ReadRefusal] = []
    world.replica.read_index(found.append)
    world.replica.turn()
    world.replica.turn()
    assert (world.strides_behind, found) == (1, [])
    world.replica.turn()
    assert found == [Offset(1)]


def test_no_stride_is_taken_while_the_disk_replaces_what_would_be_read() -> None:
    world = World(1, 2, 3)
    world.strides_behind = 1
    world.replica.asked(Asker(1), vote(epoch=1))
    world.replica.turn()
    world.replica.turn()
    assert world.strides_behind == 1
    world.disk.work()
    world.replica.turn()
    assert world.strides_behind == 0
