"""Committed records, read from the log in bounded strides.

The bound on a stride lets a replica with a long log to replay go on voting, fetching and answering.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from quorum.core.vocabulary import Offset
from quorum.records.batch import headers
from quorum.records.decode import Record, decode, plain_values

STRIDE_BYTES: Final = 256 * 1024
"""Of whole batches, or a single one that is larger: five to ten milliseconds of metadata."""

_ALL: Final = 1 << 62


class CommittedLog(Protocol):
    """The log as a source of committed records."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        ...


class RecordRun(NamedTuple):
    """Records that follow each other: either data or control records."""

    offset: int
    """That of the first one."""
    values: list[bytes]
    """The values of the data records."""
    control: tuple[Record, ...]
    end: int
    """One more than the offset of the last one."""


def next_records(
    log: CommittedLog, start: Offset, *, records_max: int | None = None
) -> Iterator[RecordRun]:
    """The next committed records from `start` on, of which there are some.

    It ends where a batch does, so that what was decided together is seen together; with
    `records_max`, after so many records, and the next one begins there. Raises `CorruptBatch`.
    """
    batches = log.read_committed(start, STRIDE_BYTES)
    assert batches, f"the log has nothing at {start}, which is committed"
    left = _ALL if records_max is None else records_max
    at, values = int(start), list[bytes]()
    view = memoryview(batches)
    for position, header in headers(batches):
        found = None if header.is_control else plain_values(view, header, position)
        # A batch is read whole, even if its beginning is known.
        known = max(0, at + len(values) - header.base_offset)
        if found is not None:
            values += found[known : known + left - len(values)]
        else:
            if values:
                yield _run_of(at, values)
            at, left, values = at + len(values), left - len(values), []
            batch = view[position : position + header.size_bytes]
            for run in _one_by_one(batch, control=header.is_control):
                if run.offset >= at and left > 0:
                    yield run
                    at, left = run.end, left - 1
        if len(values) >= left:
            break
    if values:
        yield _run_of(at, values)


def _run_of(offset: int, values: list[bytes]) -> RecordRun:
    return RecordRun(offset, values, (), offset + len(values))


def _one_by_one(batch: memoryview, *, control: bool) -> Iterator[RecordRun]:
    for record in decode(batch):
        if control:
            yield RecordRun(record.offset, [], (record,), record.offset + 1)
        else:
            assert record.value is not None, f"no value at offset {record.offset}"
            yield _run_of(record.offset, [record.value])
