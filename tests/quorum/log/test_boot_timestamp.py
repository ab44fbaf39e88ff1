from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.log.errors import FileDamaged
from quorum.log.meta_properties import BOOT_FILE_NAME, next_boot, raise_boot
from quorum.ports import LogFailure


@given(st.lists(st.integers(-5, 20), min_size=1, max_size=8))
def test_each_boot_is_later_than_all_before_whatever_the_clock_does(
    tmp_path_factory: pytest.TempPathFactory, walls: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("boots")
    boots = [next_boot(folder, wall) for wall in walls]
    assert boots == sorted(set(boots))
    assert all(boot >= wall for boot, wall in zip(boots, walls, strict=True))


def test_the_first_boot_is_the_time(tmp_path: Path) -> None:
    assert next_boot(tmp_path, 1_795_236_537_164) == 1_795_236_537_164


def test_a_boot_timestamp_that_was_raised_is_remembered(tmp_path: Path) -> None:
    next_boot(tmp_path, 5)
    raise_boot(tmp_path, 100)
    assert next_boot(tmp_path, 6) == 101


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it does not hold a version and a boot.timestamp"),
        (b"version=1\nboot.timestamp=x\n", "it does not hold a version"),
        (b"version=2\nboot.timestamp=5\n", "version 2, only version 1 is known"),
        (b"version=1\nboot.timestamp=9223372036854775807\n", "no room for a later boot"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / BOOT_FILE_NAME).write_bytes(content)
    with pytest.raises(FileDamaged, match=why):
        next_boot(tmp_path, 5)


def test_a_disk_that_does_not_keep_it_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(LogFailure, match="cannot be written"):
        raise_boot(tmp_path / "gone", 5)
