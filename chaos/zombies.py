"""R26: a leader that a majority does not fetch from any more says no longer that it leads.

Judged from the wire alone: what it says as a leader, and when those who vote have fetched from it
last, by its own clock. A leader that is its own majority may lead on for ever.
"""

from dataclasses import dataclass, field
from typing import Final

from chaos.audience import Speaker
from chaos.electorates import Assigned, names
from chaos.judge import Judge
from chaos.violation import Violation
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
)
from quorum.core.vocabulary import ReplicaKey

SLACK_MS: Final = 500
"""For what a leader had begun when its time was up."""


@dataclass(slots=True)
class _Leading:
    """One process in one epoch, by its own clock."""

    epoch: int
    since_ms: int
    """When it said so first, or woke: before that nobody could have fetched."""
    fetched_ms: dict[ReplicaKey, int] = field(default_factory=dict)
    fine_until_ms: int = 0
    """Nothing can be wrong before; looked up anew when it comes."""


class Zombies:
    """Knows who says to lead, and who fetches from whom; one for each run."""

    def __init__(self, judge: Judge, fetch_timeout_ms: int) -> None:
        self._judge = judge
        self._silent_ms_max = fetch_timeout_ms * 3 // 2 + SLACK_MS
        self._leading: dict[int, _Leading] = {}

    def asked(self, who: Speaker, request: Request, now_ms: int) -> None:
        """A request has come."""
        leading = self._leading.get(who.boot)
        if (
            leading is not None
            and isinstance(request, FetchRequest | FetchSnapshotRequest)
            and request.epoch == leading.epoch
        ):
            leading.fetched_ms[request.replica] = now_ms

    def woken(self, who: Speaker, now_ms: int) -> None:
        """It has stood still, and could hear nobody."""
        leading = self._leading.get(who.boot)
        if leading is not None:
            leading.since_ms, leading.fine_until_ms = now_ms, 0

    def says(self, who: Speaker, what: Request | Response, now_ms: int) -> None:
        """It sends this."""
        match what:
            case FetchResponse(epoch=epoch, leader=leader) if leader == who.id and not what.error:
                self._leads(who, epoch, now_ms)
            case BeginQuorumEpochRequest(epoch=epoch):
                self._leads(who, epoch, now_ms)
            case _:
                pass

    def _leads(self, who: Speaker, epoch: int, now_ms: int) -> None:
        leading = self._leading.get(who.boot)
        if leading is None or leading.epoch != epoch:
            leading = self._leading[who.boot] = _Leading(epoch, now_ms)
        if now_ms < leading.fine_until_ms:
            return
        heard_ms = max(_heard_ms(who, each, leading, now_ms) for each in self._by(who, epoch))
        leading.fine_until_ms = heard_ms + self._silent_ms_max
        if now_ms > leading.fine_until_ms:
            raise Violation(
                "R26", f"{who} leads epoch {epoch}, a majority fetched {now_ms - heard_ms} ms ago"
            )

    def _by(self, who: Speaker, epoch: int) -> list[Assigned]:
        """The voters in force in its log; or those of earlier epochs, which its disk may lack."""
        judge, truth = self._judge, who.truth
        last = judge.electorates.chain(truth.assigned, truth.end, epoch)[-1]
        return [last, *(each for each in judge.possible_electorates if each.base >= truth.end)]


def _heard_ms(who: Speaker, electorate: Assigned, leading: _Leading, now_ms: int) -> int:
    """When a majority had last fetched, itself counted."""
    heard = sorted(_last_ms(who, each, leading, now_ms) for each in electorate.voters)
    return heard[(len(heard) - 1) // 2]


def _last_ms(who: Speaker, voter: ReplicaKey, leading: _Leading, now_ms: int) -> int:
    if names(voter, who.key):
        return now_ms
    fetched = (at for key, at in leading.fetched_ms.items() if names(voter, key))
    return max((leading.since_ms, *fetched))
