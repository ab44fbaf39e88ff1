"""The account of tests with Kafka's brokers finds each kind of fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from admin.tools.demo.workload import Written
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.encode import encode, stamp
from tests.process.kafka_accounts import Deliveries, Run
from tests.process.kafka_evidence import evidence

COUNT = 5


def written() -> Written:
    """Five records, acknowledged at the first five places."""
    one = Written(given=COUNT)
    one.acknowledge(0, range(COUNT))
    return one


def given(*places: tuple[int, int | None]) -> Deliveries:
    """A group whose only member was given these records: offset and number."""
    deliveries, run = Deliveries(1), Run()
    for offset, number in places:
        deliveries.note(0, run, offset, number)
    return deliveries


ALL = [(number, number) for number in range(COUNT)]


def test_a_log_as_it_was_written_has_no_fault() -> None:
    assert given(*ALL).fault([written()]) is None


def test_a_place_that_is_given_again_after_a_rebalance_is_no_fault() -> None:
    deliveries = given(*ALL)
    run = Run()
    for offset, number in ALL[2:]:
        deliveries.note(0, run, offset, number)
    assert deliveries.fault([written()]) is None


@pytest.mark.parametrize(
    ("places", "fault"),
    [
        (ALL[:-1], "1 acknowledged records are lost"),
        ([*ALL, (5, 4)], "1 records are there twice"),
        ([*ALL[:3], (3, 4), (4, 3)], "1 records are out of order"),
        ([*ALL[:4], (4, None)], "1 records are not what was written"),
        ([*ALL[:2], *ALL[3:]], "1 records came out of turn"),
        ([*ALL, ALL[0]], "1 records came out of turn"),
        ([*ALL, (0, 1)], "1 places changed their record"),
        ([*ALL[:4], (5, 4)], "1 acknowledged records are at another offset"),
    ],
)
def test_each_fault_is_named(places: list[tuple[int, int | None]], fault: str) -> None:
    assert fault in str(given(*places).fault([written()]))


def unacknowledged(one: Written) -> None:
    one.given += 1


def lost(one: Written) -> None:
    one.given += 1
    one.acknowledge(COUNT, [COUNT])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (unacknowledged, "1 records were never acknowledged"),
        (lost, "1 acknowledged records are lost"),
    ],
)
def test_a_delivered_record_that_is_not_in_the_log_is_a_fault(
    change: Callable[[Written], None], fault: str
) -> None:
    one = written()
    change(one)
    assert given(*ALL).fault([one]) == fault


@pytest.mark.parametrize(
    ("places", "in_question"),
    [
        (ALL, set()),
        ([*ALL, (5, 4)], {4, 5}),
        ([*ALL[:4], (5, 4)], {4, 5}),
        ([*ALL, (5, None), (6, None)], {5, 6}),
    ],
)
def test_the_places_of_a_record_that_is_not_at_one_are_in_question(
    places: list[tuple[int, int | None]], in_question: set[int]
) -> None:
    assert given(*places).in_question([written()]) == {0: in_question}


def test_evidence_is_the_batches_that_hold_the_places_in_question(tmp_path: Path) -> None:
    log = tmp_path / "broker-11" / "data" / "topic-0"
    log.mkdir(parents=True)
    batches = b"".join(map(batch, range(3)))
    (log / f"{0:020}.log").write_bytes(batches + batches[:30])
    found = evidence([log.parent, tmp_path / "broker-12" / "data"], "topic", {0: {1, 7}})
    assert found == (
        "broker-11 topic-0: offsets 1 to 1 of leader epoch 4, "
        "by producer -1 in its epoch -1 from sequence -1 on"
    )


def batch(offset: int) -> bytes:
    encoded = encode([b"value"], timestamp_ms=0)
    stamp(encoded, Offset(offset), Epoch(4))
    return bytes(encoded)
