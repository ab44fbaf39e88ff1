"""Check a stored backup: every byte of it, and that a cluster can be founded from it.

The files are read once, in order: their checksums, the checksums and the continuity of the batches,
the snapshot's header and footer, and all records into an image, as a controller does at its start.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from admin.backup.log_summary import LogSummary
from admin.backup.manifest import (
    BackupDamaged,
    BackupError,
    LogFile,
    Manifest,
    StoredFile,
    id_ms_of,
    make_manifest,
)
from admin.backup.storage import Storage
from admin.tools.founding import LOST_EPOCHS_MAX
from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import OffsetAndEpoch
from quorum.log.checkpoint import CheckpointCheck, values_of
from quorum.records.batch_stream import BatchStream, StreamedBatch
from statemachine.features.features import KRAFT_VERSION, unsupported_reason
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import load


@dataclass(frozen=True, slots=True)
class Verified:
    """The metadata that a sound backup holds."""

    manifest: Manifest
    image: Image

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return sum(len(list(topic.existing())) for topic in self.image.topics.values())


def verify(storage: Storage, manifest: Manifest) -> Verified:
    """Check all of a backup; raises `BackupDamaged`, or `BackupError` if it cannot be read here."""
    # First: records of a level that is not known would look like damage.
    check_restorable(manifest)
    summary, image = LogSummary(), Image()
    if manifest.snapshot is not None:
        with naming(storage, manifest.snapshot):
            image = _load(storage, manifest.snapshot, summary)
    for piece in manifest.log:
        with naming(storage, piece):
            for batch in _log_batches(storage, piece, summary):
                _replay(image, summary, batch)
    image.advance(summary.end.offset)
    check_facts(storage, manifest, summary)
    return Verified(manifest, image)


def check_restorable(manifest: Manifest) -> None:
    """Raise `BackupError` if this release cannot found a cluster from a sound backup."""
    reason = unsupported_reason({**manifest.features, KRAFT_VERSION: manifest.kraft_version})
    if reason is not None:
        raise BackupError(f"backup {manifest.id}: {reason}; restore it with a newer one")
    check_epochs(manifest)


def check_epochs(manifest: Manifest) -> None:
    """Raise `BackupError` if no epochs are left for a cluster that begins after this backup."""
    if manifest.epoch + LOST_EPOCHS_MAX >= EPOCH_MAX:
        raise BackupError(
            f"backup {manifest.id} is of epoch {manifest.epoch}, and the last epoch is {EPOCH_MAX}:"
            " the cluster had used its epochs up. Found it anew from a controller's folder, with "
            "`metaquorum recover`"
        )


def _load(storage: Storage, file: StoredFile, summary: LogSummary) -> Image:
    check = CheckpointCheck(file.end)

    def values() -> Iterator[bytes]:
        for batch in _batches(storage, file, BatchStream(base=0, epoch_min=0)):
            check.take(batch)
            if not batch.header.is_control:
                summary.take_values(batch)
                yield from values_of(batch)

    image = load(values(), file.end_offset)
    summary.take_checkpoint(file.end, check.close())
    return image


def _log_batches(storage: Storage, piece: LogFile, summary: LogSummary) -> Iterator[StreamedBatch]:
    """Yield the batches of a piece of the log that follow on the summary."""
    epoch_min = summary.end.epoch if piece.base_offset == summary.end.offset else 0
    for batch in _batches(storage, piece, BatchStream(base=piece.base_offset, epoch_min=epoch_min)):
        # The first piece may begin before the end of the snapshot.
        if batch.header.end_offset > summary.end.offset:
            yield batch
    if summary.end != piece.end:
        raise ValueError(f"it ends at {summary.end}, by the manifest at {piece.end}")


def _replay(image: Image, summary: LogSummary, batch: StreamedBatch) -> None:
    if batch.header.base_offset != summary.end.offset:
        raise ValueError(f"the snapshot ends within the batch at {batch.header.base_offset}")
    summary.take(batch)
    if not batch.header.is_control:
        replay_values(image, values_of(batch), batch.header.base_offset)


def _batches(storage: Storage, file: StoredFile, stream: BatchStream) -> Iterator[StreamedBatch]:
    for data in checked_content(storage, file):
        yield from stream.feed(data)
    stream.close()


def checked_content(storage: Storage, file: StoredFile) -> Iterator[bytes]:
    """Yield the content of a file in pieces; raises `ValueError` at the end if it is another than
    the manifest says."""
    found, size_bytes = hashlib.sha256(), 0
    for data in storage.read(file.name):
        found.update(data)
        size_bytes += len(data)
        yield data
    if size_bytes != file.size_bytes:
        raise ValueError(f"it has {size_bytes} bytes, by the manifest {file.size_bytes}")
    if found.hexdigest() != file.sha256:
        raise ValueError("its checksum is not that of the manifest")


def check_facts(storage: Storage, manifest: Manifest, summary: LogSummary) -> None:
    """Raise `BackupDamaged` unless the files say what the manifest says."""
    found = make_manifest(
        summary,
        id_ms=id_ms_of(manifest.id),
        cluster_id=manifest.cluster_id,
        taken_ms=manifest.taken_ms,
        snapshot=manifest.snapshot,
        log=manifest.log,
    )
    known = OffsetAndEpoch(manifest.end.epoch, manifest.end.offset)
    if summary.end != known or found.voters != manifest.voters:
        raise BackupDamaged(
            f"{storage}: backup {manifest.id} ends at {summary.end} with voters "
            f"{[each.id for each in found.voters]}, by its manifest at {known} with "
            f"{[each.id for each in manifest.voters]}: take another backup"
        )
    if found.features != manifest.features or found.kraft_version != manifest.kraft_version:
        raise BackupDamaged(
            f"{storage}: backup {manifest.id} has the levels {found.features}, by its manifest "
            f"{manifest.features}: take another backup"
        )


@contextmanager
def naming(storage: Storage, file: StoredFile) -> Iterator[None]:
    """Turn an error in the content of a file into `BackupDamaged`."""
    try:
        yield
    except ValueError as error:
        raise BackupDamaged(
            f"{storage}: {file.name} is damaged: {error}. Take a backup that does not have this "
            "file: `metaquorum backup verify` finds it"
        ) from error
