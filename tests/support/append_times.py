"""All append times of a log, from the indexes of its segments."""

from collections.abc import Iterator
from pathlib import Path

from quorum.core.vocabulary import Offset
from quorum.log.append_times import AppendTime, append_times, index_of
from quorum.log.filesystem import OS, FileSystem, usable
from quorum.log.segment import segment_base


def all_append_times(folder: Path, fs: FileSystem = OS) -> Iterator[AppendTime]:
    """Yield the entries of all indexes of a log in order; raises as `append_times` does."""
    with usable(folder):
        names = set(fs.names(folder))
    end: Offset | None = None
    for name in sorted(names):
        base = segment_base(name)
        index = index_of(folder / name)
        if base is None or index.name not in names:
            continue
        if end is not None and end < base:
            yield AppendTime(end, base, None, None)
        end = base
        for each in append_times(index, fs):
            yield each
            end = each.end
