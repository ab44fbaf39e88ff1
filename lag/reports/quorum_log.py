"""The quorum's log, put together from all copies.

Every replica has a copy. A copy may lack batches, because they are damaged or their file is lost;
that of a dead replica may end with batches that were never committed. The quorum's log is decided
as Raft decides it: a batch is known by its offset and epoch, and two logs that share one are equal
up to it. The copy whose last epoch is the highest, and whose end is the furthest of those, is the
quorum's. Another copy is as well, up to the last batch that it provably shares with what is known
so far. What is beyond may never have been committed, and is not used. A snapshot proves the last
batch before it, because it holds committed records only. A damaged batch at the end of a copy,
whose header is legible, supplies nothing, but says how far the copy went.

Offsets that no copy supplies are a *hole*. Plain values, no Spark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lag.reports import offset_ranges
from lag.reports.contradictions import Believed
from lag.reports.offset_ranges import Range
from lag.source.runs import Run
from quorum.log.checkpoint import checkpoint_id

_NO_LIMIT: Final = 1 << 62


class Piece(NamedTuple):
    """A part of one epoch of the quorum's log, and the copy that supplies it."""

    replica: str
    epoch: int
    first: int
    end: int
    """Exclusive."""
    first_ms: int | None
    """Append time of its first batch at the leader; None if it has to be looked up."""
    last_ms: int | None
    elects: bool
    """True if it begins with the record of the leader, that is, if the epoch begins with it."""


class Snapshot(NamedTuple):
    """A snapshot in the folder of a replica."""

    replica: str
    name: str
    """File name."""
    end: int
    """The end offset of the snapshot."""
    epoch: int
    """The epoch of the last record in it."""


class Hole(NamedTuple):
    """Offsets of the quorum's log that no copy supplies."""

    first: int
    end: int
    """Exclusive."""
    epoch_before: int | None
    """The epoch of the batch before; None at the start of the log."""
    epoch_after: int | None
    """The epoch of the batch after; None at the end."""
    before_ms: int | None = None
    """Append time of the batch before at the leader,"""
    after_ms: int | None = None
    """and of the batch after."""


@dataclass(frozen=True, slots=True)
class QuorumLog:
    """The quorum's log, and what each copy has of it."""

    pieces: tuple[Piece, ...]
    """In order, without overlaps."""
    holes: tuple[Hole, ...]
    """In order."""
    end: int
    """The offset after its last record."""
    shared: Mapping[str, int]
    """For each replica the offset up to which its log is the quorum's."""
    lost: Mapping[str, Sequence[Range]]
    """For each replica the offsets before that one which are not in its files."""
    reached: Mapping[str, tuple[int, int]]
    """For each replica whose files end with damaged batches, epoch and end of the last of them, as
    far as it is not in a hole at the end."""
    in_place: tuple[Run, ...]
    """The batches of all copies that are used."""
    outvoted: tuple[Run, ...]
    """Those that are not, because their epoch contradicts other copies or an index,"""
    in_conflict: tuple[Run, ...]
    """because they contradict the batches around them,"""
    unconfirmed: tuple[Run, ...]
    """and because nothing confirms their offset and epoch."""
    unread: tuple[Run, ...]
    """Damaged batches of which it is known where they belong."""
    undecided: frozenset[str]
    """Replicas with records that may be in a hole of the quorum's log, or may not be committed."""
    state: Snapshot | None
    """The snapshot with the state at the start of the log, if it does not begin at offset 0."""

    @property
    def misplaced(self) -> tuple[Run, ...]:
        """The batches that are in no report."""
        return (*self.outvoted, *self.in_conflict, *self.unconfirmed)

    @property
    def sources(self) -> frozenset[str]:
        """The replicas that supply it."""
        return frozenset(piece.replica for piece in self.pieces)


def merge(
    found: Believed,
    replicas: Sequence[Mapping[str, Any]],
    damaged: frozenset[str] = frozenset(),
    indexed: Iterable[Run] = (),
) -> QuorumLog | None:
    """Put the quorum's log together; None if no copy holds a batch.

    `replicas` are rows of the table of that name; `damaged` has the paths of files that could not
    be read completely, for snapshots. `indexed` are the runs that logs without segments had.
    """
    if not found.runs:
        return None
    in_place = (*found.runs, *found.confirmed)
    runs = _by_replica(in_place)
    snapshots = snapshots_of(replicas, damaged)
    tails = _tails(runs, found.unread)
    shared, end = _shared(runs, tails, found.unread, snapshots)
    pieces = tuple(_pieces(_by_replica(found.runs), shared, replicas))
    taken = offset_ranges.union((piece.first, piece.end) for piece in pieces)
    state = _state(snapshots, pieces[0].first, end)
    begins = pieces[0].first if state is not None else 0
    holes = tuple(_holes(pieces, offset_ranges.without(begins, end, taken)))
    inside = [run for tail in tails.values() for run in tail if run.end <= pieces[-1].end]
    own = {
        row["replica"]: max(
            (each.end for each in snapshots if each.replica == row["replica"]), default=0
        )
        for row in replicas
    }
    lost = {
        replica: list(_lost(each, shared[replica], own.get(replica, 0)))
        for replica, each in runs.items()
    }
    for replica, first, until in _of_indexes(indexed, pieces):
        if replica not in runs:
            begins = first if first <= own.get(replica, 0) else 0
            shared[replica], lost[replica] = until, [(begins, until)]
    return QuorumLog(
        pieces,
        holes,
        end,
        shared,
        lost,
        {run.replica: (run.epoch, run.end) for run in sorted(inside, key=lambda run: run.end)},
        in_place,
        found.outvoted,
        found.in_conflict,
        found.unconfirmed,
        found.unread,
        frozenset(_undecided(_by_replica((*in_place, *inside)), shared, holes)),
        state,
    )


def _by_replica(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.replica, []).append(run)
    return found


def _tails(runs: Mapping[str, Sequence[Run]], unread: Iterable[Run]) -> dict[str, list[Run]]:
    """The damaged batches behind the last one of each copy that is not damaged."""
    ends = {replica: max(run.end for run in own) for replica, own in runs.items()}
    behind = (run for run in unread if run.first >= ends.get(run.replica, _NO_LIMIT))
    return _by_replica(behind)


def snapshots_of(replicas: Iterable[Mapping[str, Any]], damaged: frozenset[str]) -> list[Snapshot]:
    """The undamaged snapshots of all replicas."""
    return [
        Snapshot(row["replica"], name, id_.offset, id_.epoch)
        for row in replicas
        for name in row["snapshots"] or ()
        if (id_ := checkpoint_id(name)) is not None and f"{row['path']}/{name}" not in damaged
    ]


def _shared(
    runs: Mapping[str, Sequence[Run]],
    tails: Mapping[str, Sequence[Run]],
    unread: Sequence[Run],
    snapshots: Sequence[Snapshot],
) -> tuple[dict[str, int], int]:
    """The offset up to which each copy is the quorum's log, and the end of the quorum's log."""
    ends = {replica: _ends(own) for replica, own in runs.items()}
    best = max(ends, key=lambda replica: max(ends[replica].items()))
    last_epoch, end = max(ends[best].items())
    # A damaged batch of a later epoch shows that what was at its offset before is given up.
    later = [run for run in unread if run.epoch > last_epoch]
    limit = min((run.first for run in later), default=_NO_LIMIT)
    end = min(end, limit)
    known = {epoch: min(until, limit) for epoch, until in ends[best].items()}
    for replica, tail in tails.items():
        ends[replica] = _ends((*runs[replica], *tail))
    for snapshot in snapshots:
        known[snapshot.epoch] = max(snapshot.end, known.get(snapshot.epoch, 0))
    shared = {**dict.fromkeys(runs, 0), best: end}
    is_over = False
    while not is_over:
        is_over = True
        for replica in runs:
            common = ends[replica].keys() & known.keys()
            until = max((min(ends[replica][each], known[each]) for each in common), default=0)
            if min(until, limit) <= shared[replica]:
                continue
            shared[replica], is_over = min(until, limit), False
            for run in runs[replica]:
                if run.first < shared[replica]:
                    proven = min(run.end, shared[replica])
                    known[run.epoch] = max(proven, known.get(run.epoch, 0))
    at_end = [run.end for run in unread if run.epoch >= last_epoch and run.end > end]
    _extend_below(runs, shared, snapshots)
    return shared, max([end, *at_end])


def _extend_below(
    runs: Mapping[str, Sequence[Run]], shared: dict[str, int], snapshots: Sequence[Snapshot]
) -> None:
    """Let other copies supply what the quorum's log deleted after a snapshot.

    They may be so old that they share no epoch with it.
    """

    def begins() -> int:
        return min(
            run.first for name, own in runs.items() for run in own if run.first < shared[name]
        )

    while any(0 < begins() <= snapshot.end for snapshot in snapshots):
        first = begins()
        reach = [
            (max((run.epoch, run.end) for run in own), name)
            for name, own in runs.items()
            if min(run.first for run in own) < first <= max(run.end for run in own)
        ]
        if not reach:
            return
        shared[max(reach)[1]] = first


def _ends(runs: Iterable[Run]) -> dict[int, int]:
    """The end of each epoch in a copy."""
    found: dict[int, int] = {}
    for run in runs:
        found[run.epoch] = max(run.end, found.get(run.epoch, 0))
    return found


def _pieces(
    runs: Mapping[str, Sequence[Run]],
    shared: Mapping[str, int],
    replicas: Iterable[Mapping[str, Any]],
) -> list[Piece]:
    """The pieces of the log, from as few copies as possible: those that have most of it first."""
    names = [row["replica"] for row in replicas if row["replica"] in runs]
    held = {
        name: offset_ranges.union(
            (run.first, min(run.end, shared[name])) for run in runs[name] if run.first < run.end
        )
        for name in names or runs
    }
    pieces: list[Piece] = []
    taken: list[Range] = []
    for name in sorted(held, key=lambda name: -offset_ranges.size(held[name])):
        for run in runs[name]:
            for first, end in offset_ranges.without(run.first, min(run.end, shared[name]), taken):
                pieces.append(_piece(run, first, end))
        taken = offset_ranges.union([*taken, *held[name]])
    return sorted(pieces, key=lambda piece: piece.first)


def _piece(run: Run, first: int, end: int) -> Piece:
    is_whole = (first, end) == (run.first, run.end)
    return Piece(
        run.replica,
        run.epoch,
        first,
        end,
        run.first_ms if is_whole else None,
        run.last_ms if is_whole else None,
        run.elects and first == run.first,
    )


def _state(snapshots: Iterable[Snapshot], begins: int, end: int) -> Snapshot | None:
    """The oldest snapshot that reaches the start of the log, if the log does not begin at 0."""
    if begins == 0:
        return None
    found = [each for each in snapshots if begins <= each.end <= end]
    return min(found, key=lambda each: (each.end, each.replica), default=None)


def _holes(pieces: Sequence[Piece], missing: Iterable[Range]) -> Iterator[Hole]:
    ends = {piece.end: piece for piece in pieces}
    begins = {piece.first: piece for piece in pieces}
    for first, end in missing:
        before, after = ends.get(first), begins.get(end)
        yield Hole(
            first,
            end,
            None if before is None else before.epoch,
            None if after is None else after.epoch,
            None if before is None else before.last_ms,
            None if after is None else after.first_ms,
        )


def _lost(runs: Iterable[Run], shared: int, snapshot_end: int) -> Iterator[Range]:
    """The offsets that a copy lost; those before a snapshot of its own were deleted."""
    held = offset_ranges.union((run.first, run.end) for run in runs)
    begins = held[0][0]
    return offset_ranges.without(0 if snapshot_end < begins else begins, shared, held)


def _of_indexes(indexed: Iterable[Run], pieces: Iterable[Piece]) -> Iterator[tuple[str, int, int]]:
    """Each log that is gone, with the offsets [first, end) that it shared with the quorum's."""
    ends = {piece.epoch: piece.end for piece in pieces}
    for replica, own in _by_replica(indexed).items():
        end = max(min(run.end, ends.get(run.epoch, 0)) for run in own)
        if end > own[0].first:
            yield replica, own[0].first, end


def _undecided(
    runs: Mapping[str, Sequence[Run]], shared: Mapping[str, int], holes: Sequence[Hole]
) -> Iterator[str]:
    for replica, own in runs.items():
        beyond = [run for run in own if run.end > shared[replica]]
        if any(run.first < hole.end and hole.first < run.end for run in beyond for hole in holes):
            yield replica
