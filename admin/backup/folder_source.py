"""Read the metadata log in the folder of a stopped node, a broker's for example.

This is the last resort if all controllers are lost and there is no backup: every broker has the
metadata log, up to what it had heard of. The folder is copied and never changed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from admin.backup.manifest import BackupError
from admin.client.metadata_source import FETCH_BYTES, Elsewhere, Part, Records
from admin.tools.founding import FolderBusy, locked_folder
from admin.tools.recover.survivors import RecoverError, Survivor, read
from quorum.core.limits import SNAPSHOT_CHUNK_BYTES_MAX
from quorum.core.vocabulary import OffsetAndEpoch
from quorum.log.errors import StorageError
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER, contains


class FolderSource:
    """The metadata log of a stopped node; all of it counts as committed."""

    def __init__(self, survivor: Survivor, log: SegmentedLog, cluster_id: str) -> None:
        self._survivor = survivor
        self._log = log
        self.cluster_id = cluster_id
        self.remarks: Sequence[str] = survivor.missing

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        """Read what follows on `end`; see `Source`."""
        log, checkpoint = self._log, self._survivor.checkpoint
        if end.offset < log.start:
            return Elsewhere(None if checkpoint is None else checkpoint.id)
        if not contains(log, end) and not (checkpoint is not None and end == checkpoint.id):
            return Elsewhere(None)
        log_end = log.end.offset
        data = b"" if end.offset == log_end else log.read(end.offset, log_end, FETCH_BYTES)
        return Records(data, log_end)

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        """Read a part of the snapshot; see `Source`."""
        checkpoint = self._survivor.checkpoint
        assert checkpoint is not None
        assert checkpoint.id == id_
        with checkpoint.path.open("rb") as file:
            file.seek(position)
            return Part(file.read(SNAPSHOT_CHUNK_BYTES_MAX), checkpoint.path.stat().st_size)


@contextmanager
def folder_source(folder: Path) -> Iterator[FolderSource]:
    """Open the folder of a stopped node; raises `BackupError`."""
    with TemporaryDirectory(prefix="metaquorum-backup-") as work:
        try:
            with locked_folder(folder):
                survivor = read(folder, None, Path(work) / LOG_FOLDER, needs_id=False)
        except (FolderBusy, RecoverError, StorageError) as error:
            raise BackupError(str(error)) from error
        except OSError as error:
            raise BackupError(f"{folder} cannot be copied: {error.strerror or error}") from error
        if survivor.cluster_id is None:
            raise BackupError(f"no file in {folder} names its cluster")
        log = SegmentedLog(survivor.log_copy)
        try:
            yield FolderSource(survivor, log, survivor.cluster_id)
        finally:
            log.close()
