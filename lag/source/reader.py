"""Read one task into Arrow batches of the requested table; this runs on a worker.

The table `walk` holds what a report needs of the headers (problems, elections, voters, batches and
log ends), so that a report reads and checks each byte once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from lag.source import files
from lag.source.append_time_index import NONE, AppendTimes, check_index
from lag.source.batches import (
    ROWS,
    batch_packs,
    batch_rows,
    columns_of,
    rows_batch,
    times_of,
)
from lag.source.byte_ranges import ValidBatches
from lag.source.log_data import log_data_rows
from lag.source.options import Options
from lag.source.planner import slices_in
from lag.source.problems import APPEND_TIMES, SNAPSHOT, UNREADABLE, Problem
from lag.source.record_rows import RECORDS_AT_ONCE, RecordRows, control_rows
from lag.source.replicas import indexed_runs, replica_row
from lag.source.runs import Run, joined, runs_of
from lag.source.scan import (
    BatchRun,
    Bounds,
    Headers,
    Lost,
    UnknownEnd,
    Unread,
    grown_within,
    rows_wanted,
    scan,
)
from lag.source.schemas import ASSIGNMENTS, EPOCHS, MARK_MISSING, Table
from lag.source.tasks import FoundProblems, Mark, ReplicaFolder, Share, Slice, Task
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
        read_checkpoint(Path(part.path), files.read_by(part.path))
    except StorageError as error:
        yield Problem(part.path, None, None, SNAPSHOT, files.with_path(error, part.path))


def _index_problems(part: Slice, end: int) -> Iterator[Problem]:
    assert part.index is not None
    judged = check_index(part.index, part.base)
    if judged.problem is not None:
        yield Problem(part.index, None, part.base, APPEND_TIMES, judged.problem)
    if judged.unsound:
        reason = f"damaged entries: {judged.unsound}; the times there are unknown"
        yield Problem(part.index, None, part.base, APPEND_TIMES, reason)
    if judged.end is not None and not part.is_newest and judged.end > end:
        reason = f"it speaks of offsets up to {judged.end}, its segment ends at {end}"
        yield Problem(part.index, None, end, APPEND_TIMES, reason)


BATCHES_KIND: Final = "batches"
RUNS_KIND: Final = "runs"
INDEXED_KIND: Final = "indexed"
UNKNOWN_END_KIND: Final = "unknown_end"
Row = dict[str, Any]


def read_runs(task: Task, options: Options) -> Iterator[Any]:
    """The rows of a task of the table `walk`, as `pyarrow.RecordBatch`es."""
    match task:
        case FoundProblems():
            rows = [_problem(replica, problem) for replica, problem in task.problems]
            yield rows_batch(options.shown, rows)
        case ReplicaFolder():
            row = replica_row(task, options.settle_ms)
            runs = (
                _walk_row(INDEXED_KIND, task.replica, it._asdict()) for it in indexed_runs(task)
            )
            yield rows_batch(options.shown, [_walk_row("replicas", task.replica, row), *runs])
        case Share():
            for part in slices_in(task, options):
                yield from _walk_slice(part, options)
        case Slice() if task.is_borrowed:
            yield from _walk_borrowed(task, options)
        case Slice():
            yield from _walk_slice(task, options)
        case _:
            raise AssertionError("the table walk is not streamed")


def _walk_borrowed(part: Slice, options: Options) -> Iterator[Any]:
    """The batches that a replica lost, from another copy, with the times that its index has."""
    for found in _pieces(part, options):
        assert not isinstance(found, Mark), "the table walk is not streamed"
        packs, runs = _batches_of(part, found[1], [], options)
        rows = [*packs, *(_walk_row(RUNS_KIND, part.replica, run._asdict()) for run in runs)]
        yield rows_batch(options.shown, rows)


def _walk_slice(part: Slice, options: Options) -> Iterator[Any]:
    end, runs = part.base, list[Run]()
    for found in scan(part, settle_ms=options.settle_ms):
        rows: list[Row] = []
        match found:
            case Problem():
                rows.append(_problem(part.replica, found))
            case Unread(headers) if part.source == "log":
                runs.append(_unread(part, headers))
            case UnknownEnd():
                rows.append(_walk_row(UNKNOWN_END_KIND, part.replica, {"replica": part.replica}))
            case BatchRun(sound, headers):
                end = max(end, int(headers.last_offset[-1]) + 1)
                control = list(_control_rows_of(part, sound, headers))
                rows += _of_piece(part, sound, headers, control, options)
                if part.source == "log":
                    packs, more = _batches_of(part, headers, _elections(control), options)
                    rows += packs
                    runs = joined((*runs, *more))
            case _:
                pass
        if rows:
            yield rows_batch(options.shown, rows)
    rows = [_problem(part.replica, problem) for problem in end_problems(part, end)]
    rows += [_walk_row(RUNS_KIND, part.replica, run._asdict()) for run in runs]
    if rows:
        yield rows_batch(options.shown, rows)


def _batches_of(
    part: Slice, headers: Headers, elections: list[int], options: Options
) -> tuple[list[Row], list[Run]]:
    """The packs and the runs of these batches; `elections` are the offsets of leaders' records."""
    times = times_of(part, headers)
    batches = batch_rows(ROWS, part, headers, times)
    packs = batch_packs(part.replica, batches, options.chunk_offsets)
    runs = runs_of(
        part.replica,
        columns_of(batches),
        path=part.path,
        position=headers.position,
        end_position=headers.position + headers.size,
        elects=np.isin(headers.base_offset, elections),
        crc=headers.crc,
    )
    judged = (
        run._replace(said_by_index=times.says(run.first, run.end, run.epoch))
        if run.batches == 1
        else run
        for run in runs
    )
    return [{"kind": BATCHES_KIND, **pack} for pack in packs], list(judged)


def _unread(part: Slice, headers: Headers) -> Run:
    position, size = int(headers.position[0]), int(headers.size[0])
    return Run(
        replica=part.replica,
        epoch=int(headers.epoch[0]),
        first=int(headers.base_offset[0]),
        end=int(headers.last_offset[0]) + 1,
        batches=0,
        path=part.path,
        position=position,
        end_position=position + size,
        crc=int(headers.crc[0]),
    )


ControlRow = tuple[Table, Row]
"""A row of one of the tables made from control records."""


def _control_rows_of(part: Slice, sound: ValidBatches, headers: Headers) -> Iterator[ControlRow]:
    if headers.is_control.any():
        for table in (EPOCHS, ASSIGNMENTS):
            rows, _ = control_rows(table.in_ms, part, sound, headers.only(headers.is_control))
            for row in [] if rows is None else rows.to_pylist():
                yield table, row


def _elections(control: list[ControlRow]) -> list[int]:
    return [row["start_offset"] for table, row in control if table is EPOCHS]


def _of_piece(
    part: Slice,
    sound: ValidBatches,
    headers: Headers,
    control: list[ControlRow],
    options: Options,
) -> Iterator[Row]:
    for problem in record_problems(part, sound, headers, deep=options.deep):
        yield _problem(part.replica, problem)
    for table, row in control:
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
        case Share():
            for part in slices_in(task, options):
                yield from _slice(part, options)
        case Slice():
            yield from _slice(task, options)


def _slice(part: Slice, options: Options) -> Iterator[Any]:
    match options.table.name:
        case "batches":
            yield from _batches(part, options)
        case "records" | "packs":
            yield from _records(part, options)
        case "log_data":
            yield from _log_data(part, options)
        case "epochs" | "assignments":
            yield from _control(part, options)
        case "problems":
            found = ((part.replica, problem) for problem in problems_of(part, options))
            yield from _problem_batches(options, found)
        case name:
            raise AssertionError(f"the table {name} has no slices")


def _pieces(part: Slice, options: Options) -> Iterator[tuple[ValidBatches, Headers] | Mark]:
    """The requested batches; in a stream also marks for lost offsets."""
    bounds = _bounds(part, options)
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
    end = _offsets(part, options)[1]
    return part.source == "log" and end is not None and last >= end


def _bounds(part: Slice, options: Options) -> Bounds:
    first, end = _offsets(part, options)
    return Bounds(
        since_ms=options.since_ms, until_ms=options.until_ms, from_offset=first, to_offset=end
    )


def _offsets(part: Slice, options: Options) -> tuple[int | None, int | None]:
    """The bounds of the requested offsets; None for no bound."""
    return (options.from_offset, options.to_offset) if part.wanted is None else part.wanted


def _batches(part: Slice, options: Options) -> Iterator[Any]:
    shown = options.shown
    wants_times = not {"local_append_ms", "local_append_time"}.isdisjoint(options.columns)
    for found in _pieces(part, options):
        if isinstance(found, Mark):
            yield _mark_row(options, found)
            continue
        _, headers = found
        times = _times(part, headers, options) if wants_times else NONE
        yield batch_rows(shown, part, headers, times)


def _log_data(part: Slice, options: Options) -> Iterator[Any]:
    for found in _pieces(part, options):
        if isinstance(found, Mark):
            yield _mark_row(options, found)
            continue
        sound, headers = found
        _times(part, headers, options)
        yield rows_batch(options.shown, log_data_rows(part, sound, headers))


def _times(part: Slice, headers: Headers, options: Options) -> AppendTimes:
    """The append times of batches. A stream returns each batch once, so it waits for its times,
    which are written just after the log."""
    times = times_of(part, headers)
    if part.index is None or part.span is None:
        return times
    has_grown = grown_within(partial(files.size_or_0, part.index), options.settle_ms)
    while not times.reaches(int(headers.last_offset[-1])) and has_grown(times.size_bytes):
        times = times_of(part, headers)
    return times


def _records(part: Slice, options: Options) -> Iterator[Any]:
    def take(rows: RecordRows) -> Any:
        bounds = _offsets(part, options)
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
