import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.cli.records import LINE_BYTES_MAX, LineSplitter, parse, render, separator_bytes


def lines(*pieces: bytes) -> list[bytes]:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return [*found, *splitter.end()]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert lines(*pieces) == lines(data)
    assert (
        lines(data)
        == [line.removesuffix(b"\r") for line in data.split(b"\n")][
            : None if data and not data.endswith(b"\n") else -1
        ]
    )


def test_a_line_that_no_record_can_hold_is_refused_before_it_ends() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"ok\n")) == [b"ok"]
    with pytest.raises(ValueError, match=r"^line 2 has more than 1048576 bytes"):
        list(splitter.feed(b"x" * (LINE_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    ("line", "separator", "record"),
    [
        (b"a=b=c", b"=", (b"a", b"b=c")),
        (b"=b", b"=", (b"", b"b")),
        (b"a=b", None, (None, b"a=b")),
    ],
)
def test_the_key_ends_at_the_first_separator(
    line: bytes, separator: bytes | None, record: tuple[bytes | None, bytes]
) -> None:
    assert parse(line, separator) == record
    assert render(*record, separator) == line + b"\n"


def test_headers_come_first_as_in_kafkas_console_consumer() -> None:
    headers = [("a", b"1"), ("b", None)]
    assert render(b"k", b"v", b"=", headers) == b"a:1,b:\tk=v\n"
    assert render(None, b"v", None, []) == b"NO_HEADERS\tv\n"


def test_a_line_without_the_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="the line 'plain' has no '='"):
        parse(b"plain", b"=")


def test_a_missing_value_is_empty_in_a_line() -> None:
    assert render(None, None, b":") == b":\n"


@pytest.mark.parametrize(
    ("typed", "separator"),
    [(r"\t", b"\t"), (r"\n", b"\n"), (r"\\t", rb"\t"), (r"\x", rb"\x"), ("=>", b"=>")],
)
def test_a_tab_can_be_typed_as_an_escape(typed: str, separator: bytes) -> None:
    assert separator_bytes(typed) == separator
