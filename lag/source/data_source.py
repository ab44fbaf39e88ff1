"""The data source `quorumlog`: log folders as tables of any PySpark session.

    spark.dataSource.register(QuorumLogSource)
    spark.read.format("quorumlog").option("table", "records").load("/var/lib/node-1")

Everything it does is done by its neighbours, which know no Spark; here their answers get the shape
that Spark asks for.
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
from lag.source.tasks import Task, Told


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task on its way to a worker."""

    def __init__(self, task: Task, options: Options) -> None:
        super().__init__(task)
        self.options = options


class QuorumLogSource(DataSource):  # type: ignore[misc]
    """The logs of any number of replicas; docs/lag.md has the options and the tables."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = options_of(dict(options))

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "quorumlog"

    def schema(self) -> str:
        """Of the table that is asked for, with the columns that are."""
        return self._options.shown.ddl()

    def reader(self, schema: Any) -> DataSourceReader:
        """Of all that is there now."""
        options = _with_columns(self._options, schema)
        return FilteringReader(options) if options.push_filters else Reader(options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Of all that is there and all that comes."""
        check_streamed(self._options)
        return StreamReader(_with_columns(self._options, schema))


def _with_columns(options: Options, schema: Any) -> Options:
    """With the columns of the schema that a user gave, which may be fewer."""
    return options.with_columns(tuple(schema.fieldNames()))


class Reader(DataSourceReader):  # type: ignore[misc]
    """One reading of all that is there."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One a slice of a file."""
        tasks = plan(self._options) or [Told(problems=())]
        return [TaskPartition(task, self._options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, partition.options)


class FilteringReader(Reader):
    """The same, narrowed by what Spark is about to filter anyway.

    Spark refuses a reader that has `pushFilters` unless spark.sql.python.filterPushdown.enabled is
    set: hence a class of its own.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take what skips segments or batches from these; Spark applies them all once more."""
        self._options = narrowed(self._options, filters)
        yield from filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """All that is there, and what is appended to it; `streaming` says what its offsets mean."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._follower = Follower(options)

    def initialOffset(self) -> dict[str, Any]:
        """Before everything."""
        return {}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """How far all logs go now."""
        is_limited = isinstance(limit, ReadMaxBytes)
        return self._follower.latest(start, limit.max_bytes if is_limited else None)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends with what is there now, in as many batches as it takes."""
        self._follower.stop_here()

    def getDefaultReadLimit(self) -> ReadLimit:
        """As the option max_bytes_per_trigger says."""
        bytes_max = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if bytes_max is None else ReadMaxBytes(bytes_max)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What has come between two offsets."""
        return [
            TaskPartition(task, self._options) for task in tasks_between(start, end, self._options)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, partition.options)
