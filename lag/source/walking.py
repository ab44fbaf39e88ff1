"""The table `walk`: whatever one walk through the files comes by, for whoever wants all of it.

Problems, elections, voters, batches and the ends of the logs are told of the same headers. A report
wants all of them, and reads and checks each byte once for it.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lag.source.arrow_columns import rows_batch
from lag.source.batch_packs import ROWS, batch_packs, columns_of, merged, spans_of
from lag.source.batch_rows import batch_rows, times_of
from lag.source.header_columns import Headers
from lag.source.options import Options
from lag.source.problem_finding import end_problems, record_problems
from lag.source.problem_rows import Problem
from lag.source.ranges import Sound
from lag.source.record_rows import control_rows
from lag.source.replica_rows import replica_row
from lag.source.scanning import Piece, scan
from lag.source.slices import ReplicaFolder, Slice, Task, Told
from lag.tables import ASSIGNMENTS, EPOCHS, Table

BATCHES_KIND: Final = "batches"
SPANS_KIND: Final = "spans"
Row = dict[str, Any]


def walk(task: Task, options: Options) -> Iterator[Any]:
    """The rows of a task, as `pyarrow.RecordBatch`es."""
    match task:
        case Told():
            rows = [_problem(replica, problem) for replica, problem in task.problems]
            yield rows_batch(options.shown, rows)
        case ReplicaFolder():
            row = replica_row(task, options.settle_ms)
            yield rows_batch(options.shown, [_said("replicas", task.replica, row)])
        case Slice():
            yield from _slice(task, options)
        case _:
            raise AssertionError("the table walk is not streamed")


def _slice(part: Slice, options: Options) -> Iterator[Any]:
    end, spans = part.base, list[Row]()
    for found in scan(part, settle_ms=options.settle_ms):
        rows: list[Row] = []
        match found:
            case Problem():
                rows.append(_problem(part.replica, found))
            case Piece(sound, headers):
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
    rows += [_said(SPANS_KIND, part.replica, span) for span in spans]
    if rows:
        yield rows_batch(options.shown, rows)


def _of_piece(part: Slice, sound: Sound, headers: Headers, options: Options) -> Iterator[Row]:
    for problem in record_problems(part, sound, headers, deep=options.deep):
        yield _problem(part.replica, problem)
    if headers.is_control.any():
        for table in (EPOCHS, ASSIGNMENTS):
            yield from _control(table, part, sound, headers.only(headers.is_control))


def _control(table: Table, part: Slice, sound: Sound, headers: Headers) -> Iterator[Row]:
    rows, _ = control_rows(table, part, sound, headers)
    for row in [] if rows is None else rows.to_pylist():
        yield _said(table.name, part.replica, row)


def _problem(replica: str, problem: Problem) -> Row:
    return _said("problems", replica, {"replica": replica or None, **problem._asdict()})


def _said(table: str, replica: str, row: Row) -> Row:
    return {"kind": table, "replica": replica, "said": msgspec.json.encode(row).decode()}
