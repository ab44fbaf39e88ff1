"""A folder for files in the making, beside the place that they are moved to when all are whole."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from admin.tools.founding import make_folders
from quorum.log.filesystem import FolderLock, make_folder


@contextmanager
def work_folder(folder: Path, name: str) -> Iterator[Path]:
    """Make a work folder of this name in `folder`; it is removed at the end.

    So is `folder`, if it was made for it and nothing came into it. What a run that was killed has
    left is removed at the start. Raises `OSError`, or `FolderInUse` while another run is at work.
    """
    was_there = folder.exists()
    make_folders(folder)
    work = folder / name
    make_folder(work)
    lock = FolderLock(work)
    try:
        for left in work.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
        yield work
    finally:
        shutil.rmtree(work)
        lock.release()
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()
