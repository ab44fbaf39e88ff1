"""`recover`, `restore` and `adopt` by root: the user that a node runs as owns the new files."""

import os
from pathlib import Path
from typing import Final

import pytest

from quorum.log.filesystem import LOCK_NAME
from quorum.persistent_state import LOG_FOLDER
from tests.admin.backup.stored_backups import backed_up
from tests.admin.recover.recovered_folders import command
from tests.admin.tools.adopted_folders import adopt
from tests.admin.tools.old_controllers import old
from tests.support.real_cluster import CLUSTER_ID

Owner = tuple[int, int]
USER: Final[Owner] = (12_345, 54_321)
IS_ROOT: Final = os.geteuid() == 0


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[int, Owner]:
    """By inode: who it was given to, as if root had run the command."""
    found: dict[int, Owner] = {}

    def fchown(fd: int, user: int, group: int) -> None:
        found[os.fstat(fd).st_ino] = (user, group)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", fchown)
    return found


def owned(folder: Path) -> Owner:
    """Make the folder one of another user, if the test may, and return its owner."""
    if IS_ROOT:
        os.chown(folder, *USER)
    found = folder.stat()
    return found.st_uid, found.st_gid


def not_given(folder: Path, given: dict[int, Owner], owner: Owner) -> list[str]:
    """The folder, and what is in it, as far as it was not given to this owner."""
    paths = (folder, *folder.rglob("*"))
    return [str(path) for path in paths if given.get(path.stat().st_ino) != owner]


def test_a_recovered_folder_belongs_to_its_user(tmp_path: Path, given: dict[int, Owner]) -> None:
    source = old(tmp_path, 2)
    (source / "meta.properties").unlink()
    owner = owned(source)
    answers = ("--voters", "2@127.0.0.1:1", "--cluster-id", CLUSTER_ID)
    refused = command("recover", f"2={source}", *answers, stdin="no\n")
    assert refused.exit_code == 1
    lock = source / LOG_FOLDER / LOCK_NAME
    assert not_given(lock, given, owner) == [], "a node could not start any more"
    done = command("recover", f"2={source}", *answers, "--yes-lose-data", CLUSTER_ID)
    assert done.exit_code == 0, done.stderr
    for path in (source / LOG_FOLDER, source / "meta.properties"):
        assert not_given(path, given, owner) == []


def test_a_restored_folder_belongs_to_the_owner_of_the_one_above(
    tmp_path: Path, given: dict[int, Owner]
) -> None:
    backed_up(old(tmp_path, 2), tmp_path / "to")
    home = tmp_path / "home"
    settings = home / "new" / "controller-2" / "node.properties"
    home.mkdir()
    owner = owned(home)
    result = command("restore", tmp_path / "to", "--dir", home / "new")
    assert result.exit_code == 0, result.stderr
    assert not_given(home / "new", given, owner) == []
    # A lost disk that had only the data, mounted anew for the user.
    (settings.parent / "data").rename(tmp_path / "away")
    for each in (3, 4):
        (home / "new" / f"controller-{each}").rename(tmp_path / str(each))
    (settings.parent / "data").mkdir()
    owner = owned(settings.parent / "data")
    given.clear()
    result = command("restore", tmp_path / "to", "--dir", home / "new")
    assert result.exit_code == 0, result.stderr
    assert not_given(settings.parent / "data", given, owner) == []


def test_an_adopted_folder_belongs_to_the_owner_of_the_one_above(
    tmp_path: Path, given: dict[int, Owner]
) -> None:
    sources = [old(tmp_path, node_id) for node_id in (2, 3)]
    home = tmp_path / "home"
    home.mkdir()
    owner = owned(home)
    result = adopt(*sources, "--dir", home / "new")
    assert result.exit_code == 0, result.stderr
    assert not_given(home / "new", given, owner) == []


def test_nothing_is_given_away_by_another_user(
    tmp_path: Path, given: dict[int, Owner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    source = old(tmp_path, 2)
    result = command("recover", source, "--yes-lose-data", CLUSTER_ID)
    assert result.exit_code == 0, result.stderr
    assert given == {}
