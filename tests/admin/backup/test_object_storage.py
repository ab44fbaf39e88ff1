"""Backups in an object store: a local server that speaks S3 (moto), reached through pyarrow."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from admin.backup.manifest import BackupError
from admin.backup.object_storage import storage_of
from admin.backup.run import Retention
from admin.backup.storage import backup_ids
from statemachine.records import codec, kafka_records
from tests.admin.backup.stored_backups import HOUR_MS, TAKEN_MS, backed_up, command
from tests.admin.recover.recovered_folders import command as metaquorum
from tests.admin.tools.old_controllers import LOG_END, cut, followed_by, old
from tests.support.s3_server import CREDENTIALS, NEEDS_MOTO, s3_server

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

NO_OP: Final = codec.encode(kafka_records.NoOp(), 0)

pytestmark = [pytest.mark.process, NEEDS_MOTO]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of an empty bucket, with its endpoint as options."""
    with s3_server() as server:
        server.make_bucket("backups")
        yield f"endpoint_override={server.address}&scheme=http"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    # moto would proxy nothing, but a proxy of the machine must not be asked for it.
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def test_backups_in_an_object_store_are_made_kept_checked_and_restored(
    bucket: str, tmp_path: Path
) -> None:
    place = f"s3://backups/one?{bucket}"
    storage = storage_of(place)
    assert str(storage) == "s3://backups/one"
    first = backed_up(old(tmp_path / "1", 2, log=cut(531)), storage).manifest
    second = backed_up(old(tmp_path / "2", 2), storage, now_ms=TAKEN_MS + 1)
    assert second.previous == first
    assert backup_ids(storage) == [first.id, second.manifest.id]
    assert command("verify", place).exit_code == 0
    later = TAKEN_MS + 25 * HOUR_MS
    source = old(tmp_path / "3", 2, log=followed_by(NO_OP, time_ms=later))
    backed_up(source, storage, now_ms=later, retention=Retention(count=1))
    assert len(storage.sizes()) == 2
    result = metaquorum("restore", place, "--dir", tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    assert f"EndOffset:    {LOG_END + 1} of epoch 3" in result.stdout


def test_a_run_that_failed_leaves_no_object(bucket: str) -> None:
    storage = storage_of(f"s3://backups/two?{bucket}")
    name = "00000000000000000000-1795300000000.log"

    def fail() -> None:
        with storage.create(name) as writer:
            writer.write(b"half")
            raise BackupError("the connection is gone")

    with pytest.raises(BackupError, match="is gone"):
        fail()
    assert storage.sizes() == {}
    storage.remove(name)


def test_a_store_that_is_not_there_is_named(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="s3://nowhere/one: "):
        backed_up(old(tmp_path, 2), storage_of(f"s3://nowhere/one?{bucket}"))
    with pytest.raises(BackupError, match="s4://backups cannot be used"):
        storage_of("s4://backups")
