"""What each replica tells the state machine above it, and what is read there, judged.

A part of the judge (`chaos.judge`), by what it has counted as committed.
"""

from dataclasses import dataclass, field

from chaos.history import History
from chaos.model import State
from chaos.truth import DiskTruth
from chaos.violation import Violation
from quorum.core.vocabulary import ReplicaId, ReplicaKey


@dataclass(frozen=True, slots=True)
class Speaker:
    """A process, as the judge knows it: who it is, the how-manieth, and its disk."""

    key: ReplicaKey
    boot: int
    truth: DiskTruth
    led: int = 0
    """The epoch that a process before it led last, where its disk shows that when it starts."""
    id: ReplicaId = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.key.id)

    def __str__(self) -> str:
        return str(self.id)


class Audience:
    """Knows what was told to whom."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._told: dict[tuple[ReplicaId, int], int] = {}
        self._told_anybody = 0

    @property
    def committed_end(self) -> int:
        """Everything below is committed, as counted here."""
        return self.history.end

    def told(self, who: Speaker) -> int:
        """Up to where this process takes the log for committed."""
        return self._told.get((who.id, who.boot), 0)

    def tells(self, who: Speaker, high_watermark: int, records: bytes) -> None:
        """R8 and R9: a replica takes only that for committed which is, and never less than before.

        `records` are those between what it was told before and `high_watermark`, as it reads them.
        """
        before = self.told(who)
        if high_watermark > self.committed_end:
            raise Violation(
                "R8", f"{who} commits {high_watermark}, on disks is {self.committed_end}"
            )
        if high_watermark <= before:
            raise Violation("R9", f"{who}: {before} was committed, then {high_watermark}")
        self._told[who.id, who.boot] = high_watermark
        self._told_anybody = max(self._told_anybody, high_watermark)
        committed = self.history.between(before, high_watermark)
        if records != b"".join(each.data for each in committed):
            raise Violation("R6", f"{who} reads in [{before}, {high_watermark}) what others do not")

    def hands_over(self, who: Speaker, proposed_end: int) -> None:
        """R29: it has given its lead to another one, and so the log that it was given ends."""
        if self.told(who) < proposed_end:
            raise Violation(
                "R29", f"{who} hands over at {self.told(who)}, was given up to {proposed_end}"
            )

    def holds(self, who: Speaker, end: int, state: State) -> None:
        """R20: its state machine has come to what the records below `end` come to."""
        if state != self.history.state_at(end):
            raise Violation("R20", f"{who} is {state} at {end}, not {self.history.state_at(end)}")

    def loads(self, who: Speaker, end: int, epoch: int, state: State) -> None:
        """R20 and R21: it has been given a snapshot that ends there instead of records."""
        if not self.history.is_boundary(end) or epoch != self.history.epoch_before(end):
            raise Violation("R21", f"{who} loads {end}@{epoch}, committed is {self.committed_end}")
        if end < self.told(who):
            raise Violation("R9", f"{who} loads {end}, {self.told(who)} was committed")
        self._told[who.id, who.boot] = end
        self.holds(who, end, state)

    @property
    def to_be_read(self) -> int:
        """What a read that begins now must see: all that anybody was told is committed."""
        return self._told_anybody

    def reads(self, who: Speaker, floor: int, offset: int) -> None:
        """L2: a read sees what was to be read when it began, and its state machine has it."""
        if offset < floor:
            raise Violation("L2", f"{who} reads at {offset}, when it began {floor} was known")
        if offset > self.told(who):
            raise Violation("L2", f"{who} reads at {offset}, it was told of {self.told(who)}")
