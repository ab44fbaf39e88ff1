"""Segments of an unknown format: refused by name, and never cut."""

from pathlib import Path

import pytest

from quorum.log.errors import FormatUnknown, LogDamaged
from quorum.log.segmented_log import SegmentedLog
from tests.contracts.batches import batch, run
from tests.quorum.log.damaged_folders import contents, filled_folder

MAGIC_POSITION = 16


def of_format(magic: int, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[MAGIC_POSITION] = magic
    return bytes(changed)


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("known", [0, 1, 3])
@pytest.mark.parametrize("newer", [1, 2, 3])
def test_newer_batches_behind_known_ones_are_refused_and_nothing_is_changed(
    tmp_path: Path, newer: int, known: int, synced: bool
) -> None:
    """As left by a version of the program that was upgraded and put back."""
    batches = run(0, *[1] * (known + newer))
    ours, theirs = batches[:known], [of_format(3, each) for each in batches[known:]]
    (file,) = filled_folder(tmp_path / "log", batches)
    file.write_bytes(b"".join([*ours, *theirs]))
    before = contents(tmp_path / "log")
    position = sum(map(len, ours))
    what = f"a record batch of format 3 at byte {position}, offset {known}; only 2 is known"
    with pytest.raises(FormatUnknown) as caught:
        SegmentedLog(tmp_path / "log", synced=synced)
    assert str(caught.value) == (
        f"{file}: {what}. Nothing has been changed. Start the version of the program that wrote "
        "it, or give this node an empty folder"
    )
    assert contents(tmp_path / "log") == before


def test_a_newer_segment_behind_a_known_one_is_refused(tmp_path: Path) -> None:
    first, last = filled_folder(tmp_path / "log", run(0, 1, 1), segment_bytes_max=1)
    last.write_bytes(of_format(4, last.read_bytes()))
    with pytest.raises(FormatUnknown, match=f"{last}: a record batch of format 4 at byte 0"):
        SegmentedLog(tmp_path / "log")
    first.write_bytes(of_format(4, first.read_bytes()))
    with pytest.raises(FormatUnknown, match=f"{first}: a record batch of format 4 at byte 0"):
        SegmentedLog(tmp_path / "log")


def test_an_old_message_set_of_kafka_is_refused(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", [batch(0)])
    file.write_bytes(of_format(1, file.read_bytes()))
    with pytest.raises(FormatUnknown, match=f"{file}: a record batch of format 1 at byte 0"):
        SegmentedLog(tmp_path / "log")


def test_zeros_of_a_crash_are_not_taken_for_an_unknown_format(tmp_path: Path) -> None:
    """Zeros, where a sector was not written."""
    (file,) = filled_folder(tmp_path / "log", [batch(0), batch(1, size=2_000)])
    data = bytearray(file.read_bytes())
    data[len(batch(0)) :] = bytes(len(data) - len(batch(0)))
    file.write_bytes(data)
    log = SegmentedLog(tmp_path / "log")
    assert log.end.offset == 1
    log.close()


def test_a_format_that_turned_over_before_sound_batches_is_damage(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", run(0, 1, 1))
    file.write_bytes(of_format(6, file.read_bytes()))
    with pytest.raises(LogDamaged, match="magic 6, only 2 is known; sound batches follow"):
        SegmentedLog(tmp_path / "log")
