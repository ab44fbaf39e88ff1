import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.protocol.errors import BadFrame
from quorum.protocol.frames import FrameSplitter


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def buffered_bytes(splitter: FrameSplitter) -> int:
    """Bytes fed that have not been taken as part of a frame."""
    # A compiled class has its fields too, under their names.
    parts = [*splitter._parts, splitter._whole or b""]
    return len(splitter._data) - splitter._at + sum(map(len, parts))


def taken(splitter: FrameSplitter) -> list[bytes]:
    frames = []
    while (frame := splitter.take()) is not None:
        frames.append(frame)
    return frames


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    frames: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(framed, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameSplitter()
    out = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        splitter.feed(stream[start:end])
        out += taken(splitter)
    assert out == frames
    assert buffered_bytes(splitter) == 0


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 9))
def test_frames_may_be_taken_long_after_they_were_fed(frames: list[bytes], size: int) -> None:
    stream = b"".join(map(framed, frames))
    splitter = FrameSplitter()
    for start in range(0, len(stream), size):
        splitter.feed(stream[start : start + size])
    assert buffered_bytes(splitter) == len(stream)
    assert taken(splitter) == frames


def test_a_frame_of_the_greatest_length_is_taken_and_one_byte_more_is_not() -> None:
    splitter = FrameSplitter(frame_bytes_max=10)
    splitter.feed(framed(b"x" * 10))
    assert splitter.take() == b"x" * 10
    splitter.feed(framed(b"x" * 11))
    with pytest.raises(BadFrame, match="frame of 11 bytes, at most 10 are allowed"):
        splitter.take()


def test_the_frames_before_a_bad_one_are_still_given() -> None:
    splitter = FrameSplitter(frame_bytes_max=10)
    splitter.feed(framed(b"good") + struct.pack(">i", -5) + b"rest")
    assert splitter.take() == b"good"
    for _ in range(2):
        with pytest.raises(BadFrame, match="negative length -5"):
            splitter.take()


def test_a_length_alone_is_refused_before_any_of_its_bytes_come() -> None:
    splitter = FrameSplitter(frame_bytes_max=1_000)
    splitter.feed(struct.pack(">i", 2**31 - 1))
    with pytest.raises(BadFrame):
        splitter.take()


def test_an_unfinished_frame_takes_no_more_memory_than_has_come() -> None:
    splitter = FrameSplitter(frame_bytes_max=1_000_000)
    splitter.feed(struct.pack(">i", 1_000_000))
    assert splitter.take() is None
    for _ in range(3):
        splitter.feed(b"y" * 10)
        assert splitter.take() is None
    assert buffered_bytes(splitter) == 30


@pytest.mark.parametrize("size_bytes", [1, 2, 7, 40, 300])
def test_pieces_of_a_few_bytes_take_at_most_twice_the_memory_of_what_came(size_bytes: int) -> None:
    splitter = FrameSplitter(frame_bytes_max=1_000_000)
    frame = bytes(range(250)) * 4_000
    stream = framed(frame)
    # Each piece is an object of its own, as a socket gives it.
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for start in range(0, 200_000, size_bytes):
            splitter.feed(stream[start : start + size_bytes])
            assert splitter.take() is None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before <= 2 * 200_000 + 4_096
    splitter.feed(stream[start + size_bytes :])
    assert taken(splitter) == [frame]


def test_a_frame_that_came_whole_is_given_without_the_next_one() -> None:
    splitter = FrameSplitter()
    splitter.feed(framed(b"first") + framed(b"second")[:3])
    assert taken(splitter) == [b"first"]
    splitter.feed(framed(b"second")[3:])
    assert taken(splitter) == [b"second"]
