"""The cordon of the log directory of an embedded broker (KIP-1066).

The broker has one directory, so `cordoned.log.dirs` of its file names that directory, or is `*`, or
is empty. The value in the log, `*` or nothing, replaces that of the file. The controllers learn of
the cordon from heartbeats, and place no new replicas on the broker.
"""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from statemachine.configs.broker_configs import ALL_LOG_DIRS, CORDONED_LOG_DIRS
from statemachine.configs.definitions import parts
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, LEVEL_CORDONED_DIRECTORIES, BrokerId


def cordon_refusal(value: str, folder: Path) -> str | None:
    """Return the reason to refuse a value of `cordoned.log.dirs`, or None."""
    named = parts(value)
    if ALL_LOG_DIRS in named and len(named) > 1:
        return f"{CORDONED_LOG_DIRS} is {value}; {ALL_LOG_DIRS} is all directories, write it alone"
    for each in named:
        if not _is_folder(each, folder):
            return (
                f"{each} in {CORDONED_LOG_DIRS} is not a log directory of this broker, which has "
                f"{folder}; write that, or {ALL_LOG_DIRS}"
            )
    return None


def _is_folder(named: str, folder: Path) -> bool:
    return named == ALL_LOG_DIRS or Path(named).absolute() == folder.absolute()


class CordonedLogDirs:
    """The cordon in force of the one log directory of a broker."""

    def __init__(self, broker_id: BrokerId, image: Image, folder: Path, static: str) -> None:
        """`static` is the value in the broker's own file."""
        self._resource = (BROKER_RESOURCE, str(broker_id))
        self._image = image
        self._folder = folder
        self._static = static

    @property
    def is_cordoned(self) -> bool:
        """True if the directory gets no new replicas; never below the level that has cordons."""
        if self._image.level < LEVEL_CORDONED_DIRECTORIES:
            return False
        value = self._image.configs.get(self._resource, {}).get(CORDONED_LOG_DIRS, self._static)
        return any(_is_folder(each, self._folder) for each in parts(value))

    def reported(self, directory_id: UUID) -> Sequence[UUID]:
        """Return what a heartbeat reports for the directory with this id."""
        return [directory_id] if self.is_cordoned else []
