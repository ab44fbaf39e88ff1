"""Judges of what goes on between processes, told together of every message that comes or goes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from chaos.judge import Judge
from chaos.lapses import Lapses
from chaos.network import Packet
from chaos.stickiness import Stickiness
from chaos.zombies import Zombies
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.process import Process


class Witnesses:
    """One for each run."""

    def __init__(self, judge: Judge, fetch_timeout_ms: int, note: Callable[[str], None]) -> None:
        self.lapses = Lapses(judge, note)
        self._judge = judge
        self._stickiness = Stickiness(judge, fetch_timeout_ms)
        self._zombies = Zombies(judge, fetch_timeout_ms)

    def asks(self, who: "Process", to: ReplicaId, request: Request, call: int) -> None:
        """A request leaves."""
        self._stickiness.asks(who.speaker, to, request, call)
        if isinstance(request, BeginQuorumEpochRequest) and not _is_overdue(who):
            self._zombies.says(who.speaker, request, who.now_ms())

    def asked(self, who: "Process", packet: Packet) -> None:
        """One has come."""
        self._stickiness.asked(who.speaker, packet.boot, packet.call, packet.request)
        self._zombies.asked(who.speaker, packet.request, who.now_ms())

    def answers(self, who: "Process", packet: Packet, response: Response, records: bytes) -> None:
        """Its answer leaves."""
        self._judge.answers(who.speaker, packet.sender, packet.request, response, records)
        self.lapses.answers(who.speaker, packet.request, response)
        if _is_overdue(who):
            self.woken(who)
        self._zombies.says(who.speaker, response, who.now_ms())
        if isinstance(response, VoteResponse) and response.granted:
            assert isinstance(packet.request, VoteRequest)
            if packet.request.pre_vote:
                asker = packet.boot, packet.call
                self._stickiness.promises(who.speaker, *asker, who.now_ms())

    def cannot_promise(self, asker: int, epoch: int) -> None:
        """A voter that knows no pre-vote was asked for one, by the process of boot `asker`."""
        self._stickiness.must_stand(asker, epoch)

    def hears(self, who: "Process", call: int, response: Response) -> None:
        """An answer has come that is waited for."""
        self._stickiness.hears(who.speaker, call, response, who.now_ms())

    def loses(self, who: "Process") -> None:
        """It takes its leader for gone."""
        self._stickiness.forgets(who.speaker)

    def woken(self, who: "Process") -> None:
        """It has stood still, or as good as that: its time was up, and nobody told it."""
        self._zombies.woken(who.speaker, who.now_ms())


def _is_overdue(who: "Process") -> bool:
    """Whether its time is up, and its timer is late."""
    return who.timer_ms is not None and who.timer_ms <= who.world.timeline.now_ms
