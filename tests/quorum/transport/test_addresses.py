import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.transport.address import Address, BadAddress, network_of, parse_address, peer_name


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9_092)),
        ("10.0.0.7:1", Address("10.0.0.7", 1)),
        (" one.example:65535 ", Address("one.example", 65_535)),
        ("[::1]:9092", Address("::1", 9_092)),
        ("[fe80::1%eth0]:9092", Address("fe80::1%eth0", 9_092)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'': a host is missing"),
        (":9092", "':9092': a host is missing"),
        ("[]:9092", r"'\[\]:9092': a host is missing"),
        (
            "http://one:9092/",
            "'http://one:9092/' is a URL: write host and port only, as in one:9092",
        ),
        ("SSL://", "'SSL://' is a URL: write host and port only, as in one:9092"),
        ("one two:9092", "characters that no host has"),
        ("localhost", "a port is missing, as in localhost:9092"),
        ("[::1]", r"a port is missing, as in \[::1\]:9092"),
        ("localhost:", "a port is a number from 1 to 65535, not ''"),
        ("localhost:0", "a port is a number from 1 to 65535, not '0'"),
        ("localhost:65536", "a port is a number from 1 to 65535, not '65536'"),
        ("localhost:-1", "a port is a number from 1 to 65535, not '-1'"),
        ("localhost:９", "a port is a number from 1 to 65535, not '９'"),  # noqa: RUF001
        ("::1:9092", r"write an IPv6 address in brackets, as in \[::1\]:9092"),
        ("[::1:9092", "in brackets"),
    ],
)
def test_errors_in_an_address_are_named(text: str, reason: str) -> None:
    with pytest.raises(BadAddress, match=reason):
        parse_address(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_bad_one(text: str) -> None:
    try:
        address = parse_address(text)
    except BadAddress as bad:
        assert repr(text) in str(bad)  # noqa: PT017
    else:
        assert parse_address(str(address)) == address


def test_the_name_of_a_peer_is_its_address() -> None:
    assert peer_name(("127.0.0.1", 5)) == "127.0.0.1:5"
    assert peer_name(("::1", 5, 0, 0)) == "[::1]:5"
    assert peer_name(None) == "unknown peer"


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown peer", "unknown peer"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network
