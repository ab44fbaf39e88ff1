"""The state of idempotent producers in a partition (KIP-98, KIP-360)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits import PRODUCER_BATCHES_REMEMBERED
from broker.storage.producer_state import (
    SEQUENCE_MAX,
    ProducedBatch,
    ProducerStateManager,
    last_sequence,
)
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import Header, header_at
from quorum.records.encode import ClientRecord, encode_client

PRODUCER = 7


def header(producer_id: int, epoch: int, first: int, count: int, *, at: int = 0) -> Header:
    """The header of a batch of so many records, which lies at offset `at`."""
    batch = encode_client(
        [ClientRecord(at, None, b"")] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=first,
    )
    return header_at(batch)._replace(base_offset=at)


def produced(*batches: tuple[int, int], epoch: int = 0) -> ProducerStateManager:
    """The producer state after appending these (first sequence, count) in order."""
    producers, offset = ProducerStateManager(), 0
    for first, count in batches:
        producers.record(header(PRODUCER, epoch, first, count, at=offset))
        offset += count
    return producers


def test_the_next_batch_in_order_is_new() -> None:
    producers = produced((0, 3), (3, 2))
    assert producers.check(header(PRODUCER, 0, 5, 1)) is None


def test_a_batch_sent_again_is_found_where_it_lies() -> None:
    producers = produced((0, 3), (3, 2))
    assert producers.check(header(PRODUCER, 0, 3, 2)) == ProducedBatch(3, 4, 3, 5, 3)
    assert producers.check(header(PRODUCER, 0, 0, 3)) == ProducedBatch(0, 2, 0, 3, 0)


@pytest.mark.parametrize("first", [4, 6, 9])
def test_a_gap_is_out_of_order(first: int) -> None:
    producers = produced((0, 3), (3, 2))
    assert producers.check(header(PRODUCER, 0, first, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_part_of_a_known_batch_is_out_of_order() -> None:
    """A producer sends a batch again as it was, or splits it only before it was ever accepted."""
    producers = produced((0, 3))
    assert producers.check(header(PRODUCER, 0, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_older_than_those_remembered_is_out_of_order() -> None:
    producers = produced(*((each, 1) for each in range(PRODUCER_BATCHES_REMEMBERED + 1)))
    assert isinstance(producers.check(header(PRODUCER, 0, 1, 1)), ProducedBatch)
    assert producers.check(header(PRODUCER, 0, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() -> None:
    producers = produced((0, 1), epoch=3)
    assert producers.check(header(PRODUCER, 2, 1, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(PRODUCER, 4, 1, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(PRODUCER, 4, 0, 1)) is None


def test_a_newer_epoch_replaces_what_was_known() -> None:
    producers = produced((0, 1), (1, 1))
    producers.record(header(PRODUCER, 1, 0, 1, at=2))
    assert producers.check(header(PRODUCER, 1, 1, 1)) is None
    assert producers.check(header(PRODUCER, 0, 1, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_that_is_not_known_may_begin_anywhere() -> None:
    """KIP-360: what it wrote before may have been deleted."""
    assert ProducerStateManager().check(header(PRODUCER, 0, 42, 1)) is None


def test_sequences_start_over_after_the_largest() -> None:
    assert last_sequence(header(PRODUCER, 0, SEQUENCE_MAX, 2)) == 0
    producers = produced((SEQUENCE_MAX, 1))
    assert producers.check(header(PRODUCER, 0, 0, 1)) is None


def test_batches_without_a_producer_are_not_remembered() -> None:
    producers = ProducerStateManager()
    producers.record(header(-1, -1, -1, 1))
    assert producers.saved() == []


def test_a_truncation_forgets_the_batches_that_are_gone() -> None:
    producers = produced((0, 1), (1, 1), (2, 1))
    assert not producers.truncate(2)
    assert producers.check(header(PRODUCER, 0, 2, 1)) is None
    assert isinstance(producers.check(header(PRODUCER, 0, 1, 1)), ProducedBatch)


def test_a_truncation_says_when_the_log_must_be_read_again() -> None:
    producers = produced(*((each, 1) for each in range(PRODUCER_BATCHES_REMEMBERED + 2)))
    assert producers.truncate(2)
    assert producers.saved() == []


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=40))
def test_the_log_holds_each_sequence_once_and_in_order(
    sent: list[tuple[int, int]],
) -> None:
    """The twin: a list of the sequence numbers that a log would hold."""
    producers, log, places = ProducerStateManager(), list[int](), dict[tuple[int, int], int]()
    for first, count in sent:
        batch = header(PRODUCER, 0, first, count, at=len(log))
        match producers.check(batch):
            case ProducedBatch() as known:
                assert places[first, count] == known.base_offset
            case None:
                assert not log or first == log[-1] + 1
                places[first, count] = len(log)
                producers.record(batch)
                log += range(first, first + count)
            case ErrorCode():
                assert log
                assert first != log[-1] + 1
    assert log == list(range(log[0], log[0] + len(log))) if log else True
