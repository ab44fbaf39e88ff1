"""The table `log_data`: the bytes of consecutive batches, and where they are in the log.

An archive keeps these rows; put back at their places they are the log again. So nothing that a
report can tell from a log is lost, and later versions can tell more from old rows.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np

from lag.source.append_time_index import entries_of
from lag.source.byte_ranges import ValidBatches
from lag.source.scan import Headers
from lag.source.tasks import Slice

DAY_MS: Final = 86_400_000
TIMES_END_MS: Final = 253_402_300_800_000
"""The year 10000: a later time has no date."""


def log_data_rows(part: Slice, sound: ValidBatches, headers: Headers) -> list[dict[str, Any]]:
    """A row for each stretch of these batches without a gap that is of one day."""
    return list(_rows(part, sound, headers))


def _rows(part: Slice, sound: ValidBatches, headers: Headers) -> Iterator[dict[str, Any]]:
    days = _days(headers.max_timestamp_ms)
    ends = headers.position + headers.size
    is_cut = (headers.position[1:] != ends[:-1]) | (days[1:] != days[:-1])
    cuts = [0, *(np.nonzero(is_cut)[0] + 1).tolist(), len(days)]
    for begin, behind in pairwise(cuts):
        position, end = int(headers.position[begin]), int(ends[behind - 1])
        first, last = int(headers.base_offset[begin]), int(headers.last_offset[behind - 1])
        found = None if part.index is None else entries_of(part.index, part.base, first, last)
        yield {
            "replica": part.replica,
            "path": part.path,
            "position": position,
            "base_offset": first,
            "last_offset": last,
            "epoch": int(headers.epoch[begin]),
            "day": None if days[begin] < 0 else date_of(int(days[begin]) * DAY_MS),
            "bytes": end - position,
            "data": sound.data[position - sound.origin : end - sound.origin],
            "index_position": None if found is None else found.position,
            "index": None if found is None else found.data,
            "generation": part.generation,
        }


def _days(times_ms: Any) -> Any:
    """The day of each batch; a batch without a time is of the day before it, or behind it."""
    days = np.where((times_ms < 0) | (times_ms >= TIMES_END_MS), -1, times_ms // DAY_MS)
    known = np.nonzero(days >= 0)[0]
    if not len(known):
        return days
    places = np.searchsorted(known, np.arange(len(days)), side="right") - 1
    return days[known[np.maximum(places, 0)]]


def date_of(time_ms: int) -> str:
    """The UTC date of a moment, such as 2026-03-01."""
    return datetime.fromtimestamp(time_ms / 1_000, UTC).date().isoformat()
