"""The data source `quorumlog`: log folders as tables of any PySpark session.

    spark.dataSource.register(QuorumLogSource)
    spark.read.format("quorumlog").option("table", "records").load("/var/lib/node-1")

The other modules of this package do the work without Spark; this one adapts them to its interface.
Input that a user can put right is answered by a sentence, without the traceback of a worker.
"""

import copyreg
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from lag.extra import without
from lag.source import worker_python
from lag.source.invalid_input import InvalidInput

try:
    from pyspark.cloudpickle import register_pickle_by_value
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
    from pyspark.sql.types import StructType

    from lag.source.options import (
        Options,
        check_missing,
        check_streamed,
        is_of_create_table,
        names_paths,
        narrowed,
        of_create_table,
        options_of,
    )
    from lag.source.planner import plan
    from lag.source.reader import read
    from lag.source.schemas import Column
    from lag.source.stream_offsets import Follower, tasks_between
    from lag.source.tasks import FoundProblems
except ModuleNotFoundError as error:
    raise without(error) from None


@contextmanager
def _sentence_first() -> Iterator[None]:
    """Raise what a user can put right as a plain error, and let Spark show no traceback of it."""
    try:
        yield
    except InvalidInput as error:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            # The worker ends with this error.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ValueError(str(error)) from None


class _LoadedByWorkers(type(DataSource)):  # type: ignore[misc]
    """The type of a class that workers load by `worker_python`."""


def _by_worker_python(source: type) -> tuple[Callable[..., Any], tuple[str, str, str]]:
    return worker_python.load_class, (source.__module__, source.__name__, sys.executable)


copyreg.pickle(_LoadedByWorkers, _by_worker_python)
register_pickle_by_value(worker_python)


class QuorumLogSource(DataSource, metaclass=_LoadedByWorkers):  # type: ignore[misc]
    """The logs of any number of replicas; docs/lag_tables.md has the options and the tables."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        self._is_new_table = is_of_create_table(self._given)
        if self._is_new_table:
            self._given = of_create_table(self._given)
        self._options: Options | None = None
        # A wrong path is told here, where it is named, and not when rows are wanted. Without one,
        # the table may have been created before, and its schema has the options.
        if names_paths(self._given):
            self._options = _checked(self._given)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "quorumlog"

    def schema(self) -> StructType:
        """The requested columns of the requested table."""
        options = self._options or _checked(self._given)
        schema = StructType.fromJson(options.shown.spark())
        if self._is_new_table:
            # Spark keeps the options of a table and gives them to no Python source that reads it.
            schema.fields[0].metadata[_OPTIONS] = json.dumps(self._given)
        return schema

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader of everything that exists now."""
        options = self._of_schema(schema)
        return FilteringReader(options) if options.push_filters else Reader(options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """A reader of everything that exists and everything that follows."""
        return StreamReader(self._of_schema(schema))

    def _of_schema(self, schema: Any) -> Options:
        """The options with the columns of a schema, which may be fewer; of a created table those
        that the schema has."""
        options = self._options
        if options is None:
            created = [each.metadata[_OPTIONS] for each in schema if _OPTIONS in each.metadata]
            known = json.loads(created[0]) if created else {}
            options = _checked({**known, **self._given})
        with _sentence_first():
            return _with_columns(options, schema)


_OPTIONS: Final = "quorumlog.options"
"""The key of the options in the metadata of the first column of a created table."""


def _checked(given: Mapping[str, str]) -> Options:
    with _sentence_first():
        options = options_of(given)
        check_missing(options)
        return options


def _with_columns(options: Options, schema: Any) -> Options:
    """Restrict the options to the columns of a schema, which may be fewer."""
    return options.with_columns(
        [
            Column(each.name, each.dataType.simpleString().upper(), "", each.nullable)
            for each in schema.fields
        ]
    )


class Reader(DataSourceReader):  # type: ignore[misc]
    """One read of everything that exists."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One partition per task; the options travel once, with the reader."""
        with _sentence_first():
            tasks = plan(self._options) or [FoundProblems(problems=())]
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, self._options)


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
        with _sentence_first():
            # Spark shows no error that is raised earlier, where the reader is made.
            check_streamed(self._options)
            return self._follower.latest(start, limit.max_bytes if is_limited else None)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query with what exists now."""
        with _sentence_first():
            check_streamed(self._options)
            self._follower.stop_here()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit by the option max_bytes_per_trigger."""
        bytes_max = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if bytes_max is None else ReadMaxBytes(bytes_max)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks between two offsets."""
        return [InputPartition(task) for task in tasks_between(start, end, self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        return read(partition.value, self._options)
