"""Snapshots in the core: what they free, who is given one, and how one is received (KIP-630)."""

import random
from uuid import UUID

import pytest

from quorum.core.effects import (
    AdvanceLogStart,
    Answer,
    Effect,
    InstallSnapshot,
    Send,
    StoreChunk,
    TruncateTo,
    Warn,
)
from quorum.core.events import (
    Asker,
    Flushed,
    RequestReceived,
    RequestTimedOut,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
)
from quorum.core.limits import SNAPSHOT_CHUNK_BYTES_MAX, Timeouts
from quorum.core.messages import (
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorum.core.node import QuorumNode
from quorum.core.raft_log import RaftLog
from quorum.core.roles import Follower
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
    Snapshot,
)
from quorum.core.voter_set import VoterAssignment, VoterSet

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
BIG = 2 * SNAPSHOT_CHUNK_BYTES_MAX


def only(effects: list[Effect], kind: type) -> list[Effect]:
    return [each for each in effects if isinstance(each, kind)]


def end(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(epoch), Offset(offset))


OLD, NEW = Snapshot(end(4, 1), 100), Snapshot(end(8, 2), BIG + 10)


def a_log() -> RaftLog:
    """Epoch 1 up to 6, epoch 2 up to 10."""
    return RaftLog(Offset(0), Offset(10), [(Epoch(1), Offset(0)), (Epoch(2), Offset(6))])


def a_node(
    *,
    me: int = 1,
    log: RaftLog | None = None,
    voters: tuple[int, ...] = (1,),
    leader: int | None = None,
    received: tuple[OffsetAndEpoch, int] | None = None,
) -> QuorumNode:
    election = ElectionState(Epoch(3), leader=None if leader is None else ReplicaId(leader))
    return QuorumNode(
        ReplicaKey(ReplicaId(me)),
        VoterSet.of(*voters),
        election=election,
        log=log or RaftLog(Offset(0), Offset(0), []),
        timeouts=Timeouts(),
        rng=random.Random(1),
        now_ms=0,
        received=received,
    )


def a_leader() -> QuorumNode:
    """A quorum of one that leads, with everything committed; its log ends at 11."""
    node = a_node(log=a_log())
    node.step(Tick(), now_ms=5_000)
    node.step(Flushed(node.log_end), now_ms=5_000)
    assert node.high_watermark == 11
    return node


def cut_leader() -> QuorumNode:
    node = a_leader()
    node.step(SnapshotTaken((OLD,)), now_ms=5_000)
    assert node.step(SnapshotTaken((OLD, NEW)), now_ms=5_000) == [AdvanceLogStart(Offset(4))]
    return node


def fetched(node: QuorumNode, log_end: OffsetAndEpoch) -> FetchResponse:
    request = FetchRequest(
        replica=ReplicaKey(ReplicaId(9), UUID(int=9)),
        epoch=node.epoch,
        log_end=log_end,
        max_wait_ms=0,
        max_bytes=1_000,
    )
    (answer,) = node.step(RequestReceived(Asker(1), request), now_ms=5_000)
    assert isinstance(answer, Answer)
    assert isinstance(answer.response, FetchResponse)
    return answer.response


def test_nothing_is_dropped_before_there_is_a_second_snapshot() -> None:
    assert a_leader().step(SnapshotTaken((OLD,)), now_ms=5_000) == []
    cut_leader()


def test_a_snapshot_of_what_is_not_committed_stops_the_node() -> None:
    with pytest.raises(AssertionError, match="beyond what is committed"):
        a_leader().step(SnapshotTaken((Snapshot(end(12, 3), 9),)), now_ms=5_000)


def test_a_replica_behind_the_log_start_gets_the_newest_snapshot() -> None:
    node = cut_leader()
    for behind in (end(0, 0), end(3, 1)):
        assert fetched(node, behind).snapshot == NEW.id
    for enough in (end(4, 1), end(6, 1), end(10, 2)):
        response = fetched(node, enough)
        assert response.snapshot is None
        assert response.span is not None


def test_a_replica_that_ends_in_a_missing_epoch_gets_the_newest_snapshot() -> None:
    node = a_leader()
    node.step(SnapshotTaken((NEW, Snapshot(end(9, 2), 5))), now_ms=5_000)
    assert fetched(node, end(9, 1)).snapshot == end(9, 2)


def test_an_empty_log_that_starts_at_0_is_served_from_its_first_record() -> None:
    node = a_leader()
    node.step(SnapshotTaken((OLD,)), now_ms=5_000)
    assert fetched(node, end(0, 0)).span is not None


def part_of(
    node: QuorumNode, id_: OffsetAndEpoch, position: int, **fields: int
) -> FetchSnapshotResponse:
    request = FetchSnapshotRequest(
        replica=ReplicaKey(ReplicaId(9)),
        epoch=Epoch(fields.get("epoch", node.epoch)),
        snapshot=id_,
        position=position,
        max_bytes=fields.get("max_bytes", 1 << 30),
    )
    (answer,) = only(node.step(RequestReceived(Asker(1), request), now_ms=5_000), Answer)
    assert isinstance(answer, Answer)
    assert isinstance(answer.response, FetchSnapshotResponse)
    return answer.response


def test_a_snapshot_is_given_in_parts_that_are_bounded() -> None:
    node = cut_leader()
    first = part_of(node, NEW.id, 0)
    assert (first.length, first.size_bytes) == (SNAPSHOT_CHUNK_BYTES_MAX, NEW.size_bytes)
    assert part_of(node, NEW.id, BIG).length == 10
    assert part_of(node, NEW.id, 5, max_bytes=7).length == 7


def test_an_invalid_snapshot_request_is_refused_by_name() -> None:
    node = cut_leader()
    assert part_of(node, end(5, 1), 0).error is Error.SNAPSHOT_NOT_FOUND
    for position in (-1, 100):
        assert part_of(node, OLD.id, position).error is Error.POSITION_OUT_OF_RANGE
    assert part_of(node, OLD.id, 0, epoch=1).error is Error.FENCED_LEADER_EPOCH
    assert part_of(node, OLD.id, 0, epoch=99).error is Error.UNKNOWN_LEADER_EPOCH
    follower = a_node(voters=(2, 3), leader=2)
    assert part_of(follower, OLD.id, 0).error is Error.NOT_LEADER_OR_FOLLOWER


# The follower's side.


class Receiver:
    """Node 1, an observer that follows 2 and is told to take a snapshot."""

    def __init__(self, log: RaftLog | None = None, **fields: object) -> None:
        self.node = a_node(voters=(2, 3), leader=2, log=log, **fields)  # type: ignore[arg-type]
        self.now_ms = 0
        self.pending = self.sent(self.step(Tick()))
        self.answer(FetchResponse(epoch=Epoch(3), leader=TWO, snapshot=NEW.id))

    def step(self, event: object) -> list[Effect]:
        return self.node.step(event, now_ms=self.now_ms)  # type: ignore[arg-type]

    def sent(self, effects: list[Effect]) -> Send:
        (send,) = only(effects, Send)
        assert isinstance(send, Send)
        return send

    def answer(self, response: FetchResponse | FetchSnapshotResponse) -> list[Effect]:
        """Answer what it asked last, and note what it asks now, if anything."""
        effects = self.step(ResponseReceived(self.pending.to, self.pending.correlation, response))
        for send in only(effects, Send):
            assert isinstance(send, Send)
            self.pending = send
        return effects

    def part(self, at: int, size: int, **fields: object) -> list[Effect]:
        known: dict[str, object] = {
            "epoch": self.node.epoch,
            "leader": self.pending.to,
            "snapshot": NEW.id,
            "size_bytes": NEW.size_bytes,
            "position": at,
            "length": size,
        }
        return self.answer(FetchSnapshotResponse(**{**known, **fields}))  # type: ignore[arg-type]

    @property
    def asked(self) -> FetchSnapshotRequest:
        assert isinstance(self.pending.request, FetchSnapshotRequest)
        return self.pending.request

    def later(self) -> None:
        """After the pause that follows a failure."""
        self.now_ms += 1_500
        for send in only(self.step(Tick()), Send):
            assert isinstance(send, Send)
            self.pending = send


def test_a_replica_asks_for_one_part_after_the_other_and_installs_the_whole() -> None:
    taker = Receiver()
    assert (taker.asked.snapshot, taker.asked.position) == (NEW.id, 0)
    first = taker.part(0, BIG)
    assert isinstance(first[0], StoreChunk)
    assert not only(first, InstallSnapshot), "not before it is whole"
    assert taker.asked.position == BIG
    *_, store, install = taker.part(BIG, 10)
    assert isinstance(store, StoreChunk)
    assert install == InstallSnapshot(NEW.id, is_mixed=False)
    voters = VoterAssignment(VoterSet.of(2, 3, 4))
    effects = taker.step(SnapshotInstalled(NEW, voters))
    assert taker.node.log_end == NEW.id
    assert taker.node.high_watermark == NEW.end
    assert taker.node.voters == voters.current, "those of the snapshot are in force"
    request = taker.sent(effects).request
    assert isinstance(request, FetchRequest)
    assert request.log_end == NEW.id


def test_nothing_is_fetched_while_it_is_installed() -> None:
    taker = Receiver()
    taker.part(0, NEW.size_bytes)
    assert only(taker.step(Tick()), Send) == []


def test_a_part_that_is_lost_is_asked_for_again() -> None:
    taker = Receiver()
    taker.part(0, 70)
    taker.step(RequestTimedOut(taker.pending.to, taker.pending.correlation))
    taker.later()
    assert taker.asked.position == 70


def test_another_leader_with_the_same_snapshot_sends_the_rest() -> None:
    taker = Receiver()
    taker.part(0, 70)
    taker.answer(FetchResponse(error=Error.FENCED_LEADER_EPOCH, epoch=Epoch(4), leader=THREE))
    taker.later()
    assert taker.pending.to == THREE
    assert isinstance(taker.pending.request, FetchRequest), "it is asked what it has"
    taker.answer(FetchResponse(epoch=Epoch(4), leader=THREE, snapshot=NEW.id))
    assert taker.asked.position == 70
    effects = taker.part(70, NEW.size_bytes - 70)
    assert effects[-1] == InstallSnapshot(NEW.id, is_mixed=True)


def test_another_leader_with_another_snapshot_begins_anew() -> None:
    taker = Receiver()
    taker.part(0, 70)
    taker.answer(FetchResponse(error=Error.FENCED_LEADER_EPOCH, epoch=Epoch(4), leader=THREE))
    taker.later()
    taker.answer(FetchResponse(epoch=Epoch(4), leader=THREE, snapshot=end(9, 3)))
    assert (taker.asked.snapshot, taker.asked.position) == (end(9, 3), 0)


def test_a_download_of_an_earlier_process_is_continued() -> None:
    taker = Receiver(received=(NEW.id, 70))
    assert taker.asked.position == 70
    effects = taker.part(70, NEW.size_bytes - 70)
    assert effects[-1] == InstallSnapshot(NEW.id, is_mixed=True)


def test_a_damaged_download_is_fetched_again_from_its_first_byte() -> None:
    taker = Receiver()
    taker.part(0, NEW.size_bytes)
    effects = taker.step(SnapshotRefused(NEW.id, "a checksum is wrong"))
    (warning,) = only(effects, Warn)
    assert "a checksum is wrong" in str(warning)
    taker.later()
    taker.answer(FetchResponse(epoch=Epoch(3), leader=TWO, snapshot=NEW.id))
    assert taker.asked.position == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"error": Error.SNAPSHOT_NOT_FOUND},
        {"error": Error.POSITION_OUT_OF_RANGE},
        {"snapshot": OLD.id},
        {"position": 1},
        {"length": 0},
        {"length": NEW.size_bytes + 1},
    ],
)
def test_an_answer_that_cannot_be_is_not_stored(fields: dict[str, object]) -> None:
    taker = Receiver()
    effects = taker.part(0, 10, **fields)
    assert only(effects, StoreChunk) == []
    taker.later()
    assert isinstance(taker.pending.request, FetchRequest), "what there is now is asked anew"


def test_a_snapshot_of_what_is_committed_here_already_is_not_taken() -> None:
    log = RaftLog(
        Offset(8), Offset(9), [(Epoch(2), Offset(8))], epoch_before=Epoch(2), snapshots=(NEW,)
    )
    taker = Receiver(log=log)
    assert isinstance(taker.node.role, Follower)
    assert taker.node.role.snapshot is None


def test_a_longer_log_of_an_epoch_that_is_gone_is_replaced_as_a_whole() -> None:
    """Nothing is truncated piece by piece: the snapshot holds all that was ever committed."""
    log = RaftLog(Offset(0), Offset(20), [(Epoch(1), Offset(0))])
    taker = Receiver(log=log)
    effects = taker.part(0, NEW.size_bytes)
    assert only(effects, TruncateTo) == []
    taker.step(SnapshotInstalled(NEW, None))
    assert taker.node.log_end == NEW.id


def test_a_long_download_does_not_make_a_follower_give_up_its_leader() -> None:
    taker = Receiver()
    taker.part(0, NEW.size_bytes)
    taker.now_ms = 60_000
    taker.step(SnapshotInstalled(NEW, None))
    taker.step(Tick())
    assert isinstance(taker.node.role, Follower)
