"""The log directory: partition folders, the topic ids in them, and the clean-shutdown file.

A folder `<topic>-<n>` holds the log of partition n and `partition.metadata` with the topic id, in
Kafka's format. A deleted and re-created topic has the same name and another id: a folder with
another id is never written to but renamed to `*-stray`. A folder to delete is first renamed to
`*-delete`, so that an interruption never leaves half a log that looks whole.

`.kafka_cleanshutdown` says that everything is on disk, and names the broker epoch. The next
registration carries that epoch: a controller that does not find the last incarnation in it knows
that confirmed data may be lost (KIP-966). The file is written last and removed first.

Every function may wait for the disk: call them in the disk thread.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from quorum.core.vocabulary import uuid_from_text, uuid_to_text
from quorum.log.errors import FormatUnknown
from quorum.log.filesystem import make_folder, replace_file, sync_folder, usable
from statemachine.vocabulary import NO_EPOCH

METADATA_NAME: Final = "partition.metadata"
STATE_NAME: Final = "partition.state"
"""The state file beside the log after a clean shutdown: see `broker.storage.partition_log`."""
METADATA_LOG: Final = "__cluster_metadata"

_FOLDER: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,6})")
_METADATA: Final = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")
_METADATA_VERSION: Final = re.compile(r"version: (\d{1,4})\n")
_DELETED: Final = "-delete"
_STRAY: Final = "-stray"


@dataclass(frozen=True, slots=True, order=True)
class PartitionFolder:
    """The folder of a partition; the topic id is None if none is written."""

    path: Path
    topic: str
    number: int
    topic_id: UUID | None


def folder_name(topic: str, number: int) -> str:
    return f"{topic}-{number}"


def partition_folders(log_dir: Path) -> list[PartitionFolder]:
    """All partition folders in `log_dir` except the metadata log's, sorted by name."""
    found = []
    with usable(log_dir):
        for path in sorted(log_dir.iterdir()):
            match = _FOLDER.fullmatch(path.name)
            if match is None or match[1] == METADATA_LOG or not path.is_dir():
                continue
            found.append(PartitionFolder(path, match[1], int(match[2]), read_topic_id(path)))
    return found


def read_topic_id(folder: Path) -> UUID | None:
    """The topic id in `partition.metadata`, or None if there is none.

    Raises `FormatUnknown` for a newer version: the folder would be set aside as another topic's.
    """
    path = folder / METADATA_NAME
    try:
        text = path.read_text(encoding="ascii")
        match = _METADATA.fullmatch(text)
        said = _METADATA_VERSION.match(text)
        if said is not None and int(said[1]) > 0:
            raise FormatUnknown(path, f"version {int(said[1])}, only version 0 is known")
        return None if match is None else uuid_from_text(match[1])
    except (FileNotFoundError, ValueError):  # What is not ASCII or base64 is a ValueError.
        return None


def claim(log_dir: Path, topic: str, number: int, topic_id: UUID) -> tuple[Path, Path | None]:
    """Find or create the folder of a partition; return it with the folder set aside, if any.

    The id is on disk before the folder is used. A folder with neither a readable id nor a log was
    interrupted while being created; one with a log and another id is set aside.
    """
    path = log_dir / folder_name(topic, number)
    aside = None
    with usable(path):
        found = read_topic_id(path)
        if found != topic_id and (found is not None or any(path.glob("*.log"))):
            aside, found = _renamed(path, _STRAY), None
        make_folder(path)
        if found is None:
            text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
            replace_file(path / METADATA_NAME, text.encode())
    return path, aside


def discard(path: Path, topic_id: UUID) -> None:
    """Delete the folder of a partition. It is renamed first, so that no half of it looks like a
    log.

    A folder that is missing, or that belongs to another topic, is left alone.
    """
    if read_topic_id(path) != topic_id:
        return
    shutil.rmtree(_renamed(path, _DELETED))


def remove_leftovers(log_dir: Path) -> None:
    """Finish interrupted deletions."""
    with usable(log_dir):
        for each in [each for each in log_dir.iterdir() if each.name.endswith(_DELETED)]:
            shutil.rmtree(each)


def _renamed(path: Path, suffix: str) -> Path:
    """Rename a folder to an unused name that no partition can have; return its new path."""
    # The topic's name may be as long as a file name can be; its id and number always fit.
    topic_id = read_topic_id(path)
    number = path.name.rpartition("-")[2]
    stem = f"{'unknown' if topic_id is None else uuid_to_text(topic_id)}.{number}"
    attempt = 0
    while (free := path.with_name(f"{stem}.{attempt}{suffix}")).exists():
        attempt += 1
    path.rename(free)
    sync_folder(path.parent)
    return free


CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
_VERSION: Final = 0


class _Mark(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int


def take_clean_shutdown(log_dir: Path) -> int:
    """Return the broker epoch of the last clean shutdown, or -1, and remove the file."""
    path = log_dir / CLEAN_SHUTDOWN_NAME
    with usable(log_dir):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return NO_EPOCH
        path.unlink()
        sync_folder(log_dir)
    try:
        mark = msgspec.json.decode(data, type=_Mark)
    except msgspec.MsgspecError:
        return NO_EPOCH
    return mark.broker_epoch if mark.version == _VERSION else NO_EPOCH


def write_clean_shutdown(log_dir: Path, broker_epoch: int) -> None:
    """Record that everything of this incarnation is on disk."""
    mark = _Mark(version=_VERSION, broker_epoch=broker_epoch)
    with usable(log_dir):
        replace_file(log_dir / CLEAN_SHUTDOWN_NAME, msgspec.json.encode(mark))
