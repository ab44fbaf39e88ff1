"""The few facts of a metadata log that a manifest states: its end, its voters, its levels.

They are read from the batches as these pass by, so that a backup reads nothing twice and a log of
any length takes no memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.core.voter_set import VoterAssignment
from quorum.log.checkpoint import CheckedBatch, CheckpointFacts, values_of
from quorum.records.control import (
    ControlType,
    LeaderChange,
    cluster_id_in,
    control_type,
    decode_kraft_version,
    decode_voters,
)
from quorum.records.decode import decode
from statemachine.records import codec
from statemachine.records.kafka_records import FeatureLevel

_FEATURE_FRAME: Final = bytes((codec.FRAME_VERSION, FeatureLevel.API_KEY))

NOWHERE: Final = OffsetAndEpoch(Epoch(0), Offset(0))
"""The end of an empty log."""


@dataclass(slots=True)
class LogSummary:
    """The facts of a log up to `end`."""

    end: OffsetAndEpoch = NOWHERE
    time_ms: int = -1
    """The timestamp of the last batch; -1 for an empty log."""
    kraft_version: int = 0
    voters: VoterAssignment | None = None
    """The recorded voters; None below kraft.version 1."""
    voter_ids: tuple[ReplicaId, ...] = ()
    """The voters in the last LeaderChange record: all that a log without recorded voters has."""
    cluster_id: str | None = None
    """The id beside the last recorded voters; Kafka's controllers write none."""
    features: dict[str, int] = field(default_factory=dict)
    """The levels in force, without kraft.version."""

    def take(self, batch: CheckedBatch) -> None:
        """Take the next batch of the log.

        Raises `BadControlRecord`, `CorruptBatch`, `UnsupportedCodec` or `MalformedRecord`.
        """
        header = batch.header
        assert header.base_offset == self.end.offset
        if header.is_control:
            self._take_control(batch)
        else:
            self.take_values(batch)
        self.end = OffsetAndEpoch(Epoch(header.epoch), Offset(header.end_offset))
        self.time_ms = header.max_timestamp_ms

    def take_values(self, batch: CheckedBatch) -> None:
        """Take the levels in a data batch, of the log or of a snapshot; raises as `take` does."""
        self.take_data(values_of(batch))

    def take_data(self, values: Iterable[bytes]) -> None:
        """Take the levels in these records; raises `MalformedRecord`."""
        for value in values:
            if value.startswith(_FEATURE_FRAME):
                record = codec.decode(value)
                assert isinstance(record, FeatureLevel)
                if record.level:
                    self.features[record.name] = record.level
                else:
                    self.features.pop(record.name, None)

    def take_checkpoint(self, id_: OffsetAndEpoch, facts: CheckpointFacts) -> None:
        """Take the facts of a whole checkpoint, whose data batches have been taken."""
        self.end = id_
        self.time_ms = facts.last_timestamp_ms
        self.kraft_version = facts.kraft_version
        self.voters = facts.voters

    def _take_control(self, batch: CheckedBatch) -> None:
        for record in decode(batch.data):
            match control_type(record.key):
                case ControlType.LEADER_CHANGE:
                    self.voter_ids = LeaderChange.decode(record.value).voters
                case ControlType.KRAFT_VERSION:
                    self.kraft_version = decode_kraft_version(record.value)
                case ControlType.KRAFT_VOTERS:
                    self.voters = decode_voters(record.value)
                    self.cluster_id = cluster_id_in(batch.data) or self.cluster_id
                case _:
                    pass
