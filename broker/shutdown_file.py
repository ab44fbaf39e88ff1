"""The mark of a clean shutdown: everything is on disk, under this broker epoch.

Kafka's file `.kafka_cleanshutdown`. The epoch in it goes into the next registration: a controller
that does not find the last incarnation there knows that it may have lost what it had confirmed
(KIP-966). It is written last and removed first.
"""

from pathlib import Path
from typing import Final

import msgspec

from quorum.log.files import replace_file, sync_folder, usable

FILE_NAME: Final = ".kafka_cleanshutdown"
NO_EPOCH: Final = -1
_VERSION: Final = 0


class _Mark(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int


def take(log_dir: Path) -> int:
    """The broker epoch of the clean shutdown before this start, or -1; the mark is gone after."""
    path = log_dir / FILE_NAME
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


def leave(log_dir: Path, broker_epoch: int) -> None:
    """Say that everything of this incarnation is on disk."""
    mark = _Mark(version=_VERSION, broker_epoch=broker_epoch)
    with usable(log_dir):
        replace_file(log_dir / FILE_NAME, msgspec.json.encode(mark))
