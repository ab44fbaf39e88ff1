"""The kinds of problem in a log folder.

Programs compare the kind; the reason beside it is for people.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

NO_LOG: Final = "no_log"
FOREIGN_FILE: Final = "foreign_file"
UNREADABLE: Final = "unreadable"
META: Final = "meta"
TORN_TAIL: Final = "torn_tail"
BAD_CRC: Final = "bad_crc"
FORMAT: Final = "format"
GAP: Final = "gap"
DUPLICATE: Final = "duplicate"
EPOCH: Final = "epoch"
MISPLACED: Final = "misplaced"
APPEND_TIMES: Final = "append_times"
SNAPSHOT: Final = "snapshot"
RECORD: Final = "record"

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NO_LOG: "no folder, or no log in it",
        FOREIGN_FILE: "a file that does not belong into a log folder",
        UNREADABLE: "the operating system refuses to read it, or it has disappeared",
        META: "`meta.properties` or `quorum-state` cannot be understood",
        TORN_TAIL: (
            "the newest segment ends with an incomplete batch: a write was cut off or is "
            "still in progress"
        ),
        BAD_CRC: "bytes that are not a valid batch; valid batches after them are read",
        FORMAT: "a batch in another format, or with a contradictory header",
        GAP: "offsets are missing between two batches",
        DUPLICATE: "a batch starts at an offset that an earlier batch has already",
        EPOCH: "the epoch of a batch is lower than that of the batch before",
        MISPLACED: ("the first batch of a segment does not start at the offset in the file name"),
        APPEND_TIMES: "an index of append times is damaged, or reaches beyond its segment",
        SNAPSHOT: "an incomplete checkpoint",
        RECORD: "a record or a whole batch that cannot be decoded",
    }
)


class Problem(NamedTuple):
    """One row of the table `problems`, without its replica."""

    path: str
    position: int | None
    offset: int | None
    kind: str
    reason: str


def kinds_as_markdown() -> str:
    """The kinds as docs/lag_tables.md has them; a test compares the two."""
    rows = [f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items()]
    return "\n".join(["| kind | meaning |", "| --- | --- |", *rows]) + "\n"
