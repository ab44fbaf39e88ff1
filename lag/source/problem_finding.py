"""Everything that is wrong in a slice: with its batches, its records, and what is beside them."""

from collections.abc import Iterator
from pathlib import Path

from lag.source.header_columns import Headers
from lag.source.index_columns import judge_index
from lag.source.options import Options
from lag.source.problem_rows import APPEND_TIMES, SNAPSHOT, Problem
from lag.source.ranges import Sound
from lag.source.record_rows import RECORDS_AT_ONCE, RecordRows
from lag.source.scanning import Piece, scan
from lag.source.slices import Slice
from quorum.log.checkpoint import read_checkpoint
from quorum.log.errors import StorageError


def problems_of(part: Slice, options: Options) -> Iterator[Problem]:
    """Everything that is wrong in a slice."""
    end = part.base
    for found in scan(part, settle_ms=options.settle_ms):
        match found:
            case Problem():
                yield found
            case Piece(sound, headers):
                end = max(end, int(headers.last_offset[-1]) + 1)
                yield from record_problems(part, sound, headers, deep=options.deep)
            case _:
                pass
    yield from end_problems(part, end)


def end_problems(part: Slice, end: int) -> Iterator[Problem]:
    """What is wrong beside the batches of a slice that end at the offset `end`."""
    if part.low == 0 and part.source == "snapshot":
        yield from _snapshot_problems(part)
    if part.is_last and part.index is not None:
        yield from _index_problems(part, end)


def record_problems(
    part: Slice, sound: Sound, headers: Headers, *, deep: bool
) -> Iterator[Problem]:
    """What is wrong with the records of these batches: all, or those that nobody else looks into.

    Control batches and compressed ones are few: these are always looked into.
    """
    if not deep:
        headers = headers.only(headers.is_control | (headers.codec != 0))
    rows = RecordRows(part, "false")
    for position in headers.position.tolist():
        rows.add(sound, position)
        if len(rows) >= RECORDS_AT_ONCE:
            yield from rows.undecoded()
            rows = RecordRows(part, "false")
    yield from rows.undecoded()


def _snapshot_problems(part: Slice) -> Iterator[Problem]:
    try:
        read_checkpoint(Path(part.path))
    except StorageError as error:
        yield Problem(part.path, None, None, SNAPSHOT, str(error))


def _index_problems(part: Slice, end: int) -> Iterator[Problem]:
    assert part.index is not None
    judged = judge_index(part.index, part.base)
    if judged.problem is not None:
        yield Problem(part.index, None, part.base, APPEND_TIMES, judged.problem)
    if judged.unsound:
        reason = f"{judged.unsound} of its entries are damaged: nobody knows the times there"
        yield Problem(part.index, None, part.base, APPEND_TIMES, reason)
    if judged.end is not None and not part.is_newest and judged.end > end:
        reason = f"it speaks of offsets up to {judged.end}, its segment ends at {end}"
        yield Problem(part.index, None, end, APPEND_TIMES, reason)
