"""The bounds of what is kept, with their units, and how they depend on each other."""

from typing import Final

from quorum.core.limits import BATCH_BYTES_MAX, FRAME_BYTES_MAX

INDEX_INTERVAL_BYTES: Final = 4 * 1024
"""Between two batches whose position in their segment is remembered."""

TAIL_BYTES_MAX: Final = 32 * 1024 * 1024
"""Batches at the end of a log that stay in memory after they were written."""

GROUP_BYTES_MAX: Final = 1024 * 1024
"""The bytes written between two fdatasyncs: several batches up to this, or one larger batch."""

TORN_BYTES_MAX: Final = FRAME_BYTES_MAX
"""More than a loss of power can leave half-written: no batch that arrived in a frame is larger."""

FREED_BYTES: Final = 64 * 1024 * 1024
"""Given back to the file system at once, where a large file goes: a commit may wait behind it."""

SCAN_BYTES: Final = 1024 * 1024
"""Read at once while a whole segment is scanned."""

WALK_BYTES: Final = 8 * 1024
"""Read at once while the headers between two index entries are stepped through."""

# A group of several batches, or of a single large one, is no more than what may be torn.
assert max(GROUP_BYTES_MAX, BATCH_BYTES_MAX) < TORN_BYTES_MAX
# One read must reach from one index entry to the next where batches are small.
assert INDEX_INTERVAL_BYTES < WALK_BYTES
