"""R12, the other way round: a voter that fetches from below what it had acknowledged is named.

Its disk has lost that, or an older copy of its folder was put back. Its leader, if it is still the
one to whom it had acknowledged more, must have said so in its log when it answers. Judged from the
wire, and from what the product warns of.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chaos.audience import Speaker
from chaos.electorates import names
from chaos.judge import Judge
from chaos.violation import Violation
from quorum.core.messages import FetchRequest, FetchResponse, Request, Response
from quorum.core.vocabulary import ReplicaKey


@dataclass(slots=True)
class _Acknowledged:
    """Up to where one replica has everything, as the process of one leader has taken in."""

    epoch: int
    end: int


class Lapses(logging.Handler):
    """Knows what was acknowledged to whom, and hears what is warned of; one for each run."""

    def __init__(self, judge: Judge, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._judge = judge
        self._acknowledged: dict[tuple[int, ReplicaKey], _Acknowledged] = {}
        self._said: set[str] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what the product warns of, for as long as the block lasts."""
        logger = logging.getLogger("quorum")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        said, found, _ = record.getMessage().partition(": its disk has lost that, or an older copy")
        if found:
            self._said.add(said)

    def answers(self, who: Speaker, request: Request, response: Response) -> None:
        """It answers a fetch that it has taken for an acknowledgement."""
        if (
            not isinstance(request, FetchRequest)
            or not isinstance(response, FetchResponse)
            or response.error
            or response.leader != who.id
            or response.diverging is not None
            or response.snapshot is not None
        ):
            return
        end, key = request.log_end.offset, request.replica
        known = self._acknowledged.get((who.boot, key))
        if known is None or known.epoch != response.epoch:
            self._acknowledged[who.boot, key] = _Acknowledged(response.epoch, end)
            return
        before, known.end = known.end, end
        if end < before and self._votes(key):
            self._note("a voter has forgotten what it acknowledged")
            said = f"voter {key} fetches from offset {end}, but had acknowledged everything "
            if f"{said}below {before}" not in self._said:
                raise Violation("R12", f"{who} does not say: {said}below {before}")

    def _votes(self, key: ReplicaKey) -> bool:
        """Whether it is a voter by whatever log."""
        electorates = self._judge.possible_electorates
        return all(any(names(v, key) for v in each.voters) for each in electorates)
