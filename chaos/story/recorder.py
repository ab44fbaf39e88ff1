"""A recorder of one run: what the replicas do, as events in the words of Raft and Kafka.

It listens to the trace and to the checkers. An event has a weight: the more it says about
elections, logs and faults, the more readily the story keeps it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.invariants.disk_format import StoredBatch
from chaos.invariants.durable_state import DurableVote, Incarnation
from chaos.invariants.observer import Observer
from chaos.invariants.voter_sets import voter_set_in
from chaos.network.virtual_network import Packet
from chaos.simulation.runtime import Timeline, Trace
from chaos.story.metadata_records import MetadataWords
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)

FAULT: Final = 6
DECISIVE: Final = 5
"""Votes, leaders, and records that leave a log."""
NOTABLE: Final = 3
USUAL: Final = 1
NOISE: Final = 0
CLIENT: Final = "client"
"""The kind of the answers to clients."""
MARK: Final = "mark"
"""The kind of the high watermarks of the quorum."""
UNTOLD: Final = ("BeginTransaction", "EndTransaction", "AbortTransaction", "FeatureLevel")
"""Types of metadata records that no story needs."""
RECORDS: Final = "{records}"


@dataclass(slots=True)
class Event:
    """One event of a story."""

    at_ms: int
    who: int | None
    """The replica that acts; None for the outside."""
    text: str
    """`RECORDS` in it stands for the records."""
    weight: int
    to: int | None = None
    """The receiver of a message."""
    epoch: int | None = None
    start: int = 0
    end: int = 0
    """The records that it is about, if any: [start, end)."""
    kind: str = ""
    """Events of one kind and replica that follow each other may be told as one."""
    partition: str = ""
    """The partition that it is about, as topic-number; then the records are those of its log."""

    def __str__(self) -> str:
        return self.text.replace(RECORDS, span_text(self.start, self.end))


class Recorder(Observer):
    """All events of one run, in order."""

    def __init__(self, timeline: Timeline, replicas: Collection[int]) -> None:
        self.events: list[Event] = []
        self._timeline = timeline
        self._replicas = replicas
        self._metadata = MetadataWords()
        self._appended: dict[tuple[int, str], int] = {}
        """The end of each broker's log of a partition, in memory."""
        self._written: dict[tuple[int, str], int] = {}
        """The same in its files."""
        self._lost: dict[int, dict[int, int]] = {}
        """The epochs of the records that have left a replica's log, by offset."""

    def add(
        self,
        who: int | None,
        text: str,
        weight: int,
        *,
        to: int | None = None,
        epoch: int | None = None,
        records: tuple[int, int] = (0, 0),
        kind: str = "",
        partition: str = "",
    ) -> None:
        """Add an event of this moment."""
        now_ms, (start, end) = self._timeline.now_ms, records
        self.events.append(Event(now_ms, who, text, weight, to, epoch, start, end, kind, partition))

    # --- `chaos.invariants.observer.Observer` ------------------------------------------------

    def vote_kept(self, who: Incarnation, before: DurableVote, now: DurableVote) -> None:
        """See `Observer`."""
        weight = DECISIVE
        if now.leader == who.id:
            text = f"becomes leader of epoch {now.epoch}"
        elif now.leader is not None:
            text, weight = f"follows {now.leader}, the leader of epoch {now.epoch}", NOTABLE
        elif now.voted_for == who.id:
            text = f"becomes candidate in epoch {now.epoch} and votes for itself"
        elif now.voted_for is not None:
            own = f"its own log ends at {_end(who)}"
            text = f"votes for {now.voted_for} in epoch {now.epoch}, {own}"
        elif now.epoch == before.epoch:
            text = f"has no vote and no leader any more in epoch {now.epoch}: {before} before"
        else:
            text, weight = f"learns of epoch {now.epoch}", NOTABLE
        self.add(who.id, f"{text} (on its disk)", weight, epoch=now.epoch)

    def log_grown(self, who: Incarnation, new: Sequence[StoredBatch]) -> None:
        """See `Observer`."""
        gone = self._lost.get(who.id, {})
        for batch in new:
            offsets = range(batch.base, batch.end)
            replaced = {gone.pop(each) for each in offsets if each in gone} - {batch.epoch}
            text, weight = f"has {RECORDS} of epoch {batch.epoch} on disk", USUAL
            if replaced:
                before = " and ".join(map(str, sorted(replaced)))
                text, weight = f"{text}, overwriting that of epoch {before}", DECISIVE
            voters = voter_set_in(*batch) if batch.is_control else None
            if voters is not None and batch.base:
                text, weight = f"{text}: voters {_ids(voters.voters)}", max(weight, NOTABLE)
            kind = "" if replaced or voters else "has"
            records = batch.base, batch.end
            self.add(who.id, text, weight, epoch=batch.epoch, records=records, kind=kind)

    def log_cut(self, who: Incarnation, lost: Sequence[StoredBatch]) -> None:
        """See `Observer`."""
        start, end, epochs = lost[0].base, lost[-1].end, {each.epoch for each in lost}
        gone = self._lost.setdefault(who.id, {})
        gone |= {offset: each.epoch for each in lost for offset in range(each.base, each.end)}
        named = ", ".join(map(str, sorted(epochs)))
        text = f"loses {RECORDS} of epoch {named}: its log ends at {start}"
        self.add(who.id, text, DECISIVE, epoch=max(epochs), records=(start, end))

    def committed(self, leader: int, epoch: int, start: int, end: int, holders: list[int]) -> None:
        """See `Observer`."""
        where = ", ".join(map(str, holders))
        text = f"has committed {RECORDS} in epoch {epoch}: on the disks of {where}"
        self.add(leader, text, NOTABLE, epoch=epoch, records=(start, end), kind="committed")

    def high_watermark_told(self, who: Incarnation, high_watermark: int) -> None:
        """See `Observer`."""
        records = max(0, high_watermark - 1), high_watermark
        self.add(who.id, f"high watermark {high_watermark}", USUAL, records=records, kind=MARK)

    def partition_appended(self, broker: int, partition: str, end: int) -> None:
        """See `Observer`."""
        self._grown(self._appended, broker, partition, end, f"appends {RECORDS} of {partition}")

    def partition_written(self, broker: int, partition: str, end: int) -> None:
        """See `Observer`."""
        text = f"has {RECORDS} of {partition} in its files"
        self._grown(self._written, broker, partition, end, text)

    def _grown(
        self, ends: dict[tuple[int, str], int], broker: int, partition: str, end: int, text: str
    ) -> None:
        """Add an event if more than before is there; a log that was cut begins again there."""
        start, ends[broker, partition] = ends.get((broker, partition), 0), end
        if end > start:
            kind = text.partition(" ")[0] + partition
            self.add(broker, text, USUAL, records=(start, end), kind=kind, partition=partition)

    def partition_committed(
        self, leader: int, partition: str, end: int, file_ends: Mapping[int, int]
    ) -> None:
        """See `Observer`."""
        ends = ", ".join(f"those of {each} end at {has}" for each, has in file_ends.items())
        text = f"high watermark of {partition} is {end} at its leader; files of the ISR: {ends}"
        records = max(0, end - 1), end
        self.add(leader, text, NOTABLE, records=records, partition=partition)

    def partition_acknowledged(self, partition: str, start: int, end: int) -> None:
        """See `Observer`."""
        text = f"a producer has the answer that {RECORDS} of {partition} are stored"
        self.add(None, text, NOTABLE, records=(start, end), partition=partition)

    # --- the trace ---------------------------------------------------------------------------

    def traced(self, who: object, what: object) -> None:
        """An event of the trace."""
        match who, what:
            case Packet(), _:
                self._message(who)
            case "nemesis", str():
                self.add(None, f"fault: {what.rpartition(' (')[0]}", FAULT)
            case int(), _ if who not in self._replicas:
                self.add(None, f"client {who}: {what}", USUAL, kind=CLIENT)
            case int() | Incarnation(), str():
                replica = who if isinstance(who, int) else who.id
                if what.startswith("led "):
                    self.add(replica, what.replace("led", "leads no more in", 1), NOTABLE)
                elif not what.startswith(("commits ", "leads ")):
                    is_first = what.startswith("starts: ") and not self._timeline.now_ms
                    is_usual = is_first or what.startswith("is registered ")
                    self.add(replica, what, USUAL if is_usual else DECISIVE)
            case int(), _:
                self.add(who, str(what), NOTABLE)
            case _, ParsedRecord():
                words, partition = self._metadata.text(what), self._metadata.partition_of(what)
                weight = NOTABLE if partition else NOISE if what.type in UNTOLD else USUAL
                self.add(None, f"metadata: {words}", weight, partition=partition)
            case _:
                self.add(None, f"{who} {what}", NOTABLE)

    def _message(self, packet: Packet) -> None:
        message = packet.message
        weight, records = _weight(packet.request, packet.response)
        text, epoch = str(message), message.epoch
        self.add(packet.sender, text, weight, to=packet.to, epoch=epoch, records=records)


def _weight(request: Request, response: Response | None) -> tuple[int, tuple[int, int]]:
    """The weight of a message, and the records that it carries or acknowledges."""
    match response or request:
        case VoteRequest() | VoteResponse():
            is_vote = isinstance(request, VoteRequest) and not request.pre_vote
            return (NOTABLE if is_vote else USUAL), (0, 0)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return NOTABLE, (0, 0)
        case FetchRequest(log_end=end):
            return NOISE, (max(0, end.offset - 1), end.offset)
        case FetchResponse(diverging=diverging, snapshot=snapshot, span=span) as fetched:
            if diverging is not None or snapshot is not None:
                return NOTABLE, (0, 0)
            sent = (0, 0) if span is None else (span.start, span.end)
            return (NOISE if sent[0] == sent[1] or fetched.error else USUAL), sent
        case FetchSnapshotRequest() | FetchSnapshotResponse():
            return USUAL, (0, 0)
        case _:
            return NOISE, (0, 0)


def span_text(start: int, end: int) -> str:
    """The records [start, end) in words."""
    return f"record {start}" if end - start == 1 else f"records {start} to {end - 1}"


def _end(who: Incarnation) -> str:
    """The end of a replica's durable log, as messages show it."""
    end = who.durable.end
    return f"{end}@{who.durable.epoch_before(end)}"


def _ids(voters: Sequence[object]) -> str:
    return ", ".join(str(getattr(each, "id", each)) for each in voters)


class RecordedTrace(Trace):
    """A trace that also tells a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def add(self, now_ms: int, who: object, what: object, *facts: int) -> None:
        """See `Trace`."""
        super().add(now_ms, who, what, *facts)
        self._recorder.traced(who, what)
