"""What a leader remembers of changes of the voters: who asked, and what is waited for."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from quorum.core.changing import Wait
from quorum.core.events import Asker
from quorum.core.messages import VoterRequest
from quorum.core.vocabulary import NO_DIRECTORY, Offset, ReplicaId, ReplicaKey

LOOK_AGAIN_MS: Final = 20
"""How long after one look at what has been fetched the next one may be."""


@dataclass(frozen=True, slots=True)
class VoterChange:
    """What there is to tell of a change: where it goes, and why it does not go on."""

    target: tuple[ReplicaKey, ...] | None
    wait: Wait | None


@dataclass(slots=True, eq=False)
class Wanted:
    """A request that no record has been written for yet."""

    asker: Asker
    request: VoterRequest
    deadline_ms: int
    wait: Wait | None = None


@dataclass(slots=True)
class RollCall:
    """Who has fetched since a step was due. Whoever has not may have died a moment before."""

    called: frozenset[ReplicaId]
    until_ms: int
    """Then it is called anew: who answered long ago may be dead by now."""
    present: dict[ReplicaId, ReplicaKey] = field(default_factory=dict)


@dataclass(slots=True)
class VoterChanges:
    """One leadership's. A new leader knows nothing of it, and needs nothing but the log."""

    requests: list[Wanted] = field(default_factory=list)
    recorded: deque[tuple[Offset, Asker]] = field(default_factory=deque)
    """Who is to be answered once what lies below the offset is committed."""
    wait: Wait | None = None
    """Why nothing goes on, as it was last seen."""
    is_wanted: bool = False
    """Whether fetches and commits may bring a change about."""
    nameless: frozenset[ReplicaId] = frozenset()
    """Voters whose directory is not known yet."""
    due_ms: int | None = None
    """When to look for a step; None if time alone changes nothing."""
    looked_ms: int = 0
    roll: RollCall | None = None
    """Who answers for the step that is due; None while no step waits for it."""

    @property
    def first_wait(self) -> Wait | None:
        """Why the change that is under way does not go on, or else the request that came first."""
        waits = (self.wait, *(each.wait for each in self.requests))
        return next((each for each in waits if each is not None), None)

    def look_soon(self, now_ms: int) -> None:
        """Let the next tick, which comes at once, look for a step."""
        self.is_wanted = True
        self.due_ms = now_ms

    def on_fetch(self, replica: ReplicaKey, now_ms: int) -> None:
        """A replica has come on, or named its directory: it may be what a step waits for."""
        if not self.is_wanted:
            if replica.id not in self.nameless or replica.directory_id == NO_DIRECTORY:
                return
            self.is_wanted = True
        roll = self.roll
        if roll is not None and replica.id in roll.called:
            is_first = replica.id not in roll.present
            roll.present[replica.id] = replica
            if is_first:
                self.due_ms = now_ms
                return
        due_ms = max(now_ms, self.looked_ms + LOOK_AGAIN_MS)
        self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)

    def on_commit(self, now_ms: int) -> None:
        """The high watermark has risen: a record of ours may be below it."""
        if self.is_wanted or self.recorded:
            self.due_ms = now_ms

    def dismiss(self) -> list[Asker]:
        """The lead is lost: whom to tell that nobody here knows what becomes of the change."""
        askers = [asker for _, asker in self.recorded]
        return askers + [wanted.asker for wanted in self.requests]
