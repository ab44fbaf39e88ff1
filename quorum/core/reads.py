"""The reads that wait for a leader to be proved: in groups, each proved by one round.

Bookkeeping only; what proves a round, and what a round is, stands in `reading`.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from quorum.core.events import ReadToken
from quorum.core.vocabulary import Offset


class ReadRefusal(StrEnum):
    """Why a read was refused. Nothing is changed by a read, so it may always be asked again."""

    NOT_LEADER = "this node does not lead the quorum"
    TOO_MANY = "too many reads wait already"
    NOT_PROVED = "no majority of the voters confirmed in time that this node still leads"


@dataclass(slots=True)
class ReadGroup:
    """Reads that one round proves."""

    round: int
    log_end: Offset
    """What lies at or after this in the log was appended after the reads came."""
    deadline_ms: int
    tokens: list[ReadToken]


class Reads:
    """The reads that wait at one leader, the oldest first."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: deque[ReadGroup] = deque()

    def __bool__(self) -> bool:
        """Whether any read waits."""
        return bool(self._groups)

    @property
    def oldest(self) -> ReadGroup:
        return self._groups[0]

    @property
    def deadline_ms(self) -> int | None:
        """When the oldest read has waited as long as it may."""
        return self._groups[0].deadline_ms if self._groups else None

    def add(self, token: ReadToken, *, round: int, log_end: Offset, deadline_ms: int) -> None:
        """Let the read wait for `round`, which is never below that of a read before it."""
        newest = self._groups[-1] if self._groups else None
        if newest is None or newest.round != round:
            self._groups.append(ReadGroup(round, log_end, deadline_ms, [token]))
            return
        newest.tokens.append(token)
        # Now it must have been appended after the last of them.
        newest.log_end = log_end

    def take_oldest(self) -> tuple[ReadToken, ...]:
        return tuple(self._groups.popleft().tokens)

    def take_all(self) -> tuple[ReadToken, ...]:
        tokens = tuple(token for group in self._groups for token in group.tokens)
        self._groups.clear()
        return tokens
