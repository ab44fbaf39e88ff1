"""What can be wrong with a log folder: the kinds of problem, each with its meaning.

A kind is a word that programs compare; the reason beside it is a sentence for people.
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
        NO_LOG: "there is no folder, or no log in it",
        FOREIGN_FILE: "a file that no log has, in a folder of a log",
        UNREADABLE: "the operating system does not let it be read, or it is no more",
        META: "`meta.properties` or `quorum-state` is there and says nothing that is understood",
        TORN_TAIL: "the newest segment ends with a batch that is not whole: a write that was cut"
        " off, or one that is still under way",
        BAD_CRC: "bytes that are no sound batch, where one ought to be; sound ones behind are read",
        FORMAT: "a batch of another format, or whose header contradicts itself",
        GAP: "offsets are missing between a batch and the next one, with nothing in their place",
        DUPLICATE: "a batch begins at an offset that was there already",
        EPOCH: "the epoch of a batch is below that of the one before it",
        MISPLACED: "the first batch of a segment does not have the offset in the name of the file",
        APPEND_TIMES: "an index of append times is damaged, or reaches beyond its log",
        SNAPSHOT: "a checkpoint that is not whole",
        RECORD: "a record, or all of a batch, that cannot be decoded",
    }
)


class Problem(NamedTuple):
    """One row of the table `problems`; `replica` is filled in by whoever knows it."""

    path: str
    position: int | None
    offset: int | None
    kind: str
    reason: str


def kinds_as_markdown() -> str:
    """The kinds as they appear in docs/lag.md; a test keeps the two identical."""
    rows = [f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items()]
    return "\n".join(["| kind | meaning |", "| --- | --- |", *rows]) + "\n"
