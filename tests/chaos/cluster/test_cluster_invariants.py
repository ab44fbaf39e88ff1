"""The checkers of a cluster can fail: each is shown a violation."""

from struct import pack
from typing import Any

import pytest

from chaos.cluster.invariants.history import View
from chaos.cluster.invariants.idempotency import IdempotencyInvariant
from chaos.cluster.invariants.metadata import planned
from chaos.cluster.invariants.model import Part
from chaos.cluster.invariants.record_parser import ParsedRecord, fact
from chaos.linearizability import models as said
from chaos.linearizability.checker import Key
from chaos.linearizability.client_history import ClientHistory
from chaos.violation import Violation
from statemachine.records import own_records
from statemachine.records.codec import encode

CONFIG: Key = ("config", "t", "retention.ms")
UNLIMITED = 2**31 - 1


def everyone(_broker: int) -> bool:
    return True


def a_part(replicas: tuple[int, ...], target: tuple[int, ...], **more: Any) -> Part:
    told = {"isr": replicas, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0}
    return Part(replicas=replicas, target=target, **{**told, **more})


def test_the_example_of_kip_435_is_planned_step_by_step() -> None:
    target = (5, 6, 7, 8, 9)
    current: tuple[int, ...] = (0, 1, 2, 3, 4)
    seen = []
    while current != target:
        adding, removing = planned(a_part(current, target), 1, everyone, 2, UNLIMITED)
        after = tuple(each for each in current if each not in removing) + adding
        final = tuple(each for each in target if each in after)
        current = final + tuple(each for each in after if each not in target)
        seen.append(current)
    assert seen == [(5, 0, 1, 2, 3, 4), (5, 6, 2, 3, 4), (5, 6, 7, 8, 4), (5, 6, 7, 8, 9)]


def test_only_live_brokers_are_planned_and_nobody_goes_for_nothing() -> None:
    def live(broker: int) -> bool:
        return broker != 7

    part = a_part((1, 2, 3), (4, 7, 8))
    assert planned(part, 1, live, 1, UNLIMITED) == ((4,), ())
    assert planned(a_part((4, 2, 3), (4, 7, 8)), 1, live, 1, UNLIMITED) == ((8,), (2,))


def test_under_min_isr_more_are_planned_than_the_limit() -> None:
    part = a_part((1, 2, 3), (1, 5, 6), isr=(1,))
    assert planned(part, 3, everyone, 1, UNLIMITED) == ((5, 6), (2,))


def test_a_key_that_is_used_twice_is_found() -> None:
    keys = IdempotencyInvariant()
    record = own_records.Remembered(
        key="k", fingerprint=b"f", kind="MoveStarted", answer=b"", at_ms=1
    )
    value = encode(record, 29)
    keys.take([fact(3, value)])
    assert keys.remembered == {"k": 1}
    with pytest.raises(Violation, match="L3: the request with key k is carried out again at 9"):
        keys.take([fact(9, value)])


def test_a_key_is_forgotten_when_it_is_old_and_no_earlier() -> None:
    keys = IdempotencyInvariant()
    record = own_records.Remembered(
        key="k", fingerprint=b"f" * 300, kind="MoveStarted", answer=b"a" * 200, at_ms=7_000
    )
    keys.take([fact(3, encode(record, 29))])
    forgotten = fact(4, encode(own_records.KeysForgotten(through_ms=7_000), 29))
    keys.latest_ms = lambda: 86_406_999
    with pytest.raises(Violation, match="L3: a request is forgotten 1 ms early at 4"):
        keys.take([forgotten])
    keys.latest_ms = lambda: 86_407_000
    keys.take([forgotten])
    assert keys.remembered == {}
    keys.take([fact(9, encode(record, 29))])


def test_a_move_that_is_begun_twice_with_one_key_is_found() -> None:
    keys = IdempotencyInvariant()
    begun = own_records.MoveBegun(
        id=4, kind=0, who="somebody", asked_at_ms=1, partitions=1, refused=0, key="k", name="n"
    )
    keys.take([fact(3, encode(begun, 29))])
    assert keys.moves == [4]
    with pytest.raises(Violation, match="L3: the request with key k"):
        keys.take([fact(5, encode(begun, 29))])


def test_two_answers_to_one_key_must_be_alike() -> None:
    book = ClientHistory()
    book.answers("k", "done")
    book.answers("k", "done")
    with pytest.raises(Violation, match="L3"):
        book.answers("k", "refused")


def told(book: ClientHistory, asked: Any, answer: Any) -> None:
    book.returns(book.calls(CONFIG, asked), answer)


def test_a_read_that_is_too_old_breaks_l2() -> None:
    book = ClientHistory()
    told(book, said.Set("1"), said.Done())
    told(book, said.Set("2"), said.Done())
    told(book, said.Get(), said.Value("1"))
    with pytest.raises(Violation, match="L2"):
        book.check()


def test_a_refusal_that_was_done_all_the_same_breaks_l4() -> None:
    book = ClientHistory()
    key: Key = ("partition", "t", "0")
    book.returns(book.calls(key, said.Reassign((1, 2))), said.Accepted())
    book.returns(book.calls(key, said.Cancel()), said.Refused("INVALID_REPLICA_ASSIGNMENT"))
    book.returns(book.calls(key, said.Cancel()), said.Cancelled((2, 3)))
    book.check()
    book.returns(book.calls(key, said.Cancel()), said.Refused("INVALID_REPLICA_ASSIGNMENT"))
    with pytest.raises(Violation, match="L4"):
        book.check()


def test_a_write_that_is_gone_in_the_end_breaks_l5() -> None:
    book = ClientHistory()
    told(book, said.Set("1"), said.Done())
    book.closes()
    told(book, said.Get(), said.Value(None))
    with pytest.raises(Violation, match="L5"):
        book.check()


def test_a_deletion_of_what_was_never_there_breaks_l1() -> None:
    book = ClientHistory()
    key: Key = ("topic", "t")
    book.returns(book.calls(key, said.Delete()), said.Deleted())
    with pytest.raises(Violation, match="L1"):
        book.check()


def test_an_unanswered_request_may_have_taken_effect_or_not() -> None:
    for value in ("1", None):
        book = ClientHistory()
        book.calls(CONFIG, said.Set("1"))
        told(book, said.Get(), said.Value(value))
        assert book.check() == 0


def test_a_difference_between_two_views_is_told() -> None:
    one = View({}, {"a": "t"}, {}, {})
    assert one.difference(one) == ""
    assert one.difference(View({}, {}, {}, {})) == "topics a is t, not None"
    assert "topics a is None, not t" in View({}, {}, {}, {}).difference(one)


def test_our_tagged_fields_are_under_their_numbers() -> None:
    found = fact(1, encode(own_records.KeysForgotten(through_ms=5), 29))
    assert found == ParsedRecord(1, "NoOp", {10_007: b"\x00" + pack(">q", 5) + b"\x00"})
