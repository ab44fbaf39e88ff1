"""`recover`, `restore` and `adopt` on a disk that fails: one sentence, and nothing is in place."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from quorum.log.filesystem import OS
from tests.admin.backup.stored_backups import backed_up
from tests.admin.recover.recovered_folders import command
from tests.admin.tools.old_controllers import cut, fingerprint, old
from tests.support.real_cluster import CLUSTER_ID


def recover(folder: Path) -> Result:
    return command("recover", folder / "old-2", "--yes-lose-data", CLUSTER_ID)


def restore(folder: Path) -> Result:
    return command("restore", folder / "backups", "--dir", folder / "new")


def adopt(folder: Path) -> Result:
    sources = (folder / "old-2", folder / "3" / "old-3")
    voters = "2@127.0.0.1:1,3@127.0.0.1:2,4@127.0.0.1:3"
    return command("adopt", *sources, "--dir", folder / "new", "--voters", voters)


def failing(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Let every write that would lengthen a file whose name ends so fail."""

    def pwrite(fd: int, data: bytes, position: int) -> int:
        is_longer = position + len(data) > os.fstat(fd).st_size
        if is_longer and os.readlink(f"/proc/self/fd/{fd}").endswith(name):
            raise OSError(code, os.strerror(code))
        return os.pwrite(fd, data, position)

    monkeypatch.setattr(type(OS), "pwrite", staticmethod(pwrite))


@pytest.mark.parametrize("work", [recover, restore, adopt])
@pytest.mark.parametrize("name", [".log", "quorum-state.tmp"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_the_epoch_of_the_new_voters_is_on_disk_or_the_command_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Path], Result],
    name: str,
    code: int,
) -> None:
    """Without its records the log would still name the voters that are lost."""
    source = old(tmp_path, 2)
    backed_up(source, tmp_path / "backups")
    old(tmp_path / "3", 3, log=cut(531))
    before = fingerprint(source)
    with monkeypatch.context() as patch:
        failing(patch, name, code)
        result = work(tmp_path)
    assert result.exit_code == 1
    assert os.strerror(code) in result.stderr
    after = {each: found for each, found in fingerprint(source).items() if ".lock" not in each}
    assert after == {each: found for each, found in before.items() if ".lock" not in each}
    assert not [*(tmp_path / "new").glob("*/data")]
    again = work(tmp_path)
    assert again.exit_code == 0, again.stderr
