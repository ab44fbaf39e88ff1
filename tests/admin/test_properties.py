"""Properties files are read as Java reads them."""

import pytest

from admin.properties import InvalidProperties, read_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb:2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# a\n! b\n\n  a=1", {"a": "1"}),
        ("a=one \\\n   two \\\n   three\nb=2", {"a": "one two three", "b": "2"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
        ("a=x\\ty\\u0041", {"a": "x\tyA"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=", {"a": ""}),
        ("a=\\#no comment\\\n# but this", {"a": "#no comment# but this"}),
        (
            'sasl.jaas.config=x.Login required \\\n  username="a" \\\n  password="b";',
            {"sasl.jaas.config": 'x.Login required username="a" password="b";'},
        ),
    ],
)
def test_properties(text: str, found: dict[str, str]) -> None:
    assert {each.name: each.value for each in read_properties(text)} == found


def test_a_line_that_is_none_is_told_by_its_number_and_not_shown() -> None:
    with pytest.raises(InvalidProperties) as caught:
        list(read_properties("a=1\n\nswordfish"))
    assert caught.value.line == 3
    assert "swordfish" not in str(caught.value)
