"""Read committed records from the log, and load them and snapshots into an image.

Both take a few milliseconds at a time. A long log, or a snapshot of many partitions, takes
seconds; done at once, that would keep the whole process from answering, and other nodes would take
it for dead. The owner calls `go_on` while the loader `is_behind`, and gives everything else a turn
in between. The functions of the image are handed in, so nothing here depends on its records.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from quorum.core.vocabulary import Offset
from quorum.ports import LogFailure
from quorum.records.batch import headers
from quorum.records.decode import Record, decode, plain_values
from quorum.version import VERSION

STRIDE_BYTES: Final = 256 * 1024
"""Of whole batches, or a single one that is larger: five to ten milliseconds of metadata."""

_ALL: Final = 1 << 62


class CommittedLog(Protocol):
    """The log as a source of committed records."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Read whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        ...


class RecordRun(NamedTuple):
    """Consecutive records: either data or control records."""

    offset: int
    """The offset of the first record."""
    values: list[bytes]
    """The values of the data records."""
    control: tuple[Record, ...]
    end: int
    """The offset after the last record."""


def next_records(
    log: CommittedLog, start: Offset, *, records_max: int | None = None
) -> Iterator[RecordRun]:
    """Yield the next committed records from `start` on, at least one.

    They end with a batch, so that records decided together are read together; with `records_max`
    they end after so many records, and the next call continues there. Raises `CorruptBatch`.
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
            for record in decode(view[position : position + header.size_bytes]):
                if record.offset < at or left <= 0:
                    continue
                at, left = record.offset + 1, left - 1
                if header.is_control:
                    yield RecordRun(record.offset, [], (record,), at)
                else:
                    assert record.value is not None, f"no value at offset {record.offset}"
                    yield _run_of(record.offset, [record.value])
        if len(values) >= left:
            break
    if values:
        yield _run_of(at, values)


def _run_of(offset: int, values: list[bytes]) -> RecordRun:
    return RecordRun(offset, values, (), offset + len(values))


class LoadedImage(Protocol):
    """The image that is loaded."""

    end_offset: int
    """The offset after the last record that it contains."""

    def advance(self, end: int) -> None:
        """Note that the log continues to `end` with records that do not change the image."""
        ...

    def become(self, other: Any) -> None:
        """Take over everything that `other`, an image of the same type, contains."""
        ...


I = TypeVar("I", bound=LoadedImage)  # noqa: E741 - one letter, as type variables are


class SnapshotLoad(Protocol[I]):
    """A new image in the making from the records of a snapshot."""

    image: I
    end: int
    """The offset after the last record that the snapshot contains."""

    def go_on(self) -> bool:
        """Load some more records; return True once the image is complete. Raises `ValueError`."""
        ...


class MetadataLoader(Generic[I]):
    """The progress of one image towards the high watermark."""

    def __init__(
        self,
        image: I,
        *,
        replay: Callable[[I, list[bytes], int], None],
        load_snapshot: Callable[[Iterable[bytes], int], SnapshotLoad[I]],
        on_control: Callable[[Record], None] = lambda record: None,
        refusal: Callable[[I], str | None] = lambda image: None,
    ) -> None:
        """`replay` changes an image by committed values, of which the first has the given offset;
        `on_control` receives each control record of the log, in order. `refusal` returns the reason
        why this program cannot go on with an image, or None: then the loading ends."""
        self.image = image
        self._replay_values = replay
        self._load_snapshot = load_snapshot
        self._on_control = on_control
        self._refusal = refusal
        self.end = Offset(0)
        """Everything below is committed and in the image."""
        self.target = Offset(0)
        """Everything below is known to be committed."""
        self.is_ready = False
        """True once the image contains everything that was committed when the loading began."""
        self._loading: SnapshotLoad[I] | None = None
        self._expected = Offset(0)
        self._is_long = False
        """True while at least one stride was read and the image is not ready."""

    @property
    def is_behind(self) -> bool:
        """True if `go_on` has something to do."""
        return self._loading is not None or self.end < self.target

    def expect(self, log_end: Offset) -> None:
        """Set the end of the log when it was opened: until more is known, all may be committed."""
        self._expected = log_end

    def raise_to(self, high_watermark: Offset) -> None:
        """Note that everything below is committed."""
        self.target, self._expected = high_watermark, Offset(0)

    def took(self, high_watermark: Offset) -> None:
        """Note that everything below is committed, and that the owner has replayed it already."""
        assert not self.is_behind
        self.end = self.target = high_watermark

    def load(self, values: Iterable[bytes], end: Offset) -> None:
        """Start again from a snapshot; the image is replaced once it is loaded."""
        self._loading = self._load_snapshot(values, end)
        self.is_ready = False
        self.target = max(self.target, end)

    def go_on(self, log: CommittedLog) -> None:
        """Load the next few milliseconds' worth; raises `LogFailure` for unreadable records."""
        if self._loading is not None:
            self._load(self._loading)
        elif self.is_behind:
            self._replay(log)
        if self.is_ready:
            return
        self.is_ready = not self.is_behind and self.end >= self._expected
        was_long, self._is_long = self._is_long, not self.is_ready
        if self._is_long is not was_long:
            # The program and the image live on: garbage collections that walk through them again
            # and again would be the longest pauses of all.
            gc.freeze()

    def _load(self, loading: SnapshotLoad[I]) -> None:
        try:
            is_whole = loading.go_on()
        except ValueError as error:
            self._check(loading.image)
            raise _unreadable(f"the snapshot that ends at offset {loading.end}", error) from error
        self._check(loading.image)
        if is_whole:
            self.image.become(loading.image)
            self.end = Offset(loading.end)
            self._loading = None

    def _replay(self, log: CommittedLog) -> None:
        try:
            for run in next_records(log, self.end):
                for record in run.control:
                    self._on_control(record)
                if run.values:
                    self._replay_values(self.image, run.values, run.offset)
                    self._check(self.image)
                self.image.advance(run.end)
        except ValueError as error:
            # The record that says why precedes those that cannot be read.
            self._check(self.image)
            where = f"what is committed from offset {self.image.end_offset} on"
            raise _unreadable(where, error) from error
        self.end = Offset(self.image.end_offset)

    def _check(self, image: I) -> None:
        reason = self._refusal(image)
        if reason is not None:
            raise LogFailure(f"{reason}. {_REMEDY}")


_REMEDY: Final = (
    "Start a newer release, the one that the other nodes run or the one that wrote this log; until "
    "then the data folder stays as it is"
)


def _unreadable(what: str, error: ValueError) -> LogFailure:
    remedy = (
        f"Start the release that wrote it, or a newer one, for this is metaquorum {VERSION}; the "
        "log is not changed"
    )
    return LogFailure(f"{what} cannot be read: {error}. {remedy}")
