"""The extension of a heartbeat that reports the progress of copies."""

from typing import Any
from uuid import UUID

import pytest

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.protocol.extension import Extension, details_of, with_extension
from statemachine.limits import COPY_REPORTS_MAX
from statemachine.reassignment.copies import CopyReport, CopyReports

REPORT = CopyReport(topic_id=UUID(int=9), partition=3, bytes_left=2**40, bytes_per_s=77)


def heartbeat(version: int, **values: Any) -> bytes:
    """The body of a heartbeat as kio writes it."""
    return codec.request_body(
        ApiKey.BROKER_HEARTBEAT,
        version,
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=True,
        **values,
    )


def reported(version: int, body: bytes) -> Any:
    """The reports in a heartbeat."""
    message = codec.decode_request(ApiKey.BROKER_HEARTBEAT, version, body)
    return details_of(message, CopyReports)


def reporting(version: int, *reports: Any) -> bytes:
    """A heartbeat with these reports."""
    schema = codec.request_schema(ApiKey.BROKER_HEARTBEAT, version)
    return with_extension(schema, heartbeat(version), Extension.with_details(reports))


@pytest.mark.parametrize("version", [0, 1])
def test_reports_come_back_as_they_were_written(version: int) -> None:
    assert reported(version, reporting(version, REPORT, REPORT)) == (REPORT, REPORT)
    assert reported(version, heartbeat(version)) is None


def test_behind_a_tagged_field_of_kafkas_own_ours_is_found() -> None:
    theirs = heartbeat(1, offline_log_dirs=(UUID(int=5),))
    assert theirs[22:23] == b"\x01"
    assert reported(1, theirs) is None
    ours = reporting(1, REPORT)[23:]
    both = theirs[:22] + b"\x02" + theirs[23:] + ours
    read = codec.decode_request(ApiKey.BROKER_HEARTBEAT, 1, both)
    assert read.offline_log_dirs == (UUID(int=5),)
    assert reported(1, both) == (REPORT,)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([[REPORT.topic_id, 3, 0]], "Expected `array` of at least length 4"),
        ([REPORT] * (COPY_REPORTS_MAX + 1), "length <= 1000"),
        ([[REPORT.topic_id, -1, 0, 0]], "Expected `int` >= 0"),
        ([[REPORT.topic_id, 0, -1, 0]], "Expected `int` >= 0"),
        ([[REPORT.topic_id, 0, 0, -1]], "Expected `int` >= 0"),
        ([[REPORT.topic_id, 0, 2**63, 0]], "Expected `int` <= "),
    ],
)
def test_an_invalid_report_is_refused(reports: list[Any], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        reported(1, reporting(1, *reports))
