"""Scan one slice of a log: batch headers as numpy columns, and the problems between batches.

The scan checks the same things for every table; the tables decide which problems to show. The
columns have the fields of `quorum.records.batch.Header` in native byte order.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from lag.source import files
from lag.source.byte_ranges import (
    OFFSETS_END,
    Damage,
    End,
    RangeReader,
    ValidBatches,
    is_legible,
)
from lag.source.files import OpenFile
from lag.source.problems import (
    BAD_CRC,
    DUPLICATE,
    EPOCH,
    FORMAT,
    GAP,
    MISPLACED,
    TORN_TAIL,
    UNREADABLE,
    Problem,
)
from lag.source.tasks import Slice
from quorum.records.batch import CONTROL_BIT, HEADER_BYTES, LENGTH_END, Codec

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_CODEC_BITS: Final = 0x07
CODEC_NAMES: Final = tuple(
    str(Codec(number)) if number in set(Codec) else f"codec {number}" for number in range(8)
)

assert _HEADER.itemsize == HEADER_BYTES


class Headers(NamedTuple):
    """Header columns, one row per batch (`numpy.ndarray`s)."""

    position: Any
    base_offset: Any
    last_offset: Any
    epoch: Any
    max_timestamp_ms: Any
    size: Any
    record_count: Any
    is_control: Any
    codec: Any
    crc: Any

    def only(self, wanted: Any) -> "Headers":
        """The rows selected by a mask or a slice."""
        return Headers(*(column[wanted] for column in self))


def headers_of(sound: ValidBatches) -> Headers:
    """The headers of these batches."""
    raw = np.frombuffer(sound.data, np.uint8)
    at = sound.starts - sound.origin
    heads = np.lib.stride_tricks.sliding_window_view(raw, HEADER_BYTES)[at]
    return _columns(heads.reshape(-1).view(_HEADER), sound.starts)


def header_alone(head: bytes, position: int) -> Headers:
    """The one header in these 61 bytes."""
    return _columns(np.frombuffer(head, _HEADER, count=1), np.array([position], np.int64))


def _columns(heads: Any, position: Any) -> Headers:
    base = heads["base_offset"].astype(np.int64)
    attributes = heads["attributes"].astype(np.int16)
    return Headers(
        position=position,
        base_offset=base,
        last_offset=base + heads["last_offset_delta"],
        epoch=heads["epoch"].astype(np.int32),
        max_timestamp_ms=heads["max_timestamp_ms"].astype(np.int64),
        size=heads["length"].astype(np.int32) + np.int32(LENGTH_END),
        record_count=heads["record_count"].astype(np.int32),
        is_control=attributes & CONTROL_BIT != 0,
        codec=(attributes & _CODEC_BITS).astype(np.int8),
        crc=heads["crc"].astype(np.int64),
    )


_LOOK_MS: Final = 20


def grown_within(size_now: Callable[[], int], settle_ms: int) -> Callable[[int], bool]:
    """Return a function that tells whether a file has grown, and waits up to `settle_ms` in
    total."""
    left_ms = settle_ms

    def has_grown(size: int) -> bool:
        nonlocal left_ms
        while True:
            if size_now() > size:
                return True
            if left_ms <= 0:
                return False
            time.sleep(min(left_ms, _LOOK_MS) / 1_000)  # noqa: TID251
            left_ms -= _LOOK_MS

    return has_grown


PROBLEMS_AT_ONCE_MAX: Final = 1_000
"""Problems of one kind per window; the last one counts the others."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Valid batches and their headers."""

    sound: ValidBatches
    headers: Headers


@dataclass(frozen=True, slots=True)
class Lost:
    """The missing offsets [`low`, `high`)."""

    low: int
    high: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A damaged batch whose header fits its place, so that its offsets and epoch can be told."""

    headers: Headers


@dataclass(frozen=True, slots=True)
class UnknownEnd:
    """Damage at the end of a log that may have been batches of a later epoch."""


Scanned = BatchRun | Problem | Lost | Unread | UnknownEnd


def scan(part: Slice, *, settle_ms: int) -> Iterator[Scanned]:
    """The content of the slice, in the order of the file."""
    try:
        with files.opened(part.path) as file:
            yield from _Scan(part).run(_reader(part, file, settle_ms))
    except OSError as error:
        reason = f"it cannot be read: {error.strerror or error}"
        yield Problem(part.path, None, None, UNREADABLE, reason)


def _reader(part: Slice, file: OpenFile, settle_ms: int) -> RangeReader:
    look_again: Callable[[int], bool] | None = None
    if part.is_newest:
        look_again = grown_within(file.size, settle_ms)
    return RangeReader(
        file, part.low, part.high, planned_size=part.size_bytes, look_again=look_again
    )


class _Scan:
    """The state carried from one batch to the next."""

    def __init__(self, part: Slice) -> None:
        self._part = part
        is_front = part.low == 0
        self._due: int | None = part.due
        """The expected offset of the next batch; None if unknown."""
        self._epoch: int | None = None
        self._is_first = is_front
        self._damage: Damage | None = None

    def run(self, reader: RangeReader) -> Iterator[Scanned]:
        """Scan the whole slice."""
        for found in reader:
            match found:
                case ValidBatches():
                    headers = headers_of(found)
                    yield from self._join(headers)
                    yield from self._within(headers)
                    self._due = int(headers.last_offset[-1]) + 1
                    self._epoch = int(headers.epoch[-1])
                    yield BatchRun(found, headers)
                case Damage():
                    self._damage = found
                    yield from self._unread(found, reader.size)
                    if found.next_sound is None:
                        yield from self._tell_damage(self._part.next_base, self._epoch or 0)
                case End():
                    if found.following:
                        yield from self._join(header_alone(found.following, found.position))
                    elif self._part.is_last:
                        yield from self._next_segment(found.position)

    def _join(self, headers: Headers) -> Iterator[Problem | Lost]:
        """Check the first of these batches against what came before."""
        base, epoch = int(headers.base_offset[0]), int(headers.epoch[0])
        position = int(headers.position[0])
        is_behind_damage = self._damage is not None
        if is_behind_damage:
            yield from self._tell_damage(base, epoch)
        elif self._due is not None and base != self._due:
            yield from self._misfit(position, base, epoch)
        if self._epoch is not None and epoch < self._epoch:
            yield self._lower_epoch(position, base, epoch, self._epoch)
        is_next = not is_behind_damage and base == self._due and self._part.source == "log"
        is_rise = is_next and self._epoch is not None and epoch > self._epoch
        if is_rise and not headers.is_control[0]:
            yield self._lone_epoch(headers, self._epoch or 0)
        self._is_first = False

    def _unread(self, damage: Damage, size: int) -> Iterator[Unread | UnknownEnd]:
        """The batches of which only headers are left, in a file of this size."""
        placed = list(self._placed(damage))
        if not damage.is_cut_off:
            yield from map(Unread, placed)
        if damage.next_sound is not None or not self._part.is_newest:
            return
        if damage.is_cut_off:
            # A batch whose end is missing was never written, but its leader was heard of.
            is_known = any(int(headers.epoch[0]) == self._epoch for headers in placed)
        else:
            is_known = any(int(each.position[0] + each.size[0]) >= size for each in placed[-1:])
        if not is_known:
            yield UnknownEnd()

    def _placed(self, damage: Damage) -> Iterator[Headers]:
        """The headers in damage, as long as they continue the batch before."""
        due, epoch = self._due, self._epoch or 0
        for position, head in damage.heads:
            headers = header_alone(head, position)
            base = int(headers.base_offset[0])
            sizes = {int(headers.record_count[0]), int(headers.last_offset[0]) + 1 - base}
            if len(sizes) > 1 and damage.next_sound is not None:
                return
            # If the two differ at the end of a file, there are at least as many as the lesser.
            size = min((each for each in sizes if each > 0), default=0)
            if due is None or not size or headers.epoch[0] < epoch or not is_legible(head):
                return
            if (base ^ due) % OFFSETS_END:
                return
            yield headers._replace(
                base_offset=np.array([due]), last_offset=np.array([due + size - 1])
            )
            due, epoch = due + size, int(headers.epoch[0])

    def _within(self, headers: Headers) -> Iterator[Problem | Lost]:
        """Check these batches against each other."""
        base, ends = headers.base_offset, headers.last_offset + 1
        misfits = np.nonzero(base[1:] != ends[:-1])[0] + 1
        for at in misfits[:PROBLEMS_AT_ONCE_MAX].tolist():
            self._due = int(ends[at - 1])
            yield from self._misfit(
                int(headers.position[at]), int(base[at]), int(headers.epoch[at])
            )
        yield from self._more(len(misfits), "do not begin where the one before them ends")
        rises = (np.diff(headers.epoch) > 0) & (base[1:] == ends[:-1])
        lone = np.nonzero(rises & ~headers.is_control[1:])[0] + 1
        for at in lone[:PROBLEMS_AT_ONCE_MAX].tolist() if self._part.source == "log" else ():
            yield self._lone_epoch(headers.only(slice(at, at + 1)), int(headers.epoch[at - 1]))
        yield from self._more(len(lone), "begin an epoch without the record of its leader")
        falls = np.nonzero(headers.epoch[1:] < headers.epoch[:-1])[0] + 1
        for at in falls[:PROBLEMS_AT_ONCE_MAX].tolist():
            before = int(headers.epoch[at - 1])
            where, epoch = int(headers.position[at]), int(headers.epoch[at])
            yield self._lower_epoch(where, int(base[at]), epoch, before)
        yield from self._more(len(falls), "have a lower epoch than the one before them")
        yield from self._contradictions(headers)

    def _contradictions(self, headers: Headers) -> Iterator[Problem]:
        offsets = headers.last_offset - headers.base_offset + 1
        wrong = np.nonzero((headers.record_count != offsets) | (headers.record_count < 1))[0]
        for at in wrong[:PROBLEMS_AT_ONCE_MAX].tolist():
            reason = (
                f"it says {int(headers.record_count[at])} records in {int(offsets[at])} offsets"
            )
            where, base = int(headers.position[at]), int(headers.base_offset[at])
            yield Problem(self._part.path, where, base, FORMAT, reason)
        yield from self._more(len(wrong), "have record counts that differ from their offset ranges")

    def _more(self, count: int, what: str) -> Iterator[Problem]:
        rest = count - PROBLEMS_AT_ONCE_MAX
        if rest > 0:
            reason = f"{rest} more batches of this stretch {what}"
            yield Problem(self._part.path, None, None, FORMAT, reason)

    def _misfit(self, position: int, base: int, epoch: int) -> Iterator[Problem | Lost]:
        due, path = self._due, self._part.path
        assert due is not None
        if self._is_first:
            reason = f"it begins with offset {base}, and its name says {due}"
            yield Problem(path, position, due, MISPLACED, reason)
        elif base > due:
            reason = f"offsets {due} to {base - 1} are missing before this batch"
            yield Problem(path, position, due, GAP, reason)
            yield Lost(due, base, epoch)
        else:
            reason = f"the batch begins at offset {base}, but the one before it ends at {due}"
            yield Problem(path, position, base, DUPLICATE, reason)

    def _lower_epoch(self, position: int, base: int, epoch: int, before: int) -> Problem:
        reason = f"its epoch is {epoch}, after epoch {before}"
        return Problem(self._part.path, position, base, EPOCH, reason)

    def _lone_epoch(self, headers: Headers, before: int) -> Problem:
        reason = (
            f"its epoch is {int(headers.epoch[0])}, after epoch {before}, and it is not the record "
            "of a new leader"
        )
        position, base = int(headers.position[0]), int(headers.base_offset[0])
        return Problem(self._part.path, position, base, EPOCH, reason)

    def _tell_damage(self, following: int | None, epoch: int) -> Iterator[Problem | Lost]:
        """Report damage, now that the next offset is known."""
        damage, self._damage = self._damage, None
        assert damage is not None
        reason, due = damage.reason, self._due
        if damage.next_sound is not None:
            reason += f"; the next valid batch is at byte {damage.next_sound}"
        if due is not None and following is not None and following > due:
            reason += f"; offsets {due} to {following - 1} are lost"
        yield Problem(self._part.path, damage.position, due, self._kind(damage), reason)
        if due is not None and following is not None and following > due:
            yield Lost(due, following, epoch)

    def _kind(self, damage: Damage) -> str:
        if damage.is_format:
            return FORMAT
        return TORN_TAIL if damage.is_cut_off and self._part.is_newest else BAD_CRC

    def _next_segment(self, position: int) -> Iterator[Problem | Lost]:
        """Compare the end of this file with the name of the next."""
        due, base = self._due, self._part.next_base
        if due is None or base is None or base == due:
            return
        if base > due:
            reason = f"it ends at offset {due}, the next segment begins at {base}"
            yield Problem(self._part.path, position, due, GAP, f"{reason}: what is between is gone")
            yield Lost(due, base, self._epoch or 0)
        else:
            reason = f"it reaches to offset {due}, but the next segment begins at {base} already"
            yield Problem(self._part.path, position, base, DUPLICATE, reason)


def rows_wanted(headers: Headers, part: Slice, bounds: "Bounds") -> Any:
    """A mask of the requested batches; None for all."""
    masks = []
    if bounds.since_ms is not None:
        masks.append(headers.max_timestamp_ms >= bounds.since_ms)
    if bounds.until_ms is not None:
        masks.append(headers.max_timestamp_ms < bounds.until_ms)
    if part.source == "log":
        if bounds.from_offset is not None:
            masks.append(headers.last_offset >= bounds.from_offset)
        if bounds.to_offset is not None:
            masks.append(headers.base_offset < bounds.to_offset)
    if part.span is not None:
        span = part.span
        masks.append((headers.base_offset >= span.low) & (headers.last_offset < span.high))
        epochs = np.array(span.epochs, np.int64).reshape(-1, 2)
        place = np.searchsorted(epochs[:, 1], headers.base_offset, side="right") - 1
        masks.append((place >= 0) & (epochs[np.maximum(place, 0), 0] == headers.epoch))
    return None if not masks else np.logical_and.reduce(masks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The requested range; None for no bound."""

    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
