"""The snapshots of one replica's log as files beside it: written, received, read, removed.

A rename publishes a snapshot once all of it is on disk; it never changes after that. Until then it
has another suffix, which Kafka's controllers also ignore: a restart discards a snapshot that was
being written, and continues one that was being received from the leader. A large snapshot that is
removed is renamed first, with Kafka's suffix, and then shortened step by step: freeing a gigabyte
at once would delay commits. `quorum.snapshotting` decides which snapshots to take and keep.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import OffsetAndEpoch, Snapshot
from quorum.log.checkpoint import checkpoint_id, checkpoint_name, checkpoints, read_checkpoint
from quorum.log.errors import FileDamaged
from quorum.log.filesystem import (
    OS,
    REMOVED_SUFFIX,
    FileSystem,
    SyncFailed,
    opened,
    read_up_to,
    remove_some,
    sync_file,
    sync_folder,
    usable,
    writable,
    write_all,
)
from quorum.ports import LogFailure, ReceivedSnapshot

_WRITTEN: Final = ".part"
_RECEIVED: Final = ".received.part"
_DAMAGED: Final = ".damaged"


@contextmanager
def _trusting(path: Path) -> Iterator[None]:
    """Turn a failed sync into `LogFailure`; other errors only cost the snapshot."""
    try:
        yield
    except SyncFailed as error:
        raise LogFailure(f"{path} cannot be kept: {error.strerror}") from error


class FileSnapshotStore:
    """A `quorum.ports.SnapshotStore` of files."""

    def __init__(self, folder: Path, fs: FileSystem = OS) -> None:
        """List the snapshots and remove unfinished files. Raises `FolderUnusable`."""
        self._folder = folder
        self._fs = fs
        with usable(folder):
            self._sizes = {id_: fs.size(path) for id_, path in reversed(checkpoints(folder, fs))}
            self.partial = self._clear()

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The complete and durable snapshots, the oldest first."""
        return tuple(Snapshot(id_, self._sizes[id_]) for id_ in sorted(self._sizes))

    def read(self, id_: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Read bytes of a stored snapshot; see the port."""
        path = self._path(id_)
        try:
            with opened(path, os.O_RDONLY, self._fs) as fd:
                return read_up_to(fd, max_bytes, position, self._fs)
        except OSError as error:
            raise LogFailure(f"{path} cannot be read: {error.strerror or error}") from error

    def note(self, id_: OffsetAndEpoch, size_bytes: int) -> None:
        """Add a complete and durable snapshot."""
        self._sizes[id_] = size_bytes

    def forget(self, id_: OffsetAndEpoch) -> None:
        """Take out a snapshot that is about to be removed."""
        del self._sizes[id_]

    def set_aside(self, id_: OffsetAndEpoch) -> Path:
        """Rename the file of a damaged snapshot, so that it can be examined; return its new
        path."""
        self.forget(id_)
        path = self._path(id_)
        with usable(path):
            aside = path.with_name(f"{path.name}{_DAMAGED}")
            self._fs.rename(path, aside)
            sync_folder(self._folder, self._fs)
        return aside

    def forget_partial(self) -> None:
        """Forget the snapshot that an earlier process had received in part."""
        self.partial = None
        with usable(self._folder):
            self._remove_received()

    # In the disk thread.

    def write(self, id_: OffsetAndEpoch, data: bytes | bytearray, position: int) -> None:
        """Write the next bytes of a snapshot that is made here; they are on disk on return."""
        path = self._part(id_, _WRITTEN)
        with _trusting(path):
            self._write(path, data, position, sync=True)

    def finish(self, id_: OffsetAndEpoch) -> None:
        """Publish a snapshot that has been written completely, durably."""
        with _trusting(self._path(id_)):
            self._fs.rename(self._part(id_, _WRITTEN), self._path(id_))
            sync_folder(self._folder, self._fs)

    def abandon(self, id_: OffsetAndEpoch) -> None:
        """Remove a snapshot that will not be finished."""
        with suppress(FileNotFoundError):
            self._fs.remove(self._part(id_, _WRITTEN))

    def receive(self, id_: OffsetAndEpoch, data: bytes, position: int) -> None:
        """Write the next bytes of a snapshot from the leader; position 0 begins it anew."""
        path = self._part(id_, _RECEIVED)
        with writable(path):
            if position == 0:
                self._remove_received()
            self._write(path, data, position, sync=False)

    def install(self, id_: OffsetAndEpoch, *, is_mixed: bool) -> ReceivedSnapshot | str:
        """Publish the completely received snapshot, durably, if it is sound; see the port."""
        path = self._part(id_, _RECEIVED)
        with writable(path):
            try:
                checkpoint = read_checkpoint(path, self._fs, id_=id_)
            except FileDamaged as error:
                self._remove_received()
                return error.reason
            if is_mixed and not checkpoint.has_checksum:
                self._remove_received()
                return "it came in parts of several replicas, and has no checksum"
            with opened(path, os.O_RDONLY, self._fs) as fd:
                sync_file(fd, self._fs)
                size_bytes = self._fs.size(fd)
            self._fs.rename(path, self._path(id_))
            sync_folder(self._folder, self._fs)
        visible = replace(checkpoint, path=self._path(id_))
        return ReceivedSnapshot(id_, size_bytes, checkpoint.voters, visible.records)

    def remove(self, id_: OffsetAndEpoch) -> bool:
        """Remove a part of a snapshot; return True if there is more of it."""
        with _trusting(self._path(id_)):
            return remove_some(self._path(id_), self._fs)

    def _path(self, id_: OffsetAndEpoch) -> Path:
        return self._folder / checkpoint_name(id_)

    def _part(self, id_: OffsetAndEpoch, suffix: str) -> Path:
        return self._folder / f"{checkpoint_name(id_)}{suffix}"

    def _write(self, path: Path, data: bytes | bytearray, position: int, *, sync: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if position == 0 else 0)
        with opened(path, flags, self._fs) as fd:
            write_all(fd, data, position, self._fs)
            if sync:
                sync_file(fd, self._fs)

    def _remove_received(self) -> None:
        for name in self._fs.names(self._folder):
            if name.endswith(_RECEIVED):
                self._fs.remove(self._folder / name)

    def _clear(self) -> tuple[OffsetAndEpoch, int] | None:
        """Remove unfinished files, except the latest one that was being received."""
        found: list[tuple[OffsetAndEpoch, int]] = []
        for name in self._fs.names(self._folder):
            path = self._folder / name
            id_ = checkpoint_id(name.removesuffix(_RECEIVED))
            if name.endswith(_RECEIVED) and id_ is not None and id_ not in self._sizes:
                found.append((id_, self._fs.size(path)))
            elif name.endswith((_WRITTEN, REMOVED_SUFFIX)):
                self._fs.remove(path)
        for id_, _ in sorted(found)[:-1]:
            self._fs.remove(self._part(id_, _RECEIVED))
        return max(found, default=None)
