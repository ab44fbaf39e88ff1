"""Log folders for tests: copies of what a real cluster left, as its nodes would have them."""

import shutil
from pathlib import Path
from typing import Final

from tests.support.tree import ROOT

KRAFT: Final = ROOT / "tests" / "data" / "kraft-4.2.0"
SEGMENT: Final = "00000000000000000000.log"
CUT_BYTES: Final = 72
"""The last batch of the segment has as many: without it, a replica is one record behind."""


def copy_of(folder: Path, node_id: int, *, without_bytes: int = 0) -> Path:
    """The folder of a node with the log of the real one, cut at its end by so many bytes."""
    log = folder / f"controller-{node_id}" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    shutil.copyfile(KRAFT / SEGMENT, log / SEGMENT)
    (log.parent / "meta.properties").write_text(
        f"version=1\nnode.id={node_id}\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
    )
    with (log / SEGMENT).open("r+b") as segment:
        segment.truncate((KRAFT / SEGMENT).stat().st_size - without_bytes)
    return log.parent
