"""Find the storage that the option or argument of a command names."""

from pathlib import Path

from admin.backup.folder_storage import FolderStorage
from admin.backup.storage import Storage


def storage_of(place: str) -> Storage:
    """The storage that `place` names: a folder, or a URI such as s3://bucket/folder.

    Raises `BackupError` for a URI that cannot be used.
    """
    if "://" not in place:
        return FolderStorage(Path(place))
    # It needs a library that need not be installed.
    from admin.backup.object_storage import object_storage

    return object_storage(place)
