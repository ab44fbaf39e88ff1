"""One task into Arrow batches: what a worker does with a slice, whichever table is wanted."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from lag.source.arrow_columns import rows_batch
from lag.source.batch_rows import batch_rows, times_of
from lag.source.header_columns import Headers
from lag.source.index_columns import NONE, AppendTimes
from lag.source.options import Options
from lag.source.problem_finding import problems_of
from lag.source.problem_rows import UNREADABLE, Problem
from lag.source.ranges import Sound
from lag.source.record_rows import RECORDS_AT_ONCE, RecordRows, control_rows
from lag.source.replica_rows import replica_row
from lag.source.scanning import Bounds, Lost, Piece, rows_wanted, scan
from lag.source.slices import Mark, ReplicaFolder, Slice, Task, Told
from lag.source.waiting import grown_within
from lag.source.walking import walk
from lag.tables import MARK_MISSING

PROBLEM_ROWS_AT_ONCE: Final = 1_024


def read(task: Task, options: Options) -> Iterator[Any]:
    """The rows of the wanted table that this task has, as `pyarrow.RecordBatch`es."""
    if options.table.name == "walk":
        yield from walk(task, options)
        return
    match task:
        case Told():
            if options.table.name == "problems":
                yield from _problem_batches(options, task.problems)
        case Mark():
            yield _mark_row(options, task)
        case ReplicaFolder():
            yield rows_batch(options.shown, [replica_row(task, options.settle_ms)])
        case Slice():
            yield from _slice(task, options)


def _slice(part: Slice, options: Options) -> Iterator[Any]:
    match options.table.name:
        case "batches":
            yield from _batches(part, options)
        case "records" | "packs":
            yield from _records(part, options)
        case "epochs" | "assignments":
            yield from _control(part, options)
        case "problems":
            told = ((part.replica, problem) for problem in problems_of(part, options))
            yield from _problem_batches(options, told)
        case name:
            raise AssertionError(f"the table {name} has no slices")


def _pieces(part: Slice, options: Options) -> Iterator[tuple[Sound, Headers] | Mark]:
    """The batches that are asked for; in a stream, marks where something is lost."""
    bounds = _bounds(options)
    for found in scan(part, settle_ms=options.settle_ms):
        match found:
            case Piece(sound, headers):
                wanted = rows_wanted(headers, part, bounds)
                if wanted is None or wanted.all():
                    yield sound, headers
                elif wanted.any():
                    yield sound, headers.only(wanted)
                if _is_over(headers, part, options):
                    return
            case Lost(low, high, epoch) if part.span is not None:
                low, high = max(low, part.span.low), min(high, part.span.high)
                if low < high:
                    yield Mark(
                        replica=part.replica,
                        path=part.path,
                        mark=MARK_MISSING,
                        low=low,
                        high=high,
                        epoch=epoch,
                        generation=part.generation,
                    )
            case Problem() if found.kind == UNREADABLE and part.span is not None:
                # A stream that went on would never tell what is in there.
                raise OSError(f"{found.path}: {found.reason}")
            case _:
                pass


def _is_over(headers: Headers, part: Slice, options: Options) -> bool:
    """Whether nothing that is wanted can follow: offsets of a log rise."""
    last = int(headers.last_offset[-1]) + 1
    if part.span is not None:
        return last >= part.span.high
    return part.source == "log" and options.to_offset is not None and last >= options.to_offset


def _bounds(options: Options) -> Bounds:
    return Bounds(
        since_ms=options.since_ms,
        until_ms=options.until_ms,
        from_offset=options.from_offset,
        to_offset=options.to_offset,
    )


def _batches(part: Slice, options: Options) -> Iterator[Any]:
    shown = options.shown
    wants_times = "local_append_ms" in options.columns
    for found in _pieces(part, options):
        if isinstance(found, Mark):
            yield _mark_row(options, found)
            continue
        _, headers = found
        times = _times(part, headers, options) if wants_times else NONE
        yield batch_rows(shown, part, headers, times)


def _times(part: Slice, headers: Headers, options: Options) -> AppendTimes:
    """The append times of batches. What a stream tells once is told with its times: they come just
    behind the log, and are waited for as an end is that is not whole."""
    times = times_of(part, headers)
    if part.index is None or part.span is None:
        return times
    has_grown = grown_within(part.index, options.settle_ms)
    while not times.reaches(int(headers.last_offset[-1])) and has_grown(times.size_bytes):
        times = times_of(part, headers)
    return times


def _records(part: Slice, options: Options) -> Iterator[Any]:
    def take(rows: RecordRows) -> Any:
        bounds = (options.from_offset, options.to_offset)
        if options.table.name == "packs":
            return rows.packs(options.shown, options.shares, *bounds)
        return rows.take(options.shown, *bounds)

    for found in _pieces(part, options):
        if isinstance(found, Mark):
            yield _mark_row(options, found)
            continue
        sound, headers = found
        rows = RecordRows(part, _json(options))
        for position in headers.position.tolist():
            rows.add(sound, position)
            if len(rows) >= RECORDS_AT_ONCE:
                yield take(rows)
                rows = RecordRows(part, _json(options))
        if len(rows):
            yield take(rows)


def _json(options: Options) -> str:
    wanted = options.table.name == "packs" or "json" in options.columns
    return options.json if wanted else "false"


def _control(part: Slice, options: Options) -> Iterator[Any]:
    for found in _pieces(part, options):
        if isinstance(found, Mark):
            yield _mark_row(options, found)
            continue
        sound, headers = found
        if headers.is_control.any():
            rows, _ = control_rows(options.shown, part, sound, headers.only(headers.is_control))
            if rows is not None:
                yield rows


def _problem_batches(options: Options, problems: Iterable[tuple[str, Problem]]) -> Iterator[Any]:
    rows: list[dict[str, Any]] = []
    for replica, problem in problems:
        rows.append({"replica": replica or None, **problem._asdict()})
        if len(rows) >= PROBLEM_ROWS_AT_ONCE:
            yield rows_batch(options.shown, rows)
            rows = []
    if rows:
        yield rows_batch(options.shown, rows)


def _mark_row(options: Options, mark: Mark) -> Any:
    """The row that says what became of a stretch; of its other columns only these are known."""
    last = mark.high - 1
    row = {**asdict(mark), "base_offset": mark.low, "last_offset": last, "offset": mark.low}
    return rows_batch(options.shown, [{**row, "start_offset": mark.low, "source": "log"}])
