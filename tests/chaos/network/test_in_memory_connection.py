"""One call in memory over the product's own connections, and the effect of corrupt bytes."""

from dataclasses import replace
from struct import pack

import pytest

from chaos.network.connection import CallResult, Side, Spoil, call
from quorum.core.limits import FRAME_BYTES_MAX
from quorum.core.messages import (
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol.raft_types import LeaderAndEpoch
from quorum.records.encode import encode

STANDING = LeaderAndEpoch(Epoch(4), ReplicaId(2))
ONE = Side(key=ReplicaKey(ReplicaId(1)), cluster_id="ours", standing=STANDING)
TWO = Side(key=ReplicaKey(ReplicaId(2)), cluster_id="ours", standing=STANDING)
END = OffsetAndEpoch(Epoch(4), Offset(70))
VOTE = VoteRequest(epoch=Epoch(5), candidate=ONE.key, log_end=END)
GRANTED = VoteResponse(epoch=Epoch(5), granted=True)
FETCH = FetchRequest(replica=ONE.key, epoch=Epoch(4), log_end=END, max_wait_ms=0, max_bytes=1)
RECORDS = bytes(encode([b"something"], timestamp_ms=1, base_offset=Offset(70), epoch=Epoch(4)))


def highest(lowest: int, highest: int) -> int:
    return highest


def ask(request: Request, answer: Response | None = None, records: bytes = b"") -> CallResult:
    return call(ONE, TWO, request, draw=highest, response=answer, records=records)


def cut(frame: bytes) -> bytes:
    return pack(">i", len(frame) - 5) + frame[4:-1]


def too_long(frame: bytes) -> bytes:
    return pack(">i", FRAME_BYTES_MAX + 1) + frame[4:]


def negative(frame: bytes) -> bytes:
    return pack(">i", -1) + frame[4:]


def test_requests_and_answers_arrive() -> None:
    told = ask(VOTE, GRANTED)
    assert told.asked is not None
    assert (told.response, told.is_over, told.is_closed, told.is_lost) == (
        GRANTED,
        True,
        False,
        False,
    )
    answer = FetchResponse(epoch=Epoch(4), leader=ReplicaId(2))
    assert ask(FETCH, answer, RECORDS).records == RECORDS


@pytest.mark.parametrize("spoil", [cut, too_long, negative])
def test_a_request_that_cannot_be_read_ends_its_connection(spoil: Spoil) -> None:
    told = call(ONE, TWO, VOTE, draw=highest, response=GRANTED, spoil_request=spoil)
    assert (told.asked, told.response, told.is_closed) == (None, None, True)


@pytest.mark.parametrize(("spoil", "is_lost"), [(cut, False), (too_long, True), (negative, True)])
def test_an_unreadable_answer_ends_the_call_without_one(spoil: Spoil, is_lost: bool) -> None:
    """A frame that cannot be told from the next one ends the connection as well."""
    told = call(ONE, TWO, VOTE, draw=highest, response=GRANTED, spoil_answer=spoil)
    assert (told.response, told.is_over, told.is_lost) == (None, True, is_lost)


def test_records_with_a_bit_turned_over_are_no_answer() -> None:
    def flipped(frame: bytes) -> bytes:
        spoilt = bytearray(frame)
        spoilt[frame.index(RECORDS) + len(RECORDS) - 5] ^= 1
        return bytes(spoilt)

    answer = FetchResponse(epoch=Epoch(4), leader=ReplicaId(2))
    told = call(
        ONE, TWO, FETCH, draw=highest, response=answer, records=RECORDS, spoil_answer=flipped
    )
    assert (told.response, told.is_over, told.is_lost) == (None, True, False)


@pytest.mark.parametrize("cluster_id", ["another", None])
def test_a_node_of_another_cluster_is_refused_and_learns_nothing(cluster_id: str | None) -> None:
    there = replace(TWO, cluster_id=cluster_id)
    told = call(ONE, there, VOTE, draw=highest, response=GRANTED)
    assert (told.asked, told.response, told.is_over, told.is_closed) == (None, None, True, False)
