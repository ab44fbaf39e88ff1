"""The leader's side of Fetch: the progress of the other replicas, and their parked fetches.

A fetch without new records is parked: the leader answers when there are some, or at the deadline
of the fetch (the long poll of KIP-595). The reasons to answer differ:

- a voter is answered for new records at once, before the leader has them on its own disk, so that
  both disks work at the same time; for a higher high watermark alone it is answered some
  milliseconds later, because the next records most often carry it;
- an observer gets committed records only, so it is answered when the high watermark rises. A reader
  without a replica id, such as a backup, is served like one, and is not remembered (as in Kafka).

Each commit would be an answer to each of a thousand observers. They are answered together instead:
those that wait, once the high watermark has risen, and then none that follows for a pause that
grows with their number. After a quiet time there is no pause to wait for. Observers at the same
offset share one response, so that its bytes are read and encoded once.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from quorum.core.events import Asker
from quorum.core.limits import FETCH_BYTES_MAX, Bounds
from quorum.core.messages import FetchRequest, FetchResponse, Span
from quorum.core.vocabulary import NO_DIRECTORY, NO_REPLICA, Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterSet

HIGH_WATERMARK_LINGER_MS: Final = 10
"""The time for which a voter's parked fetch holds back a higher high watermark alone."""

_NEARLY_DUE_MS: Final = HIGH_WATERMARK_LINGER_MS // 2
"""Fetches due within this time are answered together, so all voters share one wake-up."""

OBSERVERS_PER_MS: Final = 10
"""Answered observers that add a millisecond to the pause after them, up to the linger time."""

OBSERVERS_AT_ONCE: Final = 256
"""Observers that are answered in one step; voters and clients are served before the next ones."""


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

    def seen(self, replica: ReplicaKey, log_end: Offset | None, goal: Offset, now_ms: int) -> None:
        """Note a fetch that acknowledges nothing: diverging logs, or a part of a snapshot.

        Another directory, or a log that ends below what it has acknowledged, has lost that: it no
        longer counts.
        """
        # Version 0 of FetchSnapshot names no directory.
        is_another = replica.directory_id not in (self.replica.directory_id, NO_DIRECTORY)
        if is_another:
            self.replica = replica
        if is_another or (log_end is not None and log_end < (self.log_end or 0)):
            self.log_end = None
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

    def __init__(
        self,
        voters: VoterSet,
        me: ReplicaId,
        bounds: Bounds | None = None,
        observer_linger_ms: int = 0,
    ) -> None:
        """`observer_linger_ms` is the longest pause between two answers to an observer."""
        self._me = me
        self._bounds = bounds or Bounds()
        self._linger_ms = observer_linger_ms
        self.voters: dict[ReplicaId, ReplicaProgress] = {}
        """The voters except the leader."""
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._parked: dict[ReplicaKey, ParkedFetch] = {}
        """The fetches of voters."""
        self._observing: dict[ReplicaKey, ParkedFetch] = {}
        """Those of observers."""
        self._group: dict[ReplicaKey, ParkedFetch] = {}
        """Those of observers that are being answered together."""
        self._group_count = 0
        self.observers_due_ms: int | None = None
        """The time at which observers are answered; None while none of them waits for records."""
        self._pause_end_ms = 0
        """The time before which no other group begins."""
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
        parked, self._parked, self._observing, self._group = self._all_parked(), {}, {}, {}
        for each in parked:
            self._park(each)

    @property
    def deadline_ms(self) -> int | None:
        """The next time to call `wake_due`: a lower bound, as far as deadlines of fetches count."""
        sweep_ms, observers_due_ms = self._sweep_ms, self.observers_due_ms
        if sweep_ms is None or observers_due_ms is None:
            return observers_due_ms if sweep_ms is None else sweep_ms
        return min(sweep_ms, observers_due_ms)

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
        progress = self.progress_of(request.replica)
        is_observer = progress.voter is None
        earlier = self._unpark(request.replica)
        if earlier is not None:
            yield earlier.asker, self._respond(earlier, view, empty=True)
        wait_ms = request.max_wait_ms
        if request.round < self.round_awaited and self._is_to_echo(progress):
            wait_ms = 0
        is_for_group = False
        known = progress.known_high_watermark
        if view.high_watermark != known:
            # One that lacks what it was told of, because an answer was full, need not wait.
            is_for_group = is_observer and known is not None and request.log_end.offset >= known
            if not is_for_group:
                wait_ms = 0 if is_observer else min(wait_ms, HIGH_WATERMARK_LINGER_MS)
        parked = ParkedFetch(asker, request, now_ms + wait_ms, progress)
        has_records = not is_for_group and self._has_records(parked, view)
        if wait_ms <= 0 or has_records or self._is_full():
            yield asker, self._respond(parked, view)
            return
        self._park(parked)
        self._sweep_by(parked.deadline_ms)
        if is_for_group:
            self._answer_observers_from(now_ms)

    def wake_for_records(self, view: LogBounds) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the voters that wait for new records."""
        waiting = [each for each in self._parked.values() if self._has_records(each, view)]
        yield from self._release(waiting, view)

    def wake(
        self, view: LogBounds, replicas: Collection[ReplicaId]
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the parked fetches of these replicas, so that live ones fetch again at once."""
        waiting = [each for each in self._all_parked() if each.request.replica.id in replicas]
        yield from self._release(waiting, view)

    def on_commit(self, now_ms: int) -> None:
        """Let voters be answered after the linger time, and observers after the pause."""
        linger_until_ms = now_ms + HIGH_WATERMARK_LINGER_MS
        for parked in self._parked.values():
            if parked.deadline_ms > linger_until_ms:
                parked.deadline_ms = linger_until_ms
                self._sweep_by(linger_until_ms)
        if self._observing:
            self._answer_observers_from(now_ms)

    def wake_due(self, view: LogBounds, now_ms: int) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer the parked fetches that are due or nearly due, and observers last."""
        if self._sweep_ms is not None and now_ms >= self._sweep_ms:
            until_ms = now_ms + _NEARLY_DUE_MS
            due = [parked for parked in self._all_parked() if parked.deadline_ms <= until_ms]
            yield from self._release(due, view)
            self._sweep_ms = min((each.deadline_ms for each in self._all_parked()), default=None)
        if self.observers_due_ms is not None and now_ms >= self.observers_due_ms:
            yield from self._answer_observers(view, now_ms)

    def dismiss(self) -> Iterator[Asker]:
        """Return the askers of all parked fetches, to answer with an error: the lead is lost."""
        parked = self._all_parked()
        self._parked, self._observing, self._group = {}, {}, {}
        self._sweep_ms = self.observers_due_ms = None
        for each in parked:
            yield each.asker

    def _answer_observers(
        self, view: LogBounds, now_ms: int
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        """Answer some of the observers that wait for records; after the last of them, pause."""
        if not self._group:
            self._group = {
                key: each
                for key, each in self._observing.items()
                if each.progress.known_high_watermark != view.high_watermark
            }
            for key in self._group:
                del self._observing[key]
            self._group_count = len(self._group)
        by_place: dict[tuple[Offset, int], list[ParkedFetch]] = {}
        for each in islice(self._group.values(), OBSERVERS_AT_ONCE):
            place = each.request.log_end.offset, each.request.max_bytes
            by_place.setdefault(place, []).append(each)
        for alike in by_place.values():
            response = self._respond(alike[0], view)
            for each in alike:
                del self._group[each.request.replica]
                each.progress.known_high_watermark = view.high_watermark
                yield each.asker, response
        if not self._group:
            pause_ms = -(-self._group_count // OBSERVERS_PER_MS)
            self._pause_end_ms = now_ms + min(pause_ms, self._linger_ms)
            # Some have fetched again meanwhile, and there may be more for them.
            is_due = any(
                each.progress.known_high_watermark != view.high_watermark
                for each in self._observing.values()
            )
            self.observers_due_ms = self._pause_end_ms if is_due else None

    def _answer_observers_from(self, now_ms: int) -> None:
        """Let a group be answered, now or after the pause, unless one is already due."""
        if self.observers_due_ms is None:
            self.observers_due_ms = max(now_ms, self._pause_end_ms)

    def _all_parked(self) -> list[ParkedFetch]:
        return [*self._parked.values(), *self._group.values(), *self._observing.values()]

    def _is_full(self) -> bool:
        count = len(self._parked) + len(self._group) + len(self._observing)
        return count >= self._bounds.parked_fetches

    def _park(self, parked: ParkedFetch) -> None:
        of = self._observing if parked.progress.voter is None else self._parked
        of[parked.request.replica] = parked

    def _unpark(self, replica: ReplicaKey) -> ParkedFetch | None:
        """Remove and return the parked fetch of this replica, if there is one."""
        for of in (self._observing, self._parked, self._group):
            parked = of.pop(replica, None)
            if parked is not None:
                return parked
        return None

    def _release(
        self, parked: list[ParkedFetch], view: LogBounds
    ) -> Iterator[tuple[Asker, FetchResponse]]:
        for each in parked:
            self._unpark(each.request.replica)
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
