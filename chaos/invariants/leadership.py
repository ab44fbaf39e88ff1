"""R25 and R26: a working leader stays, and a leader without a majority stops leading.

R25: a replica does not grant a pre-vote while its leader answers its fetches, and a candidate has
the pre-votes of a majority, unless the resigning leader named it as a successor. R26: a leader that
a majority has stopped fetching from no longer claims to lead; a leader that is its own majority
leads on. Both are checked from the wire alone, with each replica's own clock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from chaos.invariants.durable_state import Incarnation
from chaos.invariants.quorum import QuorumInvariants
from chaos.invariants.voter_sets import VoterSet, has_majority, names
from chaos.network.virtual_network import NO_BOOT
from chaos.violation import Violation
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
)
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId, ReplicaKey


@dataclass(slots=True)
class _Following:
    """The view of one follower on its leader: what it has sent and received, by its own clock."""

    leader: ReplicaId
    epoch: int
    call: int
    """Its last fetch."""
    heard_ms: int | None = None
    """The time of a successful answer to it."""
    shown_ms: int | None = None
    """The time of an answer after which it fetched again, so that it has seen the answer."""


class LeaderStickiness:
    """R25: followers of each leader, and the pre-votes granted; one for each run."""

    def __init__(self, judge: QuorumInvariants, fetch_timeout_ms: int) -> None:
        self._judge = judge
        self._fetch_timeout_ms = fetch_timeout_ms
        self._following: dict[int, _Following] = {}
        self._held: dict[tuple[int, int, int], tuple[_Following, int]] = {}
        self._promised: dict[int, set[ReplicaKey]] = {}
        self._successors: set[tuple[int, int]] = set()
        self._stood: set[tuple[int, int]] = set()
        self._resigned: set[tuple[ReplicaId, int]] = set()

    def request_sent(self, who: Incarnation, to: ReplicaId, request: Request, call: int) -> None:
        """The process sends a request."""
        match request:
            case FetchRequest(max_wait_ms=0):
                self.forgets(who)  # It does not follow, but searches for a leader.
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

    def response_received(
        self, who: Incarnation, call: int, response: Response, now_ms: int
    ) -> None:
        """A response arrives, at `now_ms` by the process's own clock."""
        following = self._following.get(who.boot)
        if following is None or following.call != call or not isinstance(response, FetchResponse):
            return
        answerer = (response.epoch, response.leader)
        if response.error or answerer != (following.epoch, following.leader):
            self.forgets(who)
        else:
            following.heard_ms = now_ms

    def forgets(self, who: Incarnation) -> None:
        """The process may drop its leader, or searches for another."""
        self._following.pop(who.boot, None)

    def request_received(self, who: Incarnation, by: int, call: int, request: Request) -> None:
        """A request of the process of boot `by` arrives."""
        match request:
            case FetchRequest():
                pass
            case EndQuorumEpochRequest() if by == NO_BOOT:
                pass  # No leader resigns.
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
        """A voter without pre-vote support lets the process of boot `by` stand in this epoch."""
        self._successors.add((by, epoch))

    def promises(self, who: Incarnation, by: int, call: int, now_ms: int) -> None:
        """The process grants a pre-vote to the process of boot `by`."""
        epoch = who.durable.vote.epoch
        # A lone voter resigns without a message, and only a stranger asks it.
        has_resigned = (who.id, epoch) in self._resigned or by == NO_BOOT
        if self._judge.leads(who, epoch) and not has_resigned:
            raise Violation("R25", f"{who} leads epoch {epoch}, but grants a pre-vote")
        following, until_ms = self._held.pop((who.boot, by, call), (None, 0))
        if (
            following is not None
            and following is self._following.get(who.boot)
            and who.durable.vote[::2] == (following.epoch, following.leader)
            and now_ms < until_ms
        ):
            raise Violation(
                "R25", f"{who} grants a pre-vote although leader {following.leader} is alive"
            )
        self._promised.setdefault(by, set()).add(who.key)

    def _fetches(self, who: Incarnation, leader: ReplicaId, epoch: int, call: int) -> None:
        known = self._following.get(who.boot)
        if known is None or (known.leader, known.epoch) != (leader, epoch):
            self._following[who.boot] = _Following(leader, epoch, call)
            return
        if known.heard_ms is not None:
            known.shown_ms, known.heard_ms = known.heard_ms, None
        known.call = call

    def _stands(self, who: Incarnation, epoch: int, log_end: OffsetAndEpoch) -> None:
        if (who.boot, epoch) in self._stood:
            return
        self._stood.add((who.boot, epoch))
        promised = {who.key, *self._promised.pop(who.boot, ())}
        is_named = (who.boot, epoch - 1) in self._successors
        if not is_named and not self._would_win(who, log_end, promised):
            text = " ".join(sorted(map(str, promised)))
            raise Violation(
                "R25", f"{who} is a candidate in epoch {epoch} with pre-votes of {text} only"
            )

    def _would_win(
        self, who: Incarnation, log_end: OffsetAndEpoch, voters: Collection[ReplicaKey]
    ) -> bool:
        """True if these are a majority of the voters, by some log or by the candidate's own.

        Records that others have appended in the candidate's epoch are missing from its log: its
        disk may have been slow until another replica leads that epoch.
        """
        durable = who.durable
        voter_sets = self._judge.voter_sets.of_log(durable.assigned, durable.end, log_end)
        voter_sets += self._judge.possible_voter_sets
        return any(has_majority(each, voters) for each in voter_sets)


SLACK_MS: Final = 500
"""The tolerance for work that a leader had begun when its time was up."""


@dataclass(slots=True)
class _Leading:
    """One leader process in one epoch, by its own clock."""

    epoch: int
    since_ms: int
    """The time of its first claim, or of its wake-up: no fetch could arrive before."""
    fetched_ms: dict[ReplicaKey, int] = field(default_factory=dict)
    fine_until_ms: int = 0
    """The earliest time of a violation; computed again at that time."""


class StaleLeaderInvariant:
    """R26: leaders, and the replicas that fetch from them; one for each run."""

    def __init__(self, judge: QuorumInvariants, fetch_timeout_ms: int) -> None:
        self._judge = judge
        self._silent_ms_max = fetch_timeout_ms * 3 // 2 + SLACK_MS
        self._leading: dict[int, _Leading] = {}

    def request_received(self, who: Incarnation, request: Request, now_ms: int) -> None:
        """A request arrives."""
        leading = self._leading.get(who.boot)
        if (
            leading is not None
            and isinstance(request, FetchRequest | FetchSnapshotRequest)
            and request.epoch == leading.epoch
        ):
            leading.fetched_ms[request.replica] = now_ms

    def woken(self, who: Incarnation, now_ms: int) -> None:
        """The process was paused and could receive nothing."""
        leading = self._leading.get(who.boot)
        if leading is not None:
            leading.since_ms, leading.fine_until_ms = now_ms, 0

    def says(self, who: Incarnation, what: Request | Response, now_ms: int) -> None:
        """The process sends a message."""
        match what:
            case FetchResponse(epoch=epoch, leader=leader) if leader == who.id and not what.error:
                self._leads(who, epoch, now_ms)
            case BeginQuorumEpochRequest(epoch=epoch):
                self._leads(who, epoch, now_ms)
            case _:
                pass

    def _leads(self, who: Incarnation, epoch: int, now_ms: int) -> None:
        leading = self._leading.get(who.boot)
        if leading is None or leading.epoch != epoch:
            leading = self._leading[who.boot] = _Leading(epoch, now_ms)
        if now_ms < leading.fine_until_ms:
            return
        heard_ms = max(_heard_ms(who, each, leading, now_ms) for each in self._by(who, epoch))
        leading.fine_until_ms = heard_ms + self._silent_ms_max
        if now_ms > leading.fine_until_ms:
            raise Violation(
                "R26",
                f"{who} leads epoch {epoch}, a majority last fetched {now_ms - heard_ms} ms ago",
            )

    def _by(self, who: Incarnation, epoch: int) -> list[VoterSet]:
        """The voters in force in its log; or those of earlier epochs, which its disk may lack."""
        judge, durable = self._judge, who.durable
        last = judge.voter_sets.chain(durable.assigned, durable.end, epoch)[-1]
        return [last, *(each for each in judge.possible_voter_sets if each.base >= durable.end)]


def _heard_ms(who: Incarnation, voter_set: VoterSet, leading: _Leading, now_ms: int) -> int:
    """The time at which a majority had last fetched, the leader included."""
    heard = sorted(_last_ms(who, each, leading, now_ms) for each in voter_set.voters)
    return heard[(len(heard) - 1) // 2]


def _last_ms(who: Incarnation, voter: ReplicaKey, leading: _Leading, now_ms: int) -> int:
    if names(voter, who.key):
        return now_ms
    fetched = (at for key, at in leading.fetched_ms.items() if names(voter, key))
    return max((leading.since_ms, *fetched))
