"""The kinds of problem in a log folder.

Programs compare the kind; the reason beside it is for people.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

NO_LOG: Final = "no_log"
FOREIGN_FILE: Final = "foreign_file"
MISNAMED: Final = "misnamed"
UNREADABLE: Final = "unreadable"
META: Final = "meta"
CLUSTER: Final = "cluster"
ASSUMED: Final = "assumed_cluster"
TORN_TAIL: Final = "torn_tail"
BAD_CRC: Final = "bad_crc"
FORMAT: Final = "format"
GAP: Final = "gap"
DUPLICATE: Final = "duplicate"
EPOCH: Final = "epoch"
MISPLACED: Final = "misplaced"
UNCONFIRMED: Final = "unconfirmed"
APPEND_TIMES: Final = "append_times"
SNAPSHOT: Final = "snapshot"
RECORD: Final = "record"

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NO_LOG: "no folder, or no log in it",
        FOREIGN_FILE: (
            "a file that is not of a log: it was not read. This is no fault, and does not change "
            "the exit code of a report"
        ),
        MISNAMED: (
            "a file with the ending of a segment, a checkpoint or an index, and with a name that "
            "none of them has: it was not read"
        ),
        UNREADABLE: "the operating system refuses to read it, or it has disappeared",
        META: "`meta.properties` or `quorum-state` cannot be understood",
        CLUSTER: ("a log that may be of another cluster than the requested one: it was left out"),
        ASSUMED: (
            "a log of which nothing says the cluster: it was read as one of the only cluster that "
            "is known. This is no fault, and does not change the exit code of a report"
        ),
        TORN_TAIL: (
            "the newest segment ends with an incomplete batch: a write was cut off or is "
            "still in progress"
        ),
        BAD_CRC: "bytes that are not a valid batch; valid batches after them are read",
        FORMAT: "a batch in another format, or with a contradictory header",
        GAP: "offsets are missing between two batches, or at the start of the log",
        DUPLICATE: "a batch starts at an offset that an earlier batch has already",
        EPOCH: (
            "the epoch of a batch is lower than that of the batch before, or higher without the "
            "record of a new leader"
        ),
        MISPLACED: (
            "the first batch of a segment does not start at the offset in the file name, or a "
            "batch cannot be between those around it"
        ),
        UNCONFIRMED: (
            "a single batch between damage, whose offset and epoch nothing confirms: it is not used"
        ),
        APPEND_TIMES: "an index of append times is damaged, or reaches beyond its segment",
        SNAPSHOT: "an incomplete checkpoint",
        RECORD: "a record or a whole batch that cannot be decoded",
    }
)


HARMLESS: Final = frozenset({FOREIGN_FILE, ASSUMED})
"""The kinds that are listed, and mean that nothing is missing or damaged."""


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
