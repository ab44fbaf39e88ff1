"""Execute a command on the active controller: decide, encode and append.

The quorum is asked for room before a long decision, and again before anything is appended.
"""

from collections.abc import Callable
from typing import Final

from controller.ports import RaftClient, Unavailable
from controller.record_appender import Batch, RecordAppender, batches_of, batching, records_asked
from quorum.ports import Clock
from statemachine.commands import Answer, Command, Decision, RegisterBroker
from statemachine.decide import decide, decide_at_once, deciding
from statemachine.image.image import Image
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records.codec import encode
from statemachine.slices import Slices

BULK_RECORDS: Final = 1_000
"""From so many on, the quorum is asked for room before the decision, which takes long."""

Done = Callable[[Answer | Unavailable], None]


class PendingCommand:
    """A command in the event queue and its callback."""

    __slots__ = ("command", "done", "is_over", "is_proposed", "proved")

    def __init__(self, command: Command, done: Done, *, proved: bool) -> None:
        self.command = command
        self.done = done
        self.proved = proved
        """True if an answer without records must be linearizable."""
        self.is_proposed = False
        """True once its records are proposed: it may take effect whatever happens here."""
        self.is_over = False
        """True once its answer was handed on."""

    def lose(self) -> None:
        """Answer that the lead is lost."""
        if not self.is_over:
            self.done(Unavailable.LEAD_LOST if self.is_proposed else Unavailable.NOT_ACTIVE)


class CommandExecutor:
    """Executes commands on one image, with one quorum."""

    def __init__(
        self, image: Image, appending: RecordAppender, *, wall_clock: Clock, metadata_version: int
    ) -> None:
        """`metadata_version` is used until the image has a level."""
        self._image = image
        self.scheduler = Scheduler(image)
        self._appending = appending
        self._wall_clock = wall_clock
        self._metadata_version = metadata_version

    def at_once(self, command: Command, quorum: RaftClient) -> Answer | None:
        """Decide a short command at once and append its records.

        None if it takes longer or there is no room: nothing was done, and `carry_out` is next. Only
        while no other command is under way.
        """
        image = self._image
        decision = decide_at_once(image, command, self.scheduler)
        if decision is None:
            return None
        if decision.records:
            if not quorum.accepts(len(decision.records)):
                return None
            level = image.level or self._metadata_version
            values = [encode(each, level) for each in decision.records]
            self._appending.append_at_once(
                quorum, Batch(decision.records, values), decision.decided
            )
        return decision.answer

    def carry_out(self, asked: PendingCommand, quorum: RaftClient) -> Slices[Answer | Unavailable]:
        """Return the answer once the records are appended, or the reason to refuse the command."""
        count = records_asked(self._image, asked.command)
        # Seconds of work must not be done, and everybody kept waiting, for nothing.
        if count >= BULK_RECORDS and not quorum.accepts(1, after=count - 1):
            return _reason_to_refuse(quorum)
        decision, batches = yield from self._decided(asked.command)
        if batches is None:
            return Unavailable.TOO_LARGE
        if batches:
            before_last = sum(len(batch.values) for batch in batches[:-1])
            if not quorum.accepts(len(batches[-1].values), after=before_last):
                return _reason_to_refuse(quorum)
            asked.is_proposed = True
            answer, decided, is_complete = decision.answer, decision.decided, decision.is_complete
            # Its records go with the batches, one after the other.
            del decision
            yield from self._appending.append(quorum, batches, decided)
            return answer if is_complete else Unavailable.OVERLOADED
        return decision.answer if decision.is_complete else Unavailable.OVERLOADED

    def _decided(self, command: Command) -> Slices[tuple[Decision, list[Batch] | None]]:
        """Decide a command and encode its records."""
        image, now_ms = self._image, self._wall_clock()
        end, level = image.end_offset, image.level or self._metadata_version
        decision = yield from deciding(image, command, now_ms=now_ms, scheduler=self.scheduler)
        batches = yield from batching(decision.records, level)
        if image.end_offset != end and isinstance(command, RegisterBroker):
            # The quorum has put something into the log, and the epoch would not be the offset.
            decision = decide(image, command, now_ms=now_ms, scheduler=self.scheduler)
            batches = batches_of(decision.records, level)
        return decision, batches


def _reason_to_refuse(quorum: RaftClient) -> Unavailable:
    if quorum.node.successor is not None:
        return Unavailable.HANDING_OVER
    return Unavailable.OVERLOADED if quorum.has_room else Unavailable.DISK_FULL
