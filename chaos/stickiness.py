"""R25: a leader that works is not deposed by who comes back, or by who takes it for gone.

Judged from the wire, at the two moments that it takes. Nobody promises its vote whom the leader has
answered lately, and who has asked it again since: that one follows, whatever it may have been told.
And nobody stands for election to whom a majority of the voters has not promised theirs, but for the
successors that a leader names when it resigns. So as long as a majority fetches, nobody stands.
"""

from collections.abc import Collection
from dataclasses import dataclass

from chaos.audience import Speaker
from chaos.electorates import has_majority
from chaos.judge import Judge
from chaos.violation import Violation
from quorum.core.messages import (
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
)
from quorum.core.vocabulary import LogEnd, ReplicaId, ReplicaKey


@dataclass(slots=True)
class _Following:
    """How one process follows its leader, by what it has sent and was answered; its own clock."""

    leader: ReplicaId
    epoch: int
    call: int
    """Its last fetch."""
    heard_ms: int | None = None
    """When that was answered, and well."""
    shown_ms: int | None = None
    """When an answer came after which it has asked again: so it has looked at that answer."""


class Stickiness:
    """Knows who follows whom, and who has promised what; one for each run."""

    def __init__(self, judge: Judge, fetch_timeout_ms: int) -> None:
        self._judge = judge
        self._fetch_timeout_ms = fetch_timeout_ms
        self._following: dict[int, _Following] = {}
        self._held: dict[tuple[int, int, int], tuple[_Following, int]] = {}
        self._promised: dict[int, set[ReplicaKey]] = {}
        self._successors: set[tuple[int, int]] = set()
        self._stood: set[tuple[int, int]] = set()
        self._resigned: set[tuple[ReplicaId, int]] = set()

    def asks(self, who: Speaker, to: ReplicaId, request: Request, call: int) -> None:
        """A request leaves."""
        match request:
            case FetchRequest(max_wait_ms=0):
                self.forgets(who)  # It does not follow: it looks for a leader.
            case FetchRequest(epoch=epoch) | FetchSnapshotRequest(epoch=epoch):
                self._fetches(who, to, epoch, call)
            case VoteRequest(epoch=epoch, log_end=log_end, pre_vote=pre_vote):
                self.forgets(who)
                if not pre_vote:
                    self._stands(who, epoch, log_end)
            case EndQuorumEpochRequest(epoch=epoch):
                self._resigned.add((who.id, epoch))
            case _:
                pass

    def hears(self, who: Speaker, call: int, response: Response, now_ms: int) -> None:
        """An answer has come that is waited for; `now_ms` is by the process's own clock."""
        following = self._following.get(who.boot)
        if following is None or following.call != call or not isinstance(response, FetchResponse):
            return
        answerer = (response.epoch, response.leader)
        if response.error or answerer != (following.epoch, following.leader):
            self.forgets(who)
        else:
            following.heard_ms = now_ms

    def forgets(self, who: Speaker) -> None:
        """It has a reason to take its leader for gone, or is about to look for another."""
        self._following.pop(who.boot, None)

    def asked(self, who: Speaker, by: int, call: int, request: Request) -> None:
        """A request of the process of boot `by` has come."""
        match request:
            case FetchRequest():
                pass
            case EndQuorumEpochRequest(epoch=epoch, preferred_successors=successors):
                self.forgets(who)
                if who.id in successors:
                    self._successors.add((who.boot, epoch))
            case VoteRequest(pre_vote=True):
                following = self._following.get(who.boot)
                if following is not None and following.shown_ms is not None:
                    until_ms = following.shown_ms + self._fetch_timeout_ms
                    self._held[who.boot, by, call] = (following, until_ms)
            case _:
                pass

    def must_stand(self, by: int, epoch: int) -> None:
        """The process of boot `by` is in this epoch, and somebody can promise it nothing."""
        self._successors.add((by, epoch))

    def promises(self, who: Speaker, by: int, call: int, now_ms: int) -> None:
        """Its answer to a pre-vote leaves: it would vote for the process of boot `by`."""
        epoch = who.truth.ballot.epoch
        if self._judge.leads(who, epoch) and (who.id, epoch) not in self._resigned:
            raise Violation("R25", f"{who} leads epoch {epoch}, and would vote for another")
        following, until_ms = self._held.pop((who.boot, by, call), (None, 0))
        if (
            following is not None
            and following is self._following.get(who.boot)
            and who.truth.ballot[::2] == (following.epoch, following.leader)
            and now_ms < until_ms
        ):
            raise Violation("R25", f"{who} would vote for another, but {following.leader} lives")
        self._promised.setdefault(by, set()).add(who.key)

    def _fetches(self, who: Speaker, leader: ReplicaId, epoch: int, call: int) -> None:
        known = self._following.get(who.boot)
        if known is None or (known.leader, known.epoch) != (leader, epoch):
            self._following[who.boot] = _Following(leader, epoch, call)
            return
        if known.heard_ms is not None:
            known.shown_ms, known.heard_ms = known.heard_ms, None
        known.call = call

    def _stands(self, who: Speaker, epoch: int, log_end: LogEnd) -> None:
        if (who.boot, epoch) in self._stood:
            return
        self._stood.add((who.boot, epoch))
        promised = {who.key, *self._promised.pop(who.boot, ())}
        is_named = (who.boot, epoch - 1) in self._successors
        if not is_named and not self._would_win(who, log_end, promised):
            told = " ".join(sorted(map(str, promised)))
            raise Violation("R25", f"{who} stands in epoch {epoch}, promised were votes of {told}")

    def _would_win(self, who: Speaker, log_end: LogEnd, voters: Collection[ReplicaKey]) -> bool:
        """Whether these are a majority of all who may vote, by some log or by that of the asker.

        What others have appended in the epoch that it stands in is not in its log: it may have been
        held up by its disk until somebody else leads that epoch.
        """
        truth = who.truth
        electorates = self._judge.electorates.of_log(truth.assigned, truth.end, log_end)
        electorates += self._judge.possible_electorates
        return any(has_majority(each, voters) for each in electorates)
