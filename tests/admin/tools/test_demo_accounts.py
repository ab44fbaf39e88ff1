"""Acknowledged records compared with those that were read: every difference is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.client.producer import NO_OFFSET
from admin.tools.demo.workload import (
    RECORD_BYTES_MIN,
    Balance,
    Read,
    Written,
    balance,
    content,
    number_of,
)


@given(st.integers(0, 99_999), st.integers(0, 10**12 - 1), st.integers(RECORD_BYTES_MIN, 500))
def test_a_record_says_which_one_it_is(partition: int, number: int, size_bytes: int) -> None:
    value = content(partition, number, size_bytes)
    assert len(value) == size_bytes
    assert number_of(value, partition) == number
    assert number_of(value, partition + 1) is None


@given(st.data())
def test_a_single_wrong_bit_is_noticed(data: st.DataObject) -> None:
    value = bytearray(content(3, 7, 100))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= 1 << data.draw(st.integers(0, 7))
    assert number_of(bytes(value), 3) != 7


@pytest.mark.parametrize("value", [b"", b"x", b"00003-", content(3, 7, 100)[:-1] + b"?"])
def test_anything_else_is_no_record(value: bytes) -> None:
    assert number_of(value, 3) is None


def written(*acknowledged: int, first_offset: int = 0) -> Written:
    account = Written(given=10)
    for place, number in enumerate(acknowledged):
        account.acknowledge(number, [first_offset + place])
    return account


def read(*numbers: int | None) -> Read:
    account = Read()
    for offset, number in enumerate(numbers):
        account.note(offset, number)
    return account


def test_an_account_of_acknowledged_and_read_records_balances() -> None:
    """Records that nobody acknowledged may be there or not: their fate was never told."""
    found = balance([(written(0, 1, 2), read(0, 1, 2, 3))])
    assert (found.acknowledged, found.read, found.fault) == (3, 4, None)


def test_offsets_that_nobody_knows_are_not_compared() -> None:
    account = Written()
    account.acknowledge(0, [NO_OFFSET, NO_OFFSET])
    assert balance([(account, read(0, 1))]).fault is None


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        ((written(0, 1), read(0)), "1 acknowledged records are lost"),
        ((written(0, first_offset=5), read(0)), "1 acknowledged records are at another offset"),
        ((written(0, 1), read(0, 1, 1)), "1 records are there twice"),
        ((written(0), read(0, None)), "1 records are not what was written"),
        ((written(), read(1, 0)), "1 records are out of order"),
    ],
)
def test_each_discrepancy_of_an_account_is_named(pair: tuple[Written, Read], fault: str) -> None:
    assert balance([(written(), read()), pair]).fault == fault


def test_several_faults_are_all_named() -> None:
    found: Balance = balance([(written(0, 1, 2), read(2, 2))])
    assert found.fault is not None
    assert found.fault.startswith("2 acknowledged records are lost, 1 acknowledged records are at")
