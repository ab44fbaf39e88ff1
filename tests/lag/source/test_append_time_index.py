"""A part of an append-time index, found by offsets, gives the same times as the whole."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="the extra spark is not installed")

import numpy as np

from lag.source import append_time_index
from lag.source.append_time_index import IndexCheck, check_index, read_index
from lag.source.files import OpenFile, read_up_to
from quorum.log.append_times import ENTRY_BYTES, HEADER_BYTES, append_times, encode_entry
from quorum.log.append_times import encode_header as header

BASE = 100
NAME = f"{BASE:020}.appendtime"
STEPS = st.lists(st.tuples(st.integers(-1, 10**6), st.integers(1, 3)), max_size=60)

Write = Callable[[bytes], Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Put an index where one is looked for."""
    folder = tmp_path_factory.mktemp("index")

    def write(content: bytes) -> Path:
        path = folder / NAME
        path.write_bytes(content)
        return path

    return write


@given(
    steps=STEPS,
    flips=st.lists(st.tuples(st.integers(0, 1_500), st.integers(1, 255)), max_size=3),
    block=st.integers(1, 7),
    ends=st.tuples(st.integers(0, 130), st.integers(0, 130)),
)
def test_a_part_of_an_index_reports_the_same_times_as_the_whole(
    write: Write,
    steps: list[tuple[int, int]],
    flips: list[tuple[int, int]],
    block: int,
    ends: tuple[int, int],
) -> None:
    content = bytearray(entries(steps))
    for at, bits in flips:
        if HEADER_BYTES <= at < len(content):
            content[at] ^= bits
    path = write(bytes(content))
    first, last = BASE + min(ends), BASE + max(ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_time_index, "_BLOCK", block)
        times = read_index(str(path), BASE, first, last)
        judged = check_index(str(path), BASE)
    slow = list(append_times(path))
    offsets = np.arange(first, last + 1)
    found, known = times.at(offsets)
    assert [int(t) if k else None for t, k in zip(found, known, strict=True)] == [
        next((each.time_ms for each in slow if each.base <= at < each.end), None)
        for at in offsets.tolist()
    ]
    count = (len(content) - HEADER_BYTES) // ENTRY_BYTES
    assert judged == IndexCheck(slow[-1].end if slow else None, count - len(slow))


def test_only_a_part_of_a_long_index_is_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(entries([(at, 1) for at in range(5_000)]))
    asked: list[int] = []

    def counted(file: OpenFile, size: int, position: int) -> bytes:
        asked.append(size)
        return read_up_to(file, size, position)

    monkeypatch.setattr(append_time_index, "_BLOCK", 64)
    monkeypatch.setattr(append_time_index, "read_up_to", counted)
    times = read_index(str(path), BASE, BASE + 3_000, BASE + 3_100)
    assert times.times_ms.tolist()[:101] == list(range(3_000, 3_101))
    assert len(times.ends) == 128
    assert sum(asked) < 30 * ENTRY_BYTES + 2 * 64 * ENTRY_BYTES


@pytest.mark.parametrize(
    ("content", "judged"),
    [
        (b"", IndexCheck()),
        (b"MQ", IndexCheck()),
        (header(), IndexCheck()),
        (header() + bytes(ENTRY_BYTES - 1), IndexCheck()),
        (header() + bytes(ENTRY_BYTES), IndexCheck(None, 1)),
    ],
)
def test_an_index_that_is_hardly_begun_says_nothing(
    write: Write, content: bytes, judged: IndexCheck
) -> None:
    path = write(content)
    times = read_index(str(path), BASE, BASE, BASE + 10)
    assert (len(times.ends), times.size_bytes) == (0, len(content))
    assert check_index(str(path), BASE) == judged


def test_ends_that_do_not_rise_are_damage(write: Write) -> None:
    path = write(header() + b"".join(encode_entry(end, end, 3) for end in (110, 105, 120, 130)))
    assert check_index(str(path), BASE) == IndexCheck(130, 1)
    times = read_index(str(path), BASE, BASE, BASE + 30)
    # How far the damaged one went, and where the next began, nobody knows.
    assert (times.ends.tolist(), times.times_ms.tolist()) == ([110, 120, 130], [110, -1, 130])


def test_a_file_that_is_no_index_reports_the_reason_and_its_length(write: Write) -> None:
    path = write(b"a text, and no index")
    # Of a stream: who waits for it to grow would otherwise wait for ever.
    assert read_index(str(path), BASE, BASE, BASE + 10).size_bytes == 20
    assert "not an index of append times" in (check_index(str(path), BASE).problem or "")
    path.unlink()
    assert read_index(str(path), BASE, BASE, BASE).size_bytes == 0
    assert "it cannot be read: No such file" in (check_index(str(path), BASE).problem or "")


def entries(steps: list[tuple[int, int]]) -> bytes:
    """An index whose entries have these times, each for so many records."""
    end, found = BASE, [header()]
    for time_ms, step in steps:
        end += step
        found.append(encode_entry(time_ms, end, -1 if time_ms < 0 else 3))
    return b"".join(found)
