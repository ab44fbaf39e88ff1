"""The parts of an archive, and their merging: a part per micro-batch would be thousands an hour.

Of every level `PARTS_MERGED` parts in a row become one of the next level, in which rows that
continue each other are joined. Replaced parts stay for a while, because a reader may have begun.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lag.archive.place import Archive, Part, current
from lag.source.schemas import LOG_DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS_MERGED: Final = 32
MERGED_BYTES_MAX: Final = 128 << 20
"""The most bytes of parts that are merged, so that the stream waits for seconds only."""
REPLACED_MS: Final = 10 * 60 * 1_000
"""The time after which replaced parts are removed."""
ROW_BYTES_MAX: Final = 1 << 20
"""The bytes of batches in a joined row."""
COLUMNS: Final = LOG_DATA.nullable().column_names
_ALIKE: Final = ("replica", "path", "generation", "day", "mark")
ORDER: Final = ("day", "replica", "path", "generation", "position")


class Parts:
    """The whole parts of an archive that this process writes."""

    def __init__(self, spark: "SparkSession", archive: Archive, now_ms: int) -> None:
        self._spark = spark
        self._archive = archive
        self._sizes: dict[Part, int] = {}
        # Spark's checkpoint says that parts that were cut off are written again.
        for part in archive.torn():
            archive.remove(part)
        self._parts = archive.parts()
        self._clean(now_ms)

    def __contains__(self, number: int) -> bool:
        """True if this micro-batch is in a part."""
        return any(part.first <= number <= part.last for part in self._parts)

    def write(self, rows: "DataFrame", number: int, now_ms: int) -> None:
        """Write the rows of a micro-batch as a part, and merge what can be merged."""
        part = Part(0, number, number)
        cores = self._spark.sparkContext.defaultParallelism
        _write(rows.select(*COLUMNS).coalesce(cores), self._archive.path_of(part))
        self._parts.append(part)
        while (due := _due(current(self._parts), self._size)) is not None:
            merged = Part(due[0].level + 1, due[0].first, due[-1].last)
            rows = read_parts(self._spark, self._archive, due).coalesce(1)
            _write(_joined(rows.sortWithinPartitions(*ORDER)), self._archive.path_of(merged))
            self._parts.append(merged)
            self._clean(now_ms)

    def _size(self, part: Part) -> int:
        if part not in self._sizes:
            self._sizes[part] = self._archive.size(part)
        return self._sizes[part]

    def _clean(self, now_ms: int) -> None:
        """Remove what was replaced long enough ago."""
        kept = set(current(self._parts))
        for part in set(self._parts) - kept:
            by = [each for each in self._parts if each.replaces(part)]
            if max(self._archive.age_ms(each, now_ms) for each in by) >= REPLACED_MS:
                self._archive.remove(part)
                self._parts.remove(part)


def _due(parts: Sequence[Part], size_of: Any) -> Sequence[Part] | None:
    """The oldest parts in a row to be merged, of the lowest level; None if there are none."""
    for level in sorted({part.level for part in parts}):
        row: list[Part] = []
        for part in parts:
            row = [*row, part] if part.level == level else []
            if len(row) == PARTS_MERGED:
                if sum(map(size_of, row)) <= MERGED_BYTES_MAX:
                    return row
                row = row[1:]
    return None


def _write(rows: "DataFrame", path: str) -> None:
    """Write a part; it is whole once Spark has written its `_SUCCESS`."""
    rows.write.mode("overwrite").partitionBy("day").option("compression", "zstd").parquet(path)


def read_parts(spark: "SparkSession", archive: Archive, parts: Iterable[Part]) -> "DataFrame":
    """The rows of these parts; a column that was unknown when they were written is null."""
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(LOG_DATA.nullable().spark())
    reader = spark.read.schema(schema).option("basePath", f"{archive.path}/parts")
    return reader.parquet(*map(archive.path_of, parts)).select(*COLUMNS)


@dataclass(slots=True)
class _Open:
    """A row that further ones may continue."""

    values: dict[str, Any]
    data: list[bytes]
    entries: list[bytes]
    """The parts of its range of the index."""
    entries_end: int | None

    @classmethod
    def of(cls, row: dict[str, Any]) -> "_Open":
        index = row["index"]
        end = None if index is None else row["index_position"] + len(index)
        return cls(dict(row), [row["data"]], [index], end)

    def take(self, row: dict[str, Any]) -> bool:
        """Add a row; false if it does not continue this one."""
        own = self.values
        is_next = (
            all(own[name] == row[name] for name in _ALIKE)
            and own["mark"] is None
            and own["position"] + own["bytes"] == row["position"]
            and own["last_offset"] + 1 == row["base_offset"]
            and own["bytes"] + row["bytes"] <= ROW_BYTES_MAX
            and self._continues_in_index(row)
        )
        if not is_next:
            return False
        self.data.append(row["data"])
        if self.entries_end is not None:
            self.entries.append(row["index"][self.entries_end - row["index_position"] :])
            self.entries_end = row["index_position"] + len(row["index"])
        own["bytes"] += row["bytes"]
        own["last_offset"] = row["last_offset"]
        return True

    def _continues_in_index(self, row: dict[str, Any]) -> bool:
        begin, end = row["index_position"], self.entries_end
        if begin is None or end is None:
            return begin is end
        # The last entry of a row may be the first of the next one as well.
        is_after = self.values["index_position"] <= begin <= end
        return bool(is_after and end <= begin + len(row["index"]))

    def row(self) -> dict[str, Any]:
        index = None if self.entries_end is None else b"".join(self.entries)
        data = None if self.values["data"] is None else b"".join(self.data)
        return {**self.values, "data": data, "index": index}


def joined(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Join rows, in order, that continue each other in their segment and its index."""
    last: _Open | None = None
    for row in rows:
        if last is None or not last.take(row):
            if last is not None:
                yield last.row()
            last = _Open.of(row)
    if last is not None:
        yield last.row()


def _joined(rows: "DataFrame") -> "DataFrame":
    from lag.reports.dataframes import mapped

    columns = [(each.name, each.type) for each in LOG_DATA.columns]
    return mapped(rows, _of_batches, columns)


def _of_batches(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    schema = LOG_DATA.nullable().arrow()
    for batch in batches:
        yield pa.RecordBatch.from_pylist(list(joined(batch.to_pylist())), schema)
