"""Replicas whose logs are written as a node of ours writes them."""

from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Offset
from quorum.log.append_times import encode_header
from quorum.log.segmented_log import SegmentedLog
from tests.lag import handmade_logs

SEGMENT_BYTES: Final = 2_000
RECORDS: Final = 5
"""In a batch; three batches are a segment."""


class Node:
    """One replica."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        clock = iter(range(handmade_logs.BEGIN_MS, handmade_logs.BEGIN_MS + 1_000_000))
        self.log = SegmentedLog(
            folder, segment_bytes_max=SEGMENT_BYTES, wall_clock=lambda: next(clock)
        )

    def commit(self, count: int, *, epoch: int) -> None:
        """Append so many batches."""
        for _ in range(count):
            values = [bytes(100)] * RECORDS
            self.log.append(handmade_logs.batch(self.log.end.offset, values, epoch=epoch))
            self.log.commit(sync=False)

    def truncate(self, offset: int) -> None:
        """As a new leader has a follower do whose tail is another one."""
        self.log.truncate_to(Offset(offset))


def without_times(node: Node, number: int) -> tuple[Path, bytes]:
    """Take back the append times of a segment, as if the node had not come to write them yet."""
    index = sorted(node.log.folder.glob("*.appendtime"))[number]
    there = index.read_bytes()
    index.write_bytes(there[: len(encode_header())])
    return index, there
