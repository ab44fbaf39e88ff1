"""Find the batches whose offset or epoch is wrong although their checksum is right.

No checksum covers the base offset and the epoch of a batch, because a leader stamps them. A flipped
bit there puts a valid batch into a wrong place, where it contradicts

- the batches around it: the offsets of a log follow each other, epochs never fall, and each epoch
  begins with the record of its leader;
- the same batch in another copy, which has the same checksum;
- the index of append times.

A batch that contradicts them is not used. A single batch between damage is used only if one of them
confirms its offset and its epoch. A sound log has no contradiction, and all of it is used. Plain
values, no Spark.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from lag.source.runs import Run, is_continued
from quorum.log.segment import segment_base

RECORD_BYTES_MIN: Final = 7
"""The size of the smallest record in a batch."""
WEIGHED_MAX: Final = 64
"""The runs in conflict with each other that are weighed against each other in every way."""


OffsetAndEpoch = tuple[int, int]


class Believed(NamedTuple):
    """The runs of all copies, divided."""

    runs: tuple[Run, ...]
    """Those in place, by replica and in the order of the offsets."""
    confirmed: tuple[Run, ...] = ()
    """Single batches between damage that are in place, because another copy has this epoch at these
    offsets. They supply nothing, since that copy does."""
    outvoted: tuple[Run, ...] = ()
    """Single batches with another epoch in other copies, or in the index of append times."""
    in_conflict: tuple[Run, ...] = ()
    """Batches that cannot be between those around them: their offset or epoch is wrong."""
    unconfirmed: tuple[Run, ...] = ()
    """Single batches between damage, of which only their own header says where they belong."""
    unread: tuple[Run, ...] = ()
    """Offsets that a copy holds although their content is lost, from headers that fit their place,
    or from the size of a batch whose header is wrong."""


class _Block(NamedTuple):
    """Runs of one copy that continue each other, also from one file to the next."""

    parts: tuple[Run, ...]

    @property
    def replica(self) -> str:
        return self.parts[0].replica

    @property
    def first(self) -> int:
        return self.parts[0].first

    @property
    def end(self) -> int:
        return self.parts[-1].end

    @property
    def epoch(self) -> int:
        return self.parts[0].epoch

    @property
    def elects(self) -> bool:
        return self.parts[0].elects

    @property
    def weight(self) -> int:
        """The number of batches that agree."""
        return sum(part.batches for part in self.parts)

    @property
    def is_read(self) -> bool:
        """False for a damaged batch with a legible header."""
        return self.parts[0].batches > 0

    @property
    def is_lone(self) -> bool:
        """True for a single batch: nothing but its own header says its epoch."""
        return self.weight == 1

    @property
    def said_by_index(self) -> bool | None:
        """The word of the index of append times about a single batch."""
        return self.parts[0].said_by_index if self.is_lone else None

    @property
    def content(self) -> tuple[int, int]:
        """The identity of its first batch, without its epoch."""
        return self.first, self.parts[0].crc


class _Copies:
    """The first batches of the blocks of all copies: the same batch has the same checksum. And the
    ends of snapshots."""

    def __init__(
        self, blocks: Iterable[_Block], committed: Collection[OffsetAndEpoch] = ()
    ) -> None:
        self._votes: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self._replicas: dict[tuple[int, int], set[tuple[str, int]]] = defaultdict(set)
        for block in blocks:
            if block.said_by_index is not False:
                votes = max(1, block.weight) + 2 * (block.said_by_index is True)
                self._votes[block.content][block.epoch] += votes
                self._replicas[block.content].add((block.replica, block.epoch))

        self._committed = sorted(set(committed))

    def committed(self, block: _Block) -> bool:
        """True if a snapshot confirms its epoch: it ends within the batch, or just before."""
        at = bisect_left(self._committed, (block.first, 0))
        for offset, epoch in self._committed[at:]:
            if offset > block.end:
                return False
            begins = block.elects and offset == block.first and epoch < block.epoch
            if begins or epoch == block.epoch:
                return True
        return False

    def confirm(self, block: _Block) -> bool:
        """True if another copy has the batch at the same place."""
        return any(
            replica != block.replica and epoch == block.epoch
            for replica, epoch in self._replicas.get(block.content, ())
        )

    def outvote(self, block: _Block) -> bool:
        """True if the batch has another epoch in other copies, with as many batches or more."""
        votes: Mapping[int, int] = self._votes.get(block.content, {})
        others = [count for epoch, count in votes.items() if epoch != block.epoch]
        return bool(others) and max(others) >= votes[block.epoch]


def believed(runs: Iterable[Run], committed: Collection[OffsetAndEpoch] = ()) -> Believed:
    """Divide the runs of all copies; they may be in any order.

    `committed` are the ends of snapshots, each with the epoch of the record before it.
    """
    of_replicas: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        of_replicas[run.replica].append(run)
    copies = [_blocks(own) for own in of_replicas.values()]
    # Batches that were not read from files have neither a place nor a checksum.
    known = _Copies(
        (block for blocks in copies for block in blocks if block.parts[0].path), committed
    )
    found = _Divided([], [], [], [], [])
    for blocks in copies:
        if blocks[0].parts[0].path is None:
            found.kept.extend(blocks)
        else:
            _divide(blocks, known, found)
    kept, outvoted, in_conflict, unconfirmed, unread = (
        tuple(part for block in each for part in block.parts) for each in found
    )
    confirmed = tuple(_confirmed(unconfirmed, kept))
    taken = set(confirmed)
    left = tuple(run for run in unconfirmed if run not in taken)
    return Believed(kept, confirmed, outvoted, in_conflict, left, unread)


class _Divided(NamedTuple):
    kept: list[_Block]
    outvoted: list[_Block]
    in_conflict: list[_Block]
    unconfirmed: list[_Block]
    unread: list[_Block]


def _divide(blocks: Sequence[_Block], known: _Copies, found: _Divided) -> None:
    outvoted = {
        at
        for at, block in enumerate(blocks)
        if block.is_lone and (block.said_by_index is False or known.outvote(block))
    }
    in_conflict = set(_in_conflict(blocks, known)) - outvoted
    wrong = outvoted | in_conflict
    left = [block for at, block in enumerate(blocks) if at not in wrong]
    unconfirmed: set[_Block] = set()
    for at, block in enumerate(left):
        if not block.is_read:
            found.unread.append(block)
        elif not block.is_lone or _is_confirmed(left, at, known):
            found.kept.append(block)
        else:
            found.unconfirmed.append(block)
            unconfirmed.add(block)
    found.outvoted.extend(blocks[at] for at in sorted(outvoted) if blocks[at].is_read)
    found.in_conflict.extend(blocks[at] for at in sorted(in_conflict) if blocks[at].is_read)
    placed = [block for block in left if block not in unconfirmed]
    last = placed[-1].parts[-1] if placed else None
    for block in blocks[blocks.index(placed[-1]) + 1 :] if placed else blocks:
        found.unread.extend(_place_at_end(last, block, is_known=block in unconfirmed))


def _confirmed(unconfirmed: Iterable[Run], kept: Iterable[Run]) -> Iterator[Run]:
    """The single batches at whose offsets another copy has the same epoch."""
    of_epochs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in sorted(kept, key=attrgetter("first")):
        of_epochs[run.replica, run.epoch].append(run)
    replicas = list(dict.fromkeys(run.replica for run in kept))
    for run in unconfirmed:
        for replica in (each for each in replicas if each != run.replica):
            others = of_epochs.get((replica, run.epoch), [])
            at = bisect_right(others, run.first, key=attrgetter("first")) - 1
            if at >= 0 and run.end <= others[at].end:
                yield run
                break


def _place_at_end(last: Run | None, block: _Block, *, is_known: bool) -> Iterator[_Block]:
    """The place of batches at the end of a copy that are not believed, as far as it is certain.

    `last` is the end of what is believed. `is_known` says that nothing contradicts the epoch.
    """
    run = block.parts[0]
    first = run.first
    if last is not None and (last.path, last.end_position) == (run.path, run.position):
        first = last.end
    elif run.position == 0:
        first = _name_of(run)
    elif not _is_possible_after(last, run):
        return
    epoch = run.epoch
    if first == run.first and not is_known:
        # Its offset is right, so its epoch is wrong.
        epoch = 0 if last is None else last.epoch + run.elects
    if last is None or first >= last.end:
        end = first + block.end - block.first
        yield _Block((run._replace(first=first, end=end, epoch=epoch, batches=0),))


def _is_possible_after(last: Run | None, run: Run) -> bool:
    """True if the damaged bytes before a run have room for the records that are missing there."""
    if last is not None and run.path == last.path:
        end, size = last.end, run.position - last.end_position
    else:
        end, size = _name_of(run), run.position
    return end <= run.first <= end + size // RECORD_BYTES_MIN


def _name_of(run: Run) -> int:
    """The offset in the name of the file."""
    base = None if run.path is None else segment_base(Path(run.path).name)
    return -1 if base is None else base


def _blocks(runs: Sequence[Run]) -> list[_Block]:
    """The blocks of one copy, in the order of its files.

    Files are ordered by what most of their batches say, and not by their names, which may be wrong;
    a single batch says too little.
    """
    by_file = sorted(runs, key=lambda run: (run.path or "", run.position, run.first))
    files = [list(own) for _, own in groupby(by_file, attrgetter("path"))]
    files.sort(key=_order)
    found: list[list[Run]] = []
    for run in (run for own in files for run in own):
        if found and is_continued(found[-1][-1], run):
            found[-1].append(run)
        else:
            found.append([run])
    return [_Block(tuple(parts)) for parts in found]


def _order(runs: Sequence[Run]) -> int:
    most = max(runs, key=attrgetter("batches"))
    return most.first if most.batches > 1 or most.path is None else _name_of(most)


def _in_conflict(blocks: Sequence[_Block], known: _Copies) -> Iterator[int]:
    """The places of the blocks that cannot all be right, without those that outweigh the others."""
    conflicts = [at for at, pair in enumerate(pairwise(blocks)) if not _agree(*pair)]
    for low, high in _stretches(conflicts, len(blocks)):
        window = blocks[low:high]
        weights = [
            4 * max(1, block.weight)
            + known.confirm(block)
            + (block.said_by_index is True)
            + _is_first_of_file(block)
            for block in window
        ]
        if len(window) > WEIGHED_MAX:
            kept = {at for at, block in enumerate(window) if not block.is_lone}
        else:
            kept = _heaviest(window, weights)
        yield from (low + at for at in range(len(window)) if at not in kept)


def _stretches(conflicts: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
    """The places [low, high) of blocks that are in conflict, each with a neighbour more."""
    low = high = None
    for at in conflicts:
        if high is not None and low is not None and at > high:
            yield low, min(count, high + 1)
            low = None
        low = max(0, at - 1) if low is None else low
        high = at + 2
    if low is not None and high is not None:
        yield low, min(count, high + 1)


def _agree(block: _Block, following: _Block) -> bool:
    """True if the two can be neighbours in a log."""
    last, first = block.parts[-1], following.parts[0]
    if block.end == following.first:
        if following.epoch > block.epoch:
            return following.elects or not following.is_read
        return following.epoch == block.epoch and not following.elects
    is_torn = (last.path, last.end_position) != (first.path, first.position)
    return is_torn and block.end < following.first and block.epoch <= following.epoch


def _can_follow(block: _Block, later: _Block) -> bool:
    """True if the other can be a later part of the same log."""
    return block.end <= later.first and block.epoch <= later.epoch


def _heaviest(blocks: Sequence[_Block], weights: Sequence[int]) -> set[int]:
    """The places of the blocks that are in each of the heaviest logs that can be made of them."""
    fits = {
        (one, other): _agree(blocks[one], blocks[other])
        if other == one + 1
        else _can_follow(blocks[one], blocks[other])
        for other in range(len(blocks))
        for one in range(other)
    }

    def most(without: int | None) -> int:
        best: list[int] = []
        for at in range(len(blocks)):
            before = max((best[one] for one in range(at) if fits[one, at]), default=0)
            best.append(-(1 << 62) if at == without else weights[at] + max(0, before))
        return max(best, default=0)

    whole = most(None)
    return {at for at in range(len(blocks)) if most(at) < whole}


def _is_confirmed(blocks: Sequence[_Block], at: int, known: _Copies) -> bool:
    """True if something besides its own header says the offset and the epoch of a single batch."""
    block = blocks[at]
    if block.said_by_index is True or known.confirm(block):
        return True
    before = blocks[at - 1] if at else None
    after = blocks[at + 1] if at + 1 < len(blocks) else None
    follows = before is not None and before.end == block.first
    is_followed = after is not None and after.first == block.end
    begins = _is_first_of_file(block)
    if not (follows or is_followed or begins):
        return False
    # A new leader's record may be the only batch of its epoch, and the first batch of a log that
    # was cut the last of its epoch.
    is_first = block.elects and (follows or block.first == 0)
    is_last = before is None and begins and is_followed
    epochs = {each.epoch for each in (before, after) if each is not None}
    return is_first or is_last or block.epoch in epochs or known.committed(block)


def _is_first_of_file(block: _Block) -> bool:
    """True if the name of its file says its offset."""
    run = block.parts[0]
    return run.position == 0 and _name_of(run) == block.first
