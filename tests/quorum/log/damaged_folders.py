"""Folders of segments to damage: made by the log itself, changed behind its back."""

from collections.abc import Sequence
from pathlib import Path

from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.records.batch import headers
from tests.contracts.log_worlds import begun_at


def filled_folder(
    folder: Path, batches: Sequence[bytes], *, segment_bytes_max: int = 1 << 30
) -> list[Path]:
    """A folder with these batches; returns its segments."""
    start = next(header.base_offset for _, header in headers(batches[0])) if batches else 0
    log = begun_at(Offset(start), SegmentedLog(folder, segment_bytes_max=segment_bytes_max))
    for batch in batches:
        log.append(batch)
    log.close()
    return sorted(folder.glob("*.log"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the folder and what is in it."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def everything(log: SegmentedLog) -> bytes:
    """All batches that the log holds."""
    return log.read(log.start, log.end.offset, 1 << 30)
