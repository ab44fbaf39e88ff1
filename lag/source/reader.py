"""Read one task into Arrow batches of the requested table; this runs on a worker.

The table `walk` holds what a report needs of the headers (problems, elections, voters, batches and
log ends), so that a report reads and checks each byte once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec

from lag.source.append_time_index import NONE, AppendTimes, check_index
from lag.source.batches import (
    ROWS,
    batch_packs,
    batch_rows,
    columns_of,
    merged,
    rows_batch,
    spans_of,
    times_of,
)
from lag.source.byte_ranges import ValidBatches
from lag.source.options import Options
from lag.source.problems import APPEND_TIMES, SNAPSHOT, UNREADABLE, Problem
from lag.source.record_rows import RECORDS_AT_ONCE, RecordRows, control_rows
from lag.source.replicas import replica_row
from lag.source.scan import BatchRun, Bounds, Headers, Lost, grown_within, rows_wanted, scan
from lag.source.schemas import ASSIGNMENTS, EPOCHS, MARK_MISSING, Table
from lag.source.tasks import FoundProblems, Mark, ReplicaFolder, Slice, Task
from quorum.log.checkpoint import read_checkpoint
from quorum.log.errors import StorageError


def problems_of(part: Slice, options: Options) -> Iterator[Problem]:
    """The problems of a slice."""
    end = part.base
    for found in scan(part, settle_ms=options.settle_ms):
        match found:
            case Problem():
                yield found
            case BatchRun(sound, headers):
                end = max(end, int(headers.last_offset[-1]) + 1)
                yield from record_problems(part, sound, headers, deep=options.deep)
            case _:
                pass
    yield from end_problems(part, end)


def end_problems(part: Slice, end: int) -> Iterator[Problem]:
    """The problems of a snapshot or an index, for a slice whose batches end at the offset `end`."""
    if part.low == 0 and part.source == "snapshot":
        yield from _snapshot_problems(part)
    if part.is_last and part.index is not None:
        yield from _index_problems(part, end)


def record_problems(
    part: Slice, sound: ValidBatches, headers: Headers, *, deep: bool
) -> Iterator[Problem]:
    """The problems of the records of these batches.

    Without `deep` only control and compressed batches are decoded: they are few.
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
    judged = check_index(part.index, part.base)
    if judged.problem is not None:
        yield Problem(part.index, None, part.base, APPEND_TIMES, judged.problem)
    if judged.unsound:
        reason = f"{judged.unsound} of its entries are damaged: the times there are unknown"
        yield Problem(part.index, None, part.base, APPEND_TIMES, reason)
    if judged.end is not None and not part.is_newest and judged.end > end:
        reason = f"it speaks of offsets up to {judged.end}, its segment ends at {end}"
        yield Problem(part.index, None, end, APPEND_TIMES, reason)


BATCHES_KIND: Final = "batches"
SPANS_KIND: Final = "spans"
Row = dict[str, Any]


def read_runs(task: Task, options: Options) -> Iterator[Any]:
    """The rows of a task of the table `walk`, as `pyarrow.RecordBatch`es."""
    match task:
        case FoundProblems():
            rows = [_problem(replica, problem) for replica, problem in task.problems]
            yield rows_batch(options.shown, rows)
        case ReplicaFolder():
            row = replica_row(task, options.settle_ms)
            yield rows_batch(options.shown, [_walk_row("replicas", task.replica, row)])
        case Slice():
            yield from _walk_slice(task, options)
        case _:
            raise AssertionError("the table walk is not streamed")


def _walk_slice(part: Slice, options: Options) -> Iterator[Any]:
    end, spans = part.base, list[Row]()
    for found in scan(part, settle_ms=options.settle_ms):
        rows: list[Row] = []
        match found:
            case Problem():
                rows.append(_problem(part.replica, found))
            case BatchRun(sound, headers):
                end = max(end, int(headers.last_offset[-1]) + 1)
                rows += _of_piece(part, sound, headers, options)
                if part.source == "log":
                    batches = batch_rows(ROWS, part, headers, times_of(part, headers))
                    for pack in batch_packs(part.replica, batches, options.chunk_offsets):
                        rows.append({"kind": BATCHES_KIND, **pack})
                    spans = merged((*spans, *spans_of(part.replica, columns_of(batches))))
            case _:
                pass
        if rows:
            yield rows_batch(options.shown, rows)
    rows = [_problem(part.replica, problem) for problem in end_problems(part, end)]
    rows += [_walk_row(SPANS_KIND, part.replica, span) for span in spans]
    if rows:
        yield rows_batch(options.shown, rows)


def _of_piece(
    part: Slice, sound: ValidBatches, headers: Headers, options: Options
) -> Iterator[Row]:
    for problem in record_problems(part, sound, headers, deep=options.deep):
        yield _problem(part.replica, problem)
    if headers.is_control.any():
        for table in (EPOCHS, ASSIGNMENTS):
            yield from _walk_control(table, part, sound, headers.only(headers.is_control))


def _walk_control(
    table: Table, part: Slice, sound: ValidBatches, headers: Headers
) -> Iterator[Row]:
    rows, _ = control_rows(table, part, sound, headers)
    for row in [] if rows is None else rows.to_pylist():
        yield _walk_row(table.name, part.replica, row)


def _problem(replica: str, problem: Problem) -> Row:
    return _walk_row("problems", replica, {"replica": replica or None, **problem._asdict()})


def _walk_row(table: str, replica: str, row: Row) -> Row:
    return {"kind": table, "replica": replica, "said": msgspec.json.encode(row).decode()}


PROBLEM_ROWS_AT_ONCE: Final = 1_024


def read(task: Task, options: Options) -> Iterator[Any]:
    """The rows of the requested table in this task, as `pyarrow.RecordBatch`es."""
    if options.table.name == "walk":
        yield from read_runs(task, options)
        return
    match task:
        case FoundProblems():
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
            found = ((part.replica, problem) for problem in problems_of(part, options))
            yield from _problem_batches(options, found)
        case name:
            raise AssertionError(f"the table {name} has no slices")


def _pieces(part: Slice, options: Options) -> Iterator[tuple[ValidBatches, Headers] | Mark]:
    """The requested batches; in a stream also marks for lost offsets."""
    bounds = _bounds(options)
    for found in scan(part, settle_ms=options.settle_ms):
        match found:
            case BatchRun(sound, headers):
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
                # If the stream continued, it would never return these offsets.
                raise OSError(f"{found.path}: {found.reason}")
            case _:
                pass


def _is_over(headers: Headers, part: Slice, options: Options) -> bool:
    """True if nothing requested can follow; the offsets of a log rise."""
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
    """The append times of batches. A stream returns each batch once, so it waits for its times,
    which are written just after the log."""
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
    """The row of a mark; its other columns are null."""
    last = mark.high - 1
    row = {**asdict(mark), "base_offset": mark.low, "last_offset": last, "offset": mark.low}
    return rows_batch(options.shown, [{**row, "start_offset": mark.low, "source": "log"}])
