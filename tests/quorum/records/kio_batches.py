"""The oracle: batches as the kio library writes and reads them.

kio keeps the time of a record in whole seconds, so the batches compared here do as well.
"""

import datetime
import io
from collections.abc import Sequence
from typing import Any

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, RecordHeader
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_new_batch

from quorum.records.encode import ClientRecord

# kio's numbers are types of their own, which plain ones are not to mypy.
_NEW_BATCH: Any = NewRecordBatch
_RECORD: Any = KioRecord
_READ: Any = read_batch
_WRITE: Any = write_new_batch


def written_by_kio(
    records: Sequence[ClientRecord], *, base_offset: int = 0, attributes: int = 0, **fields: int
) -> bytes:
    """One batch of these records; `fields` are producer_id, producer_epoch and so on."""
    new = _NEW_BATCH(
        **{"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **fields},
        attributes=attributes,
        records=tuple(
            _RECORD(
                attributes=0,
                timestamp=datetime.datetime.fromtimestamp(record.timestamp_ms / 1000, datetime.UTC),
                offset=base_offset + place,
                key=record.key,
                value=record.value,
                headers=tuple(
                    RecordHeader(key=name.encode(), value=value) for name, value in record.headers
                ),
            )
            for place, record in enumerate(records)
        ),
    )
    buffer = io.BytesIO()
    _WRITE(buffer, new)
    return buffer.getvalue()


def read_by_kio(batch: bytes | bytearray) -> Any:
    """Decode one batch with kio."""
    value, size = _READ(bytes(batch), 0)
    assert size == len(batch)
    return value
