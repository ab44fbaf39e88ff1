"""Names and glob patterns of topics."""

import pytest

from admin.cli.topic_patterns import is_pattern, select, unmatched

NAMES = ["a.b", "aXb", "orders-1", "orders-2", "payments"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((), NAMES),
        (("a.b",), ["a.b"]),
        (("orders-*",), ["orders-1", "orders-2"]),
        (("?.b",), ["a.b"]),
        (("orders-[13]", "payments", "nope"), ["orders-1", "payments"]),
        (("ORDERS-*",), []),
    ],
)
def test_topics_are_chosen_by_name_or_glob_pattern(
    wanted: tuple[str, ...], found: list[str]
) -> None:
    assert select(NAMES, wanted) == found


def test_what_no_topic_has_is_named() -> None:
    assert unmatched(NAMES, ["orders-*", "nope", "z*"]) == [
        "there is no topic nope",
        "no topic matches z*",
    ]


def test_a_dot_is_no_pattern() -> None:
    assert not is_pattern("a.b-c_d")
    assert is_pattern("a.*")
