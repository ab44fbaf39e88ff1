"""The tagged field of a heartbeat that says how far copies are, byte by byte."""

from struct import pack
from typing import Any
from uuid import UUID

import pytest

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.copy_reports import COPIES_TAG, COPY_REPORTS_MAX, reports_of, with_reports
from quorum.protocol.malformed import Malformed
from quorum.records.varint import uvarint
from statemachine.reassignment.copies import CopyReport

REPORT = CopyReport(topic_id=UUID(int=9), partition=3, bytes_left=2**40, bytes_per_s=77)
ENTRY = UUID(int=9).bytes + pack(">iqq", 3, 2**40, 77)


def heartbeat(version: int, **values: Any) -> bytes:
    """The body of a heartbeat as kio writes it."""
    payload = codec.make_known(
        codec.request_schema(ApiKey.BROKER_HEARTBEAT, version),
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=True,
        **values,
    )
    return codec.encode_request_body(ApiKey.BROKER_HEARTBEAT, version, payload)


def tagged(value: bytes) -> bytes:
    """A heartbeat with our tag and this value."""
    body = heartbeat(1)
    return body[:-1] + b"\x01" + uvarint(COPIES_TAG) + uvarint(len(value)) + value


@pytest.mark.parametrize("version", [0, 1])
def test_reports_come_back_as_they_were_written_and_others_skip_them(version: int) -> None:
    plain = heartbeat(version)
    body = with_reports(plain, (REPORT, REPORT))
    assert reports_of(version, body, CopyReport) == (REPORT, REPORT)
    assert reports_of(version, memoryview(body), CopyReport) == (REPORT, REPORT)
    read = codec.decode_request(ApiKey.BROKER_HEARTBEAT, version, body)
    assert read == codec.decode_request(ApiKey.BROKER_HEARTBEAT, version, plain)
    assert tagged(ENTRY) == with_reports(heartbeat(1), (REPORT,))


def test_without_reports_a_heartbeat_is_byte_by_byte_that_of_kafka() -> None:
    assert with_reports(heartbeat(1), ()) == heartbeat(1)
    assert reports_of(1, heartbeat(1), CopyReport) == ()


def test_behind_a_tagged_field_of_kafkas_own_ours_is_found() -> None:
    theirs = heartbeat(1, offline_log_dirs=(UUID(int=5),))
    assert theirs[22:23] == b"\x01"
    assert reports_of(1, theirs, CopyReport) == ()
    both = theirs[:22] + b"\x02" + theirs[23:] + uvarint(COPIES_TAG) + uvarint(len(ENTRY)) + ENTRY
    read = codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, both)
    assert read.offline_log_dirs == (UUID(int=5),)
    assert reports_of(1, both, CopyReport) == (REPORT,)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (ENTRY[:-1], "tag 10000 has 35 bytes; it is to have 36 for each of at most 1000 replicas"),
        (ENTRY * (COPY_REPORTS_MAX + 1), "tag 10000 has 36036 bytes"),
        (ENTRY[:16] + pack(">iqq", -1, 0, 0), "has a negative number"),
        (ENTRY[:16] + pack(">iqq", 0, -1, 0), "has a negative number"),
        (ENTRY[:16] + pack(">iqq", 0, 0, -1), "has a negative number"),
    ],
)
def test_what_cannot_be_a_report_is_refused(value: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        reports_of(1, tagged(value), CopyReport)
