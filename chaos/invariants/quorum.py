"""The invariants of the quorum, checked from the wire and the disks (R1 to R12, R15 to R21, R29).

The checker never reads a variable of a node. It sees every message before it is sent, every durable
change, and every call of a replica to its state machine. It raises `Violation` with the number of
the invariant. All checks are incremental.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from chaos.invariants.disk_format import StoredBatch, batches
from chaos.invariants.durable_state import DurableState, DurableVote, Incarnation
from chaos.invariants.history import History, in_common
from chaos.invariants.observer import Observer
from chaos.invariants.snapshots import check_part
from chaos.invariants.voter_sets import (
    VoterSet,
    VoterSets,
    has_majority,
    reached_by_majority,
    voter_set_in,
)
from chaos.violation import Violation
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import ReplicaId, ReplicaKey


class AppliedStateObserver:
    """The high watermark, snapshots and reads of the state machine of each replica."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.observer = Observer()
        self._high_watermarks: dict[tuple[ReplicaId, int], int] = {}
        self._highest = 0

    @property
    def committed_end(self) -> int:
        """The committed end offset, as counted by the checkers."""
        return self.history.end

    def high_watermark(self, who: Incarnation) -> int:
        """The high watermark that this process has reported to its state machine."""
        return self._high_watermarks.get((who.id, who.boot), 0)

    def commits(self, who: Incarnation, high_watermark: int, records: bytes) -> None:
        """R8 and R9: a replica commits only what is committed, and its high watermark rises.

        `records` are the records between its previous high watermark and this one, as it reads
        them.
        """
        before = self.high_watermark(who)
        self.observer.high_watermark_told(who, high_watermark)
        if high_watermark > self.committed_end:
            raise Violation(
                "R8",
                f"{who} commits {high_watermark}, but committed is {self.committed_end}",
            )
        if high_watermark <= before:
            raise Violation(
                "R9", f"the high watermark of {who} does not rise: {before}, then {high_watermark}"
            )
        self._high_watermarks[who.id, who.boot] = high_watermark
        self._highest = max(self._highest, high_watermark)
        committed = self.history.between(before, high_watermark)
        if records != b"".join(each.data for each in committed):
            raise Violation(
                "R6",
                f"{who} reads other records in [{before}, {high_watermark}) than were committed",
            )

    def hands_over(self, who: Incarnation, proposed_end: int) -> None:
        """R29: a transfer of leadership waits until every proposal is committed."""
        if self.high_watermark(who) < proposed_end:
            raise Violation(
                "R29",
                f"{who} transfers its lead at {self.high_watermark(who)}, "
                f"but proposed up to {proposed_end}",
            )

    def holds(self, who: Incarnation, end: int, state: object) -> None:
        """R20: its state equals the fold of the records below `end`."""
        expected = self.history.state_at(end)
        if state != expected:
            raise Violation(
                self.history.state_rule, f"the state of {who} at {end} is {state}, not {expected}"
            )

    def loads(self, who: Incarnation, end: int, epoch: int, state: object) -> None:
        """R20 and R21: it loads a snapshot instead of records."""
        if not self.history.is_boundary(end) or epoch != self.history.epoch_before(end):
            raise Violation(
                "R21", f"{who} loads snapshot {end}@{epoch}, but committed is {self.committed_end}"
            )
        reached = self.high_watermark(who)
        if end < reached:
            raise Violation(
                "R9", f"{who} loads snapshot {end} after its high watermark reached {reached}"
            )
        self._high_watermarks[who.id, who.boot] = end
        self.holds(who, end, state)

    @property
    def read_floor(self) -> int:
        """The least offset of a read that starts now: the highest high watermark reported."""
        return self._highest

    def reads(self, who: Incarnation, floor: int, offset: int) -> None:
        """L2: a read includes everything committed at its start, and only applied records."""
        if offset < floor:
            raise Violation(
                "L2", f"{who} reads at {offset}, but {floor} was known when the read began"
            )
        if offset > self.high_watermark(who):
            raise Violation(
                "L2",
                f"{who} reads at {offset}, but its high watermark is {self.high_watermark(who)}",
            )


NO_BOOT: Final = 0
"""The boot of a process that has ended."""


@dataclass(slots=True)
class _Epoch:
    """The known facts about one leader epoch."""

    leader: ReplicaId
    boot: int
    start: int | None = None
    """The offset of its first batch; None until it is on a disk or on the wire."""
    durable_ends: dict[ReplicaKey, int] = field(default_factory=dict)
    """The durable end of each replica in this epoch, before it entered a later one."""
    disks: dict[ReplicaKey, DurableState] = field(default_factory=dict)
    compared: int = 0
    """The end of the comparison of this leadership's log with the committed records."""


class QuorumInvariants(AppliedStateObserver):
    """The invariants of one run, over messages and durable state."""

    def __init__(self, voters: Sequence[ReplicaId], history: History | None = None) -> None:
        super().__init__(History() if history is None else history)
        self.voter_sets = VoterSets(voters)
        self._epochs: dict[int, _Epoch] = {}
        self._durable_votes: dict[ReplicaId, DurableVote] = {}
        self._votes: dict[int, dict[ReplicaKey, ReplicaId]] = {}
        self._identity: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._shown: tuple[int, int] = (0, 0)

    @property
    def leader(self) -> ReplicaId | None:
        """The leader of the highest epoch claimed so far."""
        return self._epochs[max(self._epochs)].leader if self._epochs else None

    @property
    def voter_set(self) -> VoterSet:
        """The voter set of the committed log."""
        assigned = self.history.assigned
        return assigned[-1] if assigned else self.voter_sets.first

    @property
    def possible_voter_sets(self) -> list[VoterSet]:
        """The voter sets that some replica may use."""
        return self.voter_sets.possible(self.history.assigned)

    def leads(self, who: Incarnation, epoch: int) -> bool:
        """True if this process itself has claimed to lead the epoch."""
        leadership = self._epochs.get(epoch)
        return leadership is not None and (leadership.leader, leadership.boot) == (who.id, who.boot)

    # --- what is on the wire -----------------------------------------------------------------

    def request_sent(self, who: Incarnation, to: ReplicaId, request: Request) -> None:
        """A process is about to send a request."""
        self._speaks(who, request.epoch, request)
        if isinstance(request, VoteRequest):
            log = who.durable.assigned, who.durable.end, request.log_end
            self.voter_sets.check_asked(who.key, to, *log)
        match request:
            case FetchRequest():
                self._acknowledges(who, request)
            case VoteRequest(epoch=epoch, pre_vote=False):
                self._vote(who, epoch, who.id)
            case BeginQuorumEpochRequest(epoch=epoch):
                self._leads(who, epoch)
            case EndQuorumEpochRequest(epoch=epoch):
                leadership = self._epochs.get(epoch)
                if leadership is None or leadership.leader != who.id:
                    raise Violation(
                        "R1",
                        f"{who} sends EndQuorumEpoch for epoch {epoch}, which it does not lead",
                    )
            case VoteRequest() | FetchSnapshotRequest():
                pass  # A search for the leader; it acknowledges nothing.

    def _acknowledges(self, who: Incarnation, request: FetchRequest) -> None:
        durable, epoch, end = who.durable, request.epoch, request.log_end
        if epoch != durable.vote.epoch:
            raise Violation(
                "R4", f"{who} fetches in epoch {epoch}, but its disk has {durable.vote}"
            )
        if durable.epoch_before(end.offset) != end.epoch:
            raise Violation("R12", f"{who} acknowledges {end}, but its disk ends at {durable.end}")

    def response_sent(
        self, who: Incarnation, to: ReplicaId, request: Request, response: Response, records: bytes
    ) -> None:
        """A process is about to send a response."""
        self._speaks(who, response.epoch, response)
        named, leadership = response.leader, self._epochs.get(response.epoch)
        if named is not None and leadership is not None and named != leadership.leader:
            raise Violation("R1", f"{who} names {named} as leader of {response.epoch}")
        match response:
            case FetchResponse() if named == who.id and not response.error:
                self._leads(who, response.epoch)
                self._shows(who, response)
                sent = batches(records) if records else ()
                self._appear(who, sent, None)
                if sent and sent[-1].end > self.committed_end:
                    self._shows_uncommitted(who, to, sent[-1])
            case VoteResponse(granted=True, epoch=epoch):
                assert isinstance(request, VoteRequest)
                if not request.pre_vote:
                    self._vote(who, epoch, request.candidate.id)
            case FetchSnapshotResponse() if not response.error:
                check_part(who, who.durable, response, records)
            case _:
                pass

    def _shows_uncommitted(self, who: Incarnation, to: ReplicaId, last: StoredBatch) -> None:
        if not self.voter_sets.may_vote(to, self.history.assigned):
            raise Violation("R8", f"{who} sends {last}, which is not committed, to observer {to}")

    def _speaks(self, who: Incarnation, epoch: int, what: Request | Response) -> None:
        if epoch > who.durable.vote.epoch:
            raise Violation("R3", f"{who}: {what}, but its disk has {who.durable.vote}")

    def _vote(self, who: Incarnation, epoch: int, candidate: ReplicaId) -> None:
        vote = who.durable.vote
        if (vote.epoch, vote.voted_for) != (epoch, candidate):
            raise Violation(
                "R3", f"{who} votes for {candidate} in epoch {epoch}, but its disk has {vote}"
            )
        first = self._votes.setdefault(epoch, {}).setdefault(who.key, candidate)
        if first != candidate:
            raise Violation("R2", f"{who} voted for {first} and {candidate} in epoch {epoch}")

    def _leads(self, who: Incarnation, epoch: int) -> None:
        """R1, by claims and by votes; R11 by the claiming process."""
        leadership = self._epochs.get(epoch)
        if leadership is not None:
            if leadership.leader != who.id:
                raise Violation("R1", f"{leadership.leader} and {who} lead epoch {epoch}")
            if leadership.boot != who.boot:
                raise Violation("R11", f"{who} leads epoch {epoch} again after a restart")
            return
        given = {key for key, to in self._votes.get(epoch, {}).items() if to == who.id}
        # Its own vote is on its disk; as the only voter it sends no request.
        if who.durable.vote[:2] == (epoch, who.id):
            given.add(who.key)
        voter_set = self.voter_sets.chain(who.durable.assigned, who.durable.end, epoch)[-1]
        if not has_majority(voter_set, given):
            text = " ".join(sorted(map(str, given)))
            raise Violation("R1", f"{who} leads epoch {epoch} by the votes of {text}: {voter_set}")
        # It may have ended before it sent anything: the next boot must not lead there.
        self._epochs[epoch] = _Epoch(who.id, NO_BOOT if epoch == who.led else who.boot)

    def _shows(self, who: Incarnation, answer: FetchResponse) -> None:
        """R9: a high watermark is shown after a commit in the leader's epoch, and never falls."""
        shown = answer.high_watermark
        if shown is None:
            return
        start = self._epochs[answer.epoch].start
        if start is None or shown <= start:
            raise Violation(
                "R9",
                f"{who} reports high watermark {shown} before a commit in epoch {answer.epoch}",
            )
        if shown > self.committed_end:
            raise Violation(
                "R8", f"{who} reports high watermark {shown}, but committed is {self.committed_end}"
            )
        epoch, highest = self._shown
        if answer.epoch >= epoch:
            if shown < highest:
                raise Violation("R9", f"{who} reports high watermark {shown} after {highest}")
            self._shown = (answer.epoch, shown)

    def forget(self, replica: ReplicaId) -> None:
        """Forget the votes of a replica whose disk is gone."""
        self._durable_votes.pop(replica, None)

    def forget_since(self, key: ReplicaKey, kept: DurableVote) -> None:
        """Forget the votes since an older copy of its disk was made."""
        self._durable_votes[key.id] = kept
        for epoch, votes in self._votes.items():
            if epoch > kept.epoch or (epoch == kept.epoch and kept.voted_for is None):
                votes.pop(key, None)

    # --- what is durable ---------------------------------------------------------------------

    def vote_kept(self, who: Incarnation) -> None:
        """The vote on its disk has changed."""
        before, now = self._durable_votes.get(who.id, DurableVote()), who.durable.vote
        if before == now:
            return
        self.observer.vote_kept(who, before, now)
        if now.epoch < before.epoch:
            raise Violation("R4", f"the election state of {who} falls from {before} to {now}")
        if now.epoch == before.epoch and (
            before.voted_for not in (None, now.voted_for) or before.leader not in (None, now.leader)
        ):
            raise Violation("R2", f"{who} forgets its vote: {before}, then {now}")
        self._durable_votes[who.id] = now
        if now.leader == who.id:
            self._leads(who, now.epoch)

    def log_kept(self, who: Incarnation, new: Sequence[StoredBatch]) -> None:
        """The batches `new` have become durable at the end of its log."""
        durable = who.durable
        if new:
            self.observer.log_grown(who, new)
        at = bisect_left(durable.ends, new[0].end) if new else 0
        self._appear(who, new, durable.batches[at - 1].epoch if at else 0)
        for batch in new:
            leadership = self._epochs.get(batch.epoch)
            if leadership is not None and leadership.start == batch.base:
                self._opened(durable, batch.epoch, batch.base)
        self.count(who)

    def log_reread(self, who: Incarnation, before: Sequence[StoredBatch]) -> None:
        """Its log was `before` and has been read again."""
        durable = who.durable
        common = in_common(before, durable.batches)
        if common < len(before):
            self.observer.log_cut(who, before[common:])
        differs = common < min(len(before), len(durable.batches))
        if differs and durable.batches[common].base >= durable.received_end:
            raise Violation("R10", f"{who} reads other batches than before: {before[common:][:3]}")
        for batch in before[common:]:
            if self.history.has(batch):
                raise Violation("R10", f"{who} truncates {batch}, which is committed")
            if durable.vote.leader == who.id and durable.vote.epoch == batch.epoch:
                raise Violation("R11", f"{who} leads epoch {batch.epoch} and truncates {batch}")
        self.log_kept(who, durable.batches[common:])

    def appends_control(self, who: Incarnation, records: bytes) -> None:
        """A leader has appended control records; they need not be durable."""
        for batch in batches(records):
            self._names_voters(who, batch)

    def _names_voters(self, who: Incarnation, batch: StoredBatch) -> None:
        """Check R15 when a control batch first appears: at its append, on the wire or on a disk."""
        assigned = voter_set_in(*batch)
        if assigned is None or batch.base == 0:
            return
        leadership = self._led(batch)
        start, durable = leadership.start, who.durable
        is_news = self.voter_sets.append(
            durable.assigned,
            durable.end,
            assigned,
            committed=self.committed_end,
            opened=start is not None and self.committed_end > start,
        )
        if is_news:
            self._count(batch.epoch, leadership)

    def _led(self, batch: StoredBatch) -> _Epoch:
        """R1: a record belongs to an epoch with a leader."""
        leadership = self._epochs.get(batch.epoch)
        if leadership is None:
            raise Violation("R1", f"{batch} has an epoch without a leader")
        return leadership

    def count(self, who: Incarnation) -> None:
        """Recompute the committed end (R8, Raft §5.4.2).

        A record counts when it is durable while its disk is still in the record's epoch.
        """
        durable = who.durable
        epoch = durable.batches[-1].epoch if durable.batches else 0
        leadership = self._epochs.get(epoch)
        if leadership is None or epoch != durable.vote.epoch:
            return
        leadership.disks[who.key] = durable
        ends = leadership.durable_ends
        ends[who.key] = max(durable.end, ends.get(who.key, 0))
        self._count(epoch, leadership)

    def _count(self, epoch: int, leadership: _Epoch) -> None:
        """Below an uncommitted voter set, a majority of either set may commit."""
        ends = leadership.durable_ends
        if leadership.start is None or not ends:
            return
        longest = max(leadership.disks.values(), key=lambda each: each.end)
        if longest.end <= leadership.compared:
            return  # Nothing beyond the compared part can be committed.
        *before, last = self.voter_sets.chain(longest.assigned, longest.end, epoch)
        counted = reached_by_majority(last, ends)
        for each in before:
            counted = max(counted, min(last.base, reached_by_majority(each, ends)))
        counted = min(counted, longest.end)
        if counted > leadership.start and counted > leadership.compared:
            self._commit(longest, epoch, leadership, counted)

    def _appear(
        self, who: Incarnation, new: Sequence[StoredBatch], epoch_before: int | None
    ) -> None:
        """R5: the same epoch at the same offset is the same batch, after the same epoch.

        By induction the prefix is the same. On the wire the epoch before the first batch is
        unknown.
        """
        for batch in new:
            key = (batch.base, batch.epoch)
            first = self._identity.get(key)
            if first is None:
                if epoch_before is not None:
                    self._identity[key] = (batch.data, epoch_before)
                if epoch_before not in (None, batch.epoch):
                    leadership = self._led(batch)
                    if leadership.start is not None:
                        raise Violation("R11", f"epoch {batch.epoch} begins twice: {batch}")
                    leadership.start = batch.base
                if batch.is_control:
                    self._names_voters(who, batch)
            elif first[0] != batch.data or epoch_before not in (None, first[1]):
                raise Violation(
                    "R5", f"{batch} after epoch {epoch_before} differs from another replica's"
                )
            epoch_before = batch.epoch

    def _opened(self, durable: DurableState, epoch: int, start: int) -> None:
        """R7: the log with which a leader opens its epoch holds everything committed before."""
        before = self.history.before_epoch(epoch)
        end = before[-1].end if before else 0
        if end > start or durable.between(0, end) != before:
            raise Violation(
                "R7", f"epoch {epoch} begins at {start}, but committed records end at {end}"
            )

    def _commit(self, durable: DurableState, epoch: int, leadership: _Epoch, end: int) -> None:
        """R6: committed records stay; new ones follow them."""
        start, leadership.compared = leadership.compared, end
        known = min(end, self.committed_end)
        holders = [key.id for key, kept in leadership.durable_ends.items() if kept >= end]
        self.observer.committed(leadership.leader, epoch, known, end, sorted(holders))
        if durable.between(start, known) != self.history.between(start, known):
            raise Violation("R6", f"epoch {epoch} commits other records below {known}")
        for batch in durable.between(self.committed_end, end):
            self.voter_sets.check_founding(batch.base, voter_set_in(*batch), batch.data)
            self.history.add(batch, epoch)
