"""Power loss at every operation of a node's disk; a part of `make crashes`."""

import os
from collections.abc import Callable

import pytest

from chaos.disk.crash_points import Lost, Script, Tally, crash_everywhere, crash_images
from chaos.disk.virtual_disk import VirtualDisk
from quorum.log import filesystem, quorum_state, recovery, segment_writer
from quorum.log.filesystem import FREED_BYTES, FileSystem
from quorum.log.segmented_log import SegmentedLog

IMAGES = 500


@pytest.mark.parametrize("stretch_bytes", [FREED_BYTES, 400])
def test_every_crash_image_recovers_with_all_acknowledged_records(
    stretch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed files are small, or large enough to be removed piece by piece."""
    monkeypatch.setattr(filesystem, "FREED_BYTES", stretch_bytes)
    (*_, tally) = crash_images(IMAGES, base=0 if stretch_bytes > 400 else 1_000)
    assert tally.images >= IMAGES
    assert tally.whole > tally.points // 4


def test_a_seed_is_the_same_life_and_the_same_crashes() -> None:
    first, second = Tally(), Tally()
    crash_everywhere(3, first, images_max=10_000)
    crash_everywhere(3, second, images_max=10_000)
    assert first == second


def test_a_script_answers_in_every_way_there_is() -> None:
    script = Script()
    found = []
    while True:
        first = script.randrange(2)
        found.append((first, script.randrange(3) if first else None))
        if not script.next():
            break
    assert found == [(0, None), (1, 0), (1, 1), (1, 2)]


def without_data_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VirtualDisk, "fdatasync", lambda disk, fd: None)


def without_names_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_writer, "sync_folder", lambda folder, fs: None)


def in_place(patch: pytest.MonkeyPatch) -> None:
    def replace_file(path: os.PathLike[str], data: bytes, fs: FileSystem) -> None:
        with filesystem.opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, fs) as fd:  # type: ignore[arg-type]
            filesystem.write_all(fd, data, 0, fs)
            filesystem.sync_file(fd, fs)

    patch.setattr(quorum_state, "replace_file", replace_file)


def newest_goes_first(patch: pytest.MonkeyPatch) -> None:
    """Remove segments below the log start newest first, so that a crash leaves a gap."""
    right = SegmentedLog.remove_obsolete

    def wrong(log: SegmentedLog) -> bool:
        log._obsolete.reverse()
        return right(log)

    patch.setattr(SegmentedLog, "remove_obsolete", wrong)


def length_is_not_set_again(patch: pytest.MonkeyPatch) -> None:
    """By recovery, after a truncation whose sync has failed."""

    def write_again(fd: int, fs: FileSystem) -> None:
        filesystem.write_all(fd, filesystem.read_up_to(fd, fs.size(fd), 0, fs), 0, fs)

    patch.setattr(recovery, "_write_again", write_again)


FAULTS = [
    (without_data_sync, 0),
    (without_names_sync, 0),
    (in_place, 0),
    (newest_goes_first, 77),
    (length_is_not_set_again, 5),
]


@pytest.mark.parametrize(("plant", "seed"), FAULTS)
def test_it_can_fail(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Lost, match=f"seed {seed}, "):
        crash_everywhere(seed, Tally(), images_max=10_000)
