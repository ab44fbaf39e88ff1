"""The read view: an image as it was at an earlier offset, while the image itself changes.

Nothing is copied in advance, because an image can hold 2,000,000 partitions: the image keeps each
value that it overwrites here, and a reader takes it instead of the present one. Entries come in the
order of the image's tables, so that all nodes write the same snapshot.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from statemachine.image.partition_table import Topic
from statemachine.image.undo_log import Transaction
from statemachine.partitions.registration import PartitionRegistration

K = TypeVar("K")
V = TypeVar("V")

Kept = bytes | PartitionRegistration | None
"""A row, a value that has no row, or None if there was no partition."""

TABLES: Final = (
    "brokers",
    "controllers",
    "topics",
    "configs",
    "features",
    "quotas",
    "acls",
    "scram_credentials",
    "delegation_tokens",
    "moves",
    "keys",
    "owned",
    "singles",
)
"""The tables of an image that are not derived from others."""

LISTED_AT_ONCE: Final = 10_000
"""Keys that one slice of work lists: about half a millisecond."""


class TableView(Generic[K, V]):
    """One table of an image at an earlier offset; overwritten entries are kept."""

    __slots__ = ("_gone", "_kept", "_keys", "_live", "_unlisted")

    def __init__(self, live: dict[K, V]) -> None:
        self._live = live
        self._keys: list[K] = []
        self._unlisted: Iterator[K] | None = iter(live)
        self._kept: dict[K, Any] = {}
        self._gone: list[K] = []

    def restore(self, key: K, before: Any) -> None:
        """Note the value before an uncommitted change, from the undo log; None if absent."""
        self._kept[key] = before

    def restored(self) -> None:
        """List the entries that uncommitted changes have removed; the undo log has been read."""
        self._gone = [
            key
            for key, before in self._kept.items()
            if before is not None and key not in self._live
        ]

    def keep(self, key: K, before: Any) -> None:
        """Note the value of an entry that is about to change; None if absent."""
        # A dictionary must not change its size during an iteration.
        while self._list_more():
            pass
        self._kept.setdefault(key, before)

    def get(self, key: K) -> V | None:
        """Return the value at the offset of the view, or None."""
        return self._kept[key] if key in self._kept else self._live.get(key)

    def items(self) -> Iterator[tuple[K, V] | None]:
        """Yield the entries at the offset of the view; None is a pause."""
        while self._list_more():
            yield None
        kept, live = self._kept, self._live
        for key in self._keys:
            value = kept[key] if key in kept else live[key]
            if value is not None:
                yield key, value

    def _list_more(self) -> bool:
        if self._unlisted is None:
            return False
        stride = list(islice(self._unlisted, LISTED_AT_ONCE))
        self._keys += stride
        if len(stride) < LISTED_AT_ONCE:
            self._unlisted = None
            self._keys += self._gone
        return True


class PartitionsView:
    """The partitions of all topics at an earlier offset.

    Rows are kept as bytes: the garbage collector would visit the objects in values, and hundreds of
    thousands may change while the view is read.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Topic, dict[int, Kept]] = {}

    def keep(self, topic: Topic, number: int, before: PartitionRegistration | None) -> None:
        """Keep the value `before` of a partition that is about to change."""
        self._keep(topic, number, topic.partitions.row(number) or before)

    def keep_rows(self, topic: Topic, numbers: Iterable[int]) -> None:
        """Keep the rows among these partitions, which are about to change."""
        for number in numbers:
            row = topic.partitions.row(number)
            if row is not None:
                self._keep(topic, number, row)

    def keep_absent(self, topic: Topic, first: int) -> None:
        """Note that the partitions from this number on have just been created."""
        for number in range(first, len(topic.partitions)):
            self._keep(topic, number, None)

    def _keep(self, topic: Topic, number: int, before: Kept) -> None:
        kept = self._kept.get(topic)
        if kept is None:
            kept = self._kept[topic] = {}
        kept.setdefault(number, before)

    def restore(self, topic: Topic, number: int, before: Kept) -> None:
        """Note the value before an uncommitted change, from the undo log; None if absent."""
        self._kept.setdefault(topic, {})[number] = before

    def of(self, topic: Topic) -> Iterator[tuple[int, Kept]]:
        """Yield the number of each partition of the topic, with its kept row or value.

        None stands for an unchanged partition, or for none: the reader looks into the topic.
        """
        # Partitions that are created or deleted meanwhile are kept from then on.
        count = max(len(topic.partitions), 1 + max(self._kept.get(topic, ()), default=-1))
        for number in range(count):
            kept = self._kept.get(topic)
            if kept is None or number not in kept:
                yield number, None
            elif (before := kept[number]) is not None:
                yield number, before


class ReadView:
    """An image as it was at `end`. The image keeps here what it overwrites."""

    __slots__ = ("_by_id", "end", "partitions", "tables", "transaction")

    def __init__(
        self, tables: Mapping[str, dict[Any, Any]], transaction: Transaction | None, end: int
    ) -> None:
        """Begin a view of an image with these `TABLES`, by name."""
        self.end = end
        self.tables: dict[str, TableView[Any, Any]] = {
            name: TableView(table) for name, table in tables.items()
        }
        self.partitions = PartitionsView()
        self.transaction = transaction
        self._by_id = {id(table): self.tables[name] for name, table in tables.items()}

    def table(self, live: dict[Any, Any]) -> TableView[Any, Any] | None:
        """Return the view of this table of the image; None for a derived table."""
        return self._by_id.get(id(live))

    def restored(self) -> None:
        """Complete the tables: all uncommitted changes have been noted."""
        for table in self.tables.values():
            table.restored()
