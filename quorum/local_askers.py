"""Who asks a replica from within its own process, and waits: for a read, other voters, another
leader.

The core knows them by numbers. Here it is kept who is behind each, until the answer comes.
"""

from collections.abc import Callable, Sequence

from quorum.core.effects import AnswerTransfer, AnswerVoters, ReadReady, ReadRefused
from quorum.core.events import Asker, ReadIndex, ReadToken, TransferLeadership, VotersWanted
from quorum.core.messages import TransferResponse, VoterRequest, VotersResponse
from quorum.core.reads import ReadRefusal
from quorum.core.vocabulary import Offset, ReplicaId

VotersDone = Callable[[VotersResponse], None]
TransferDone = Callable[[TransferResponse], None]

ReadDone = Callable[[Offset | ReadRefusal], None]
"""Called with the offset that a read is good for, or why it is not."""


class LocalAskers:
    """Each is called exactly once, when the core has said how it ended."""

    def __init__(self, reads_max: int) -> None:
        self._reads_max = reads_max
        self._reads: dict[ReadToken, ReadDone] = {}
        self._last_read = 0
        self._wishes: dict[Asker, VotersDone] = {}
        self._transfers: dict[Asker, TransferDone] = {}
        self._last_asker = 0

    def read(self, done: ReadDone) -> ReadIndex | None:
        """The event that asks for a read; None if too many wait, which `done` has been told."""
        if len(self._reads) >= self._reads_max:
            done(ReadRefusal.TOO_MANY)
            return None
        self._last_read += 1
        token = ReadToken(self._last_read)
        self._reads[token] = done
        return ReadIndex(token)

    def want_voters(self, request: VoterRequest, done: VotersDone) -> VotersWanted:
        """The event that asks for other voters; the core bounds how many may wait."""
        asker = self._next_asker()
        self._wishes[asker] = done
        return VotersWanted(asker, request)

    def transfer(self, to: ReplicaId | None, done: TransferDone) -> TransferLeadership:
        """The event that asks for another leader; the core bounds how many may wait."""
        asker = self._next_asker()
        self._transfers[asker] = done
        return TransferLeadership(asker, to)

    def answer(self, effect: ReadReady | ReadRefused | AnswerVoters | AnswerTransfer) -> None:
        """Tell those whom the effect is about."""
        match effect:
            case ReadReady(tokens, offset):
                self._answer_reads(tokens, offset)
            case ReadRefused(tokens, reason):
                self._answer_reads(tokens, reason)
            case AnswerVoters(asker, response):
                self._wishes.pop(asker)(response)
            case AnswerTransfer(asker, outcome):
                self._transfers.pop(asker)(outcome)

    def _next_asker(self) -> Asker:
        self._last_asker += 1
        return Asker(self._last_asker)

    def _answer_reads(self, tokens: Sequence[ReadToken], outcome: Offset | ReadRefusal) -> None:
        for token in tokens:
            self._reads.pop(token)(outcome)
