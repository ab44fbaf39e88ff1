"""Errors of a data folder that keep a node from using it. The texts are for the operator: each
names the file, what is wrong with it, and what to do.

Errors of a disk under a running node are `quorum.ports.LogFailure`.
"""

from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Offset

NEW_DIRECTORY: Final = (
    "move this node's whole folder away, `meta.properties` with it, and start again: the node then "
    "joins as a new directory"
)
"""The remedy for lost votes or records. If only the log were removed, the node would still count as
the same voter, and might vote twice or lack records that it has acknowledged."""


class StorageError(Exception):
    """A folder or a file in it cannot be used. Nothing in it has been changed."""


class FolderUnusable(StorageError):
    """The operating system denies an operation in a folder."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class FolderInUse(StorageError):
    """Another process uses the folder."""

    def __init__(self, lock_file: Path) -> None:
        super().__init__(
            f"{lock_file} is locked: another process uses {lock_file.parent}. "
            "Stop that process, or give this one a folder of its own"
        )


class FolderForeign(StorageError):
    """The folder belongs to another node or another cluster."""

    def __init__(self, path: Path, *, owner: str, here: str) -> None:
        """`owner` as in "node 1", `here` as in "this is node 2"."""
        super().__init__(
            f"{path}: this folder belongs to {owner}, but {here}. Correct the configuration, or "
            "give this node an empty folder"
        )


class FileDamaged(StorageError):
    """A small file of state does not hold what it should."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}. {remedy}")
        self.path = path
        self.reason = reason


class FormatUnknown(StorageError):
    """A file is of a format that this version of the program does not know; it is not damaged."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path}: {what}. Nothing has been changed. Start the version of the program that "
            "wrote it, or give this node an empty folder"
        )


class LogDamaged(StorageError):
    """A log is damaged where no crash can have done it: acknowledged records are lost."""

    def __init__(self, file: Path, position: int, offset: Offset, reason: str) -> None:
        super().__init__(
            f"{file} is damaged at byte {position}, offset {offset}: {reason}. Nothing has been "
            f"changed. The way back: {NEW_DIRECTORY} and copies the log from the others"
        )
        self.file = file
        self.position = position
        self.offset = offset
        self.reason = reason
