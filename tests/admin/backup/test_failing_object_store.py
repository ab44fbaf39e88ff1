"""An object store that fails while an object is written: the first error is told, nothing stays."""

import pytest

from admin.backup.manifest import BackupError
from admin.backup.object_storage import ObjectStorage


class Failing:
    """A file system of pyarrow, and its only stream; it fails in the operations that are named."""

    def __init__(self, *failing: str) -> None:
        self._failing = failing
        self.objects: set[str] = set()

    def _do(self, operation: str) -> None:
        if operation in self._failing:
            raise OSError(f"{operation} failed")

    def open_output_stream(self, path: str) -> "Failing":
        self._path = path
        return self

    def write(self, data: bytes) -> None:
        self._do("write")

    def close(self) -> None:
        # Whatever arrived is there, even if the answer was lost.
        self.objects.add(self._path)
        self._do("close")

    def delete_file(self, path: str) -> None:
        self._do("delete")
        self.objects.remove(path)


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (["write"], "write failed"),
        (["write", "close"], "write failed"),
        (["write", "close", "delete"], "write failed"),
        (["close"], "close failed"),
        (["close", "delete"], "close failed"),
    ],
)
def test_the_first_error_is_told_and_no_shortened_object_stays(
    failing: list[str], told: str
) -> None:
    files = Failing(*failing)
    storage = ObjectStorage("s3://bucket/mq", files, "bucket/mq")

    def fail() -> None:
        with storage.create("0.log") as writer:
            writer.write(b"half")

    with pytest.raises(BackupError, match=f"s3://bucket/mq: {told}"):
        fail()
    assert files.objects == ({"bucket/mq/0.log"} if "delete" in failing else set())
