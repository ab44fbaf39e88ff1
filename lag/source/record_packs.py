"""The table `packs`: many records in one row, as columns that Spark moves without looking inside.

Spark needs microseconds to make, hash, sort and return a row, and the reports only need the records
of a partition together and in order. A pack is a range of a log for one *share* of the partitions:

    rows    topic_id, partition, offset, append_ms, and `code`, the row in `said`
    said    the distinct contents: created, replicas, isr, adding, removing, target, move_id

Both are Arrow streams. Records about no partition are in packs without a share, whose `rows` are
those of the table `records`. No Spark here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from lag.source.schemas import ARROW_TYPES, BIGINT, BOOLEAN, INT, INTS, STRING, Table

CREATED: Final = "PartitionRecord"
OF_PARTITIONS: Final = (CREATED, "PartitionChangeRecord")
LISTS: Final = ("replicas", "isr", "adding", "removing", "target")
"""The columns that carry over from one record of a partition to the next, besides `move_id`."""

BESIDE: Final = ("replica", "path", "source")
"""The columns that a pack has once and not per record."""


def _schema(*columns: tuple[str, str]) -> Any:
    return pa.schema([pa.field(name, ARROW_TYPES[type_]) for name, type_ in columns])


ROWS: Final = _schema(
    ("topic_id", STRING),
    ("partition", INT),
    ("offset", BIGINT),
    ("append_ms", BIGINT),
    ("code", INT),
)
SAID: Final = _schema(("created", BOOLEAN), *((name, INTS) for name in LISTS), ("move_id", BIGINT))


class RecordRun(NamedTuple):
    """Records of one file, in order."""

    replica: str
    path: str
    source: str
    records: Any
    """Rows of `records` (`pyarrow.RecordBatch`) with at least type, topic_id, partition, offset and
    append_ms."""
    codes: Any
    """For each its place in `said` (`numpy.ndarray` of int64)."""
    said: Any
    """Rows of `SAID`; arbitrary for records about no partition."""


def said_of(values: list[dict[str, Any]]) -> Any:
    """The content of these records, each given as columns of the table `records`."""
    created = [value.get("type") == CREATED for value in values]
    columns = [
        pa.array([value.get(field.name) for value in values], field.type)
        for field in list(SAID)[1:]
    ]
    return pa.RecordBatch.from_arrays([pa.array(created), *columns], schema=SAID)


def packs(gathered: RecordRun, table: Table, shares: int) -> Any:
    """These records as rows of the table `packs` (`pyarrow.RecordBatch`)."""
    rows = list(_packs(gathered, shares))
    arrays = [
        pa.array([row[each.name] for row in rows], ARROW_TYPES[each.type]) for each in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


def _packs(gathered: RecordRun, shares: int) -> Iterator[dict[str, Any]]:
    records = gathered.records
    types = records["type"].dictionary_encode()
    wanted = np.array([name in OF_PARTITIONS for name in types.dictionary.to_pylist()] + [False])
    is_of_partition = wanted[types.indices.fill_null(len(wanted) - 1).to_numpy(False)]
    others = np.nonzero(~is_of_partition)[0]
    if len(others):
        yield _row(gathered, others, None, records.take(pa.array(others)), None)
    places = np.nonzero(is_of_partition)[0]
    share_of = _shares(records, places, shares)
    for share in range(shares):
        own = places[share_of == share]
        if len(own):
            of_share = records.take(pa.array(own))
            used, codes = np.unique(gathered.codes[own], return_inverse=True)
            arrays = [of_share[name] for name in ROWS.names[:-1]]
            rows = pa.RecordBatch.from_arrays(
                [*arrays, pa.array(codes.astype(np.int32))], schema=ROWS
            )
            yield _row(gathered, own, share, rows, gathered.said.take(pa.array(used)))


def _row(gathered: RecordRun, own: Any, share: int | None, rows: Any, said: Any) -> dict[str, Any]:
    return {
        "replica": gathered.replica,
        "path": gathered.path,
        "source": gathered.source,
        "share": share,
        "low": gathered.records["offset"][int(own[0])].as_py(),
        "rows": to_bytes(rows),
        "said": None if said is None else to_bytes(said),
    }


def _shares(records: Any, places: Any, shares: int) -> Any:
    """The share of each record, by its partition, the same for every replica."""
    topics = records["topic_id"].take(pa.array(places)).dictionary_encode()
    begins = [crc32((name or "").encode()) for name in topics.dictionary.to_pylist()]
    if not begins:
        return np.zeros(0, np.int64)
    numbers = records["partition"].take(pa.array(places)).to_numpy(zero_copy_only=False)
    of_topic = np.array([*begins, 0], np.int64)[
        topics.indices.fill_null(len(begins)).to_numpy(zero_copy_only=False)
    ]
    return (of_topic + numbers.astype(np.int64)) % shares


_IN_THIS_THREAD: Final = pa.ipc.IpcReadOptions(use_threads=False)
"""Handing the small columns of a pack to other threads costs thrice as much as reading them."""


def to_bytes(rows: Any) -> bytes:
    """These rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    # Consecutive rows are similar: compression leaves a tenth for Spark to store and move.
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_batch(rows)
    held: bytes = sink.getvalue().to_pybytes()
    return held


def from_bytes(data: Any) -> Any:
    """The rows of an Arrow stream, as a `pyarrow.RecordBatch`."""
    with pa.ipc.open_stream(pa.py_buffer(data), options=_IN_THIS_THREAD) as stream:
        return stream.read_next_batch()


def unpacked(pack: dict[str, Any], table: Table) -> Any:
    """The rows of a pack without a share, with these columns of the table `records`."""
    rows = from_bytes(pack["rows"])
    arrays = [
        pa.repeat(pa.scalar(pack[each.name]), len(rows))
        if each.name in BESIDE
        else rows[each.name]
        if each.name in rows.schema.names
        else pa.nulls(len(rows), ARROW_TYPES[each.type])
        for each in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


def joined(batches: Iterable[Any], schema: Any) -> Any:
    """Concatenate `pyarrow.RecordBatch`es."""
    whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema)


def packed_rows(batch: Any, table: Table, shares: int) -> Any:
    """Pack rows of the table `records` that did not come from the source.

    They have to be ordered by file and offset.
    """
    keys = list(zip(*(batch[name].to_pylist() for name in BESIDE), strict=True))
    begins = [at for at in range(len(keys)) if not at or keys[at] != keys[at - 1]]
    made = []
    for begin, end in zip(begins, [*begins[1:], len(keys)], strict=True):
        part, (replica, path, source) = batch.slice(begin, end - begin), keys[begin]
        kept = part.select([name for name in part.schema.names if name not in BESIDE])
        said = said_of(part.to_pylist())
        gathered = RecordRun(replica, path or "", source, kept, np.arange(len(part)), said)
        made.append(packs(gathered, table, shares))
    return joined(made, table.arrow())
