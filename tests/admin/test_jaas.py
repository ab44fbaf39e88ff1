"""JAAS entries as Kafka's documentation writes them."""

import pytest

from admin.jaas import InvalidJaas, parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{SCRAM} required;", {}),
        (
            f'{SCRAM} required username="a" password="x";',
            {"username": "a", "password": "x"},
        ),
        (f"{SCRAM}  REQUIRED  username = 'a b'\n password=plain ; ", {"username": "a b"}),
        (f'{SCRAM} required password="quo\\"te;";', {"password": 'quo"te;'}),
        (f'{PLAIN} required user_admin="secret" user_b.c="d";', {"user_b.c": "d"}),
    ],
)
def test_entries(text: str, options: dict[str, str]) -> None:
    found = parse_jaas(text)
    assert {name: found.text(name) for name in options} == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it does not begin like"),
        ("com.example.OtherLoginModule required;", "is not supported; there are org.apache"),
        (f"{SCRAM} username='swordfish';", "stands 'username', not `required`"),
        (f'{SCRAM} required username="a" password="swordfish"', "after the option password"),
        (f'{SCRAM} required password="swordfish', "after required"),
        (f'{SCRAM} required; {SCRAM} required password="swordfish";', "more than one login module"),
    ],
)
def test_what_is_none_is_refused_without_its_values(text: str, message: str) -> None:
    with pytest.raises(InvalidJaas) as caught:
        parse_jaas(text)
    assert message in str(caught.value)
    assert "swordfish" not in str(caught.value)


def test_no_value_is_in_a_repr() -> None:
    assert "swordfish" not in repr(parse_jaas(f'{SCRAM} required password="swordfish";'))
