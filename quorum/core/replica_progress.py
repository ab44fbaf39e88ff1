"""The leader's side of Fetch: the progress of the other replicas, and their parked fetches.

A fetch without new records is parked: the leader answers when there are some, or at the deadline
of the fetch (the long poll of KIP-595). The reasons to answer differ:

- a voter is answered for new records at once, before the leader has them on its own disk, so that
  both disks work at the same time; for a higher high watermark alone it is answered some
  milliseconds later, because the next records most often carry it;
- an observer gets committed records only, so it is answered when the high watermark rises. A reader
  without a replica id, such as a backup, is served like one, and is not remembered (as in Kafka).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorum.core.events import Asker
from quorum.core.limits import FETCH_BYTES_MAX, Bounds
from quorum.core.messages import FetchRequest, FetchResponse, Span
from quorum.core.vocabulary import NO_REPLICA, Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterSet

HIGH_WATERMARK_LINGER_MS: Final = 10
"""The time for which a voter's parked fetch holds back a higher high watermark alone."""

_NEARLY_DUE_MS: Final = HIGH_WATERMARK_LINGER_MS // 2
"""Fetches due within this time are answered together, so all voters share one wake-up."""


@dataclass(slots=True)
class ReplicaProgress:
    """The progress of one replica, as the leader knows it; times are of the leader's clock."""

    replica: ReplicaKey
    """The key in its fetches."""
    voter: Voter | None = None
    """The voter that it is; None for an observer."""
    directory: int | None = None
    """The directory id of this voter, if known; an int, because every fetch compares it."""
    log_end: Offset | None = None
    """The offset up to which its last fetch was durable; None before the first in this epoch."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    known_high_watermark: Offset | None = None
    """The high watermark in the last response to it."""
    round: int = 0
    """The last read round that it has echoed."""
    round_told: int = 0
    """The read round in the last response to it."""
    _goal_of_last_fetch: Offset = Offset(0)

    def fetched(self, replica: ReplicaKey, log_end: Offset, goal: Offset, now_ms: int) -> None:
        """Note a fetch that acknowledges everything below `log_end`; `goal` is the end to reach.

        The replica has caught up now if it has reached `goal`, and had caught up at its last fetch
        if it has reached the goal of that time (Kafka's definition of the lag in time).
        """
        if log_end >= goal:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and log_end >= self._goal_of_last_fetch:
            self.last_caught_up_ms = self.last_fetch_ms
        self.replica = replica
        self.log_end = log_end
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = goal

    def seen(self, goal: Offset, now_ms: int) -> None:
        """Note a fetch that acknowledges nothing: diverging logs, or a part of a snapshot."""
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = goal

    def is_live(self, since_ms: int) -> bool:
        """Return True if it has fetched after `since_ms`."""
        return self.last_fetch_ms is not None and self.last_fetch_ms > since_ms


@dataclass(slots=True)
class ParkedFetch:
    asker: Asker
    request: FetchRequest
    deadline_ms: int
    progress: ReplicaProgress


class LogBounds(NamedTuple):
    """The current bounds of the leader's log, for fetches."""

    epoch: Epoch
    leader: ReplicaId
    log_start: Offset
    log_end: Offset
    high_watermark: Offset | None


class ProgressTracker:
    """The fetches of one leadership; empty at first, because earlier progress proves nothing."""

    def __init__(self, voters: VoterSet, me: ReplicaId, bounds: Bounds | None = None) -> None:
        self._me = me
        self._bounds = bounds or Bounds()
        self.voters: dict[ReplicaId, ReplicaProgress] = {}
        """The voters except the leader."""
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._parked: dict[ReplicaKey, ParkedFetch] = {}
        self._sweep_ms: int | None = None
        self.round = 0
        """The read round (`read_index`) in responses to voters; 0 is none yet."""
        self.round_sent = 0
        """The highest round that was sent."""
        self.round_awaited = 0
        """Voters that have not seen this round are answered at once; 0 while no read waits."""
        self.take_voters(voters)

    def take_voters(self, voters: VoterSet) -> None:
        """Replace the voters and keep the progress of every replica.

        Removed voters become observers, and new voters were observers before. Another directory
        under a voter's id is another replica, with progress of its own.
        """
        known = self.last_fetched_first()
        self.voters, self._observers = {}, {}
        for voter in voters:
            if voter.id == self._me:
                continue
            same = (each for each in known if voter.is_(each.replica))
            progress = next(same, None) or ReplicaProgress(voter.key)
            progress.voter = voter
            has_directory = voter.directory_id_is_known
            progress.directory = voter.key.directory_id.int if has_directory else None
            self.voters[voter.id] = progress
        for progress in known:
            if self.voters.get(progress.replica.id) is not progress:
                progress.voter = None
                if progress.last_fetch_ms is not None:
                    self._observers[progress.replica] = progress
        self._make_room_for(0)

    @property
    def deadline_ms(self) -> int | None:
        """A lower bound of the next deadline of a parked fetch."""
        return self._sweep_ms

    def last_fetched_first(self) -> list[ReplicaProgress]:
        """Return the progress of all other replicas, the latest fetch first."""
        known = [*self.voters.values(), *self._observers.values()]
        return sorted(known, key=_freshness, reverse=True)

    def progress_of(self, replica: ReplicaKey) -> ReplicaProgress:
        """Return the progress of this replica; a reader that is none (a backup) leaves no trace."""
        if replica.id == NO_REPLICA:
            return ReplicaProgress(replica)
        progress = self.voters.get(replica.id)
        if progress is not None and progress.directory in (None, replica.directory_id.int):
            return progress
        observer = self._observers.get(replica)
        if observer is None:
            self._make_room_for(1)
            observer = self._observers[replica] = ReplicaProgress(replica)
        return observer

    def _make_room_for(self, count: int) -> None:
        """Forget the longest silent observers, if there are too many."""
        while len(self._observers) + count > self._bounds.observers:
            longest_silent = min(
                self._observers.values(),
                key=lambda each: (each.last_fetch_ms or 0, each.replica),
            )
            del self._observers[longest_silent.replica]

    def serve(
        self, asker: Asker, request: FetchRequest, view: LogBounds, now_ms: int
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer a fetch that agrees with the log, or park it.

        A replica has one fetch under way: a second one replaces the first, which gets an empty
        answer, because its connection may be gone.
        """
        earlier = self._parked.pop(request.replica, None)
        if earlier is not None:
            yield earlier.asker, self._respond(earlier, view, empty=True)
        progress = self.progress_of(request.replica)
        wait_ms = request.max_wait_ms
        if request.round < self.round_awaited and self._is_to_echo(progress):
            wait_ms = 0
        if view.high_watermark != progress.known_high_watermark:
            wait_ms = 0 if progress.voter is None else min(wait_ms, HIGH_WATERMARK_LINGER_MS)
        parked = ParkedFetch(asker, request, now_ms + wait_ms, progress)
        full = len(self._parked) >= self._bounds.parked_fetches
        if wait_ms <= 0 or full or self._has_records(parked, view):
            yield asker, self._respond(parked, view)
            return
        self._parked[request.replica] = parked
        self._sweep_by(parked.deadline_ms)

    def wake_for_records(self, view: LogBounds) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the voters that wait for new records."""
        waiting = [
            parked
            for parked in self._parked.values()
            if parked.progress.voter is not None and self._has_records(parked, view)
        ]
        yield from self._release(waiting, view)

    def wake(
        self, view: LogBounds, replicas: Collection[ReplicaId]
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the parked fetches of these replicas, so that live ones fetch again at once."""
        waiting = [each for each in self._parked.values() if each.request.replica.id in replicas]
        yield from self._release(waiting, view)

    def wake_for_commit(
        self, view: LogBounds, now_ms: int
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the observers for a risen high watermark, and the voters after the linger time."""
        linger_until_ms = now_ms + HIGH_WATERMARK_LINGER_MS
        due = []
        for parked in self._parked.values():
            if parked.progress.voter is None:
                due.append(parked)
            elif parked.deadline_ms > linger_until_ms:
                parked.deadline_ms = linger_until_ms
                self._sweep_by(linger_until_ms)
        yield from self._release(due, view)

    def wake_due(self, view: LogBounds, now_ms: int) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the parked fetches that are due or nearly due."""
        if self._sweep_ms is None or now_ms < self._sweep_ms:
            return
        until_ms = now_ms + _NEARLY_DUE_MS
        due = [parked for parked in self._parked.values() if parked.deadline_ms <= until_ms]
        yield from self._release(due, view)
        self._sweep_ms = min((each.deadline_ms for each in self._parked.values()), default=None)

    def dismiss(self) -> Iterator[Asker]:
        """Return the askers of all parked fetches, to answer with an error: the lead is lost."""
        parked, self._parked = self._parked, {}
        self._sweep_ms = None
        for each in parked.values():
            yield each.asker

    def _release(
        self, parked: list[ParkedFetch], view: LogBounds
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        for each in parked:
            del self._parked[each.request.replica]
            yield each.asker, self._respond(each, view)

    def _is_to_echo(self, progress: ReplicaProgress) -> bool:
        """Return True if this voter should echo; one that never does gets each round only once."""
        if progress.voter is None:
            return False
        return progress.round > 0 or progress.round_told < self.round_awaited

    def _limit(self, parked: ParkedFetch, view: LogBounds) -> Offset:
        """Return the offset up to which this replica may read."""
        if parked.progress.voter is not None:
            return view.log_end
        return Offset(0) if view.high_watermark is None else view.high_watermark

    def _has_records(self, parked: ParkedFetch, view: LogBounds) -> bool:
        return self._limit(parked, view) > parked.request.log_end.offset

    def _respond(
        self, parked: ParkedFetch, view: LogBounds, *, empty: bool = False
    ) -> FetchResponse:
        if not empty:
            parked.progress.known_high_watermark = view.high_watermark
        start, end = parked.request.log_end.offset, self._limit(parked, view)
        span = None
        # If the log start has passed `start` meanwhile, the next fetch is sent to a snapshot.
        if end > start >= view.log_start and not empty:
            span = Span(start, end, min(parked.request.max_bytes, FETCH_BYTES_MAX))
        round_ = 0
        if parked.progress.voter is not None:
            round_ = self.round_sent = parked.progress.round_told = self.round
        return FetchResponse(
            epoch=view.epoch,
            leader=view.leader,
            high_watermark=view.high_watermark,
            log_start=view.log_start,
            span=span,
            round=round_,
        )

    def _sweep_by(self, deadline_ms: int) -> None:
        if self._sweep_ms is None or deadline_ms < self._sweep_ms:
            self._sweep_ms = deadline_ms


def _freshness(progress: ReplicaProgress) -> tuple[int, ReplicaKey]:
    fetched_ms = progress.last_fetch_ms
    return (-1 if fetched_ms is None else fetched_ms, progress.replica)
