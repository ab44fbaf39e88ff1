"""A snapshot as batches, one after the other, as Kafka lays them out (KIP-630). Nothing is kept.

The same records of the same log give the same bytes on every node: every batch has the time of the
last record that the snapshot contains, and the footer has a checksum of all that comes before it.
A follower may thus go on from another leader where the last one stopped, and find out at the end
whether it was the same snapshot.
"""

from collections.abc import Sequence

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset
from quorum.core.voters import VoterAssignment
from quorum.records.control import ControlType, control_key
from quorum.records.encode import encode
from quorum.records.snapshots import encode_snapshot_footer, encode_snapshot_header
from quorum.records.voters import KRAFT_VERSION, encode_kraft_version, encode_voters


class SnapshotBatches:
    """Makes the batches of one snapshot: `opening`, any number of times `data`, `closing`."""

    def __init__(self, epoch: Epoch, last_timestamp_ms: int) -> None:
        """`epoch` is that of the last record that is contained, the time is that record's."""
        self._epoch = epoch
        self._timestamp_ms = last_timestamp_ms
        self._next = Offset(0)
        self._checksum = 0

    def opening(self, voters: VoterAssignment | None, cluster_id: str | None) -> bytearray:
        """The header, and who votes where the log says so."""
        records = [(ControlType.SNAPSHOT_HEADER, encode_snapshot_header(self._timestamp_ms))]
        if voters is not None:
            records += [
                (ControlType.KRAFT_VERSION, encode_kraft_version(KRAFT_VERSION)),
                (ControlType.KRAFT_VOTERS, encode_voters(voters, cluster_id)),
            ]
        return self._control(records)

    def data(self, values: Sequence[bytes]) -> bytearray:
        """These records, of which there is at least one."""
        return self._batch(values, None)

    def closing(self) -> bytearray:
        """The footer: without it a snapshot was never finished."""
        footer = encode_snapshot_footer(self._checksum)
        return self._control([(ControlType.SNAPSHOT_FOOTER, footer)])

    def _control(self, records: Sequence[tuple[ControlType, bytes]]) -> bytearray:
        return self._batch(
            [value for _, value in records], [control_key(type_) for type_, _ in records]
        )

    def _batch(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> bytearray:
        batch = encode(
            values,
            timestamp_ms=self._timestamp_ms,
            base_offset=self._next,
            epoch=self._epoch,
            control=keys is not None,
            keys=keys,
        )
        self._next = Offset(self._next + len(values))
        self._checksum = crc32c(batch, self._checksum)
        return batch
