"""The data source `quorumlog`: log folders as tables of any PySpark session.

    spark.dataSource.register(QuorumLogSource)
    spark.read.format("quorumlog").option("table", "records").load("/var/lib/node-1")

The other modules of this package do the work without Spark; this one adapts them to its interface.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from lag.source.options import Options, check_streamed, narrowed, options_of
from lag.source.planner import plan
from lag.source.reader import read
from lag.source.stream_offsets import Follower, tasks_between
from lag.source.tasks import FoundProblems, Task


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task, sent to a worker."""

    def __init__(self, task: Task, options: Options) -> None:
        super().__init__(task)
        self.options = options


class QuorumLogSource(DataSource):  # type: ignore[misc]
    """The logs of any number of replicas; docs/lag_tables.md has the options and the tables."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = options_of(dict(options))

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "quorumlog"

    def schema(self) -> str:
        """The requested columns of the requested table."""
        return self._options.shown.ddl()

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader of everything that exists now."""
        options = _with_columns(self._options, schema)
        return FilteringReader(options) if options.push_filters else Reader(options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """A reader of everything that exists and everything that follows."""
        check_streamed(self._options)
        return StreamReader(_with_columns(self._options, schema))


def _with_columns(options: Options, schema: Any) -> Options:
    """Restrict the options to the columns of a schema, which may be fewer."""
    return options.with_columns(tuple(schema.fieldNames()))


class Reader(DataSourceReader):  # type: ignore[misc]
    """One read of everything that exists."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One partition per slice of a file."""
        tasks = plan(self._options) or [FoundProblems(problems=())]
        return [TaskPartition(task, self._options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, partition.options)


class FilteringReader(Reader):
    """A reader that is narrowed by Spark's filters.

    A class of its own, because Spark refuses a reader with `pushFilters` unless
    spark.sql.python.filterPushdown.enabled is set.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Use the filters that skip segments or batches; Spark applies all of them again."""
        self._options = narrowed(self._options, filters)
        yield from filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Everything that exists and is appended; `stream_offsets` defines the offsets."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._follower = Follower(options)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before everything."""
        return {}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """The current end of all logs."""
        is_limited = isinstance(limit, ReadMaxBytes)
        return self._follower.latest(start, limit.max_bytes if is_limited else None)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query with what exists now."""
        self._follower.stop_here()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit by the option max_bytes_per_trigger."""
        bytes_max = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if bytes_max is None else ReadMaxBytes(bytes_max)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks between two offsets."""
        return [
            TaskPartition(task, self._options) for task in tasks_between(start, end, self._options)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, partition.options)
