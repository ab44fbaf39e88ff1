"""The client for etcd's protocol, and the table beside other replicated logs."""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

import pytest

from bench.beside_others import without_kafka
from bench.isr_connection import Claim
from bench.peers.downloads import run
from bench.peers.etcd_connection import (
    PREFACE,
    EtcdConnection,
    frame,
    number,
    opening,
    put,
    request,
    revision_of,
)
from bench.peers.figures import (
    ETCD,
    FIGURES,
    KAFKA,
    OURS,
    PYSYNCOBJ,
    SIDES,
    STEPS,
    absences,
    table,
)
from bench.peers.kafka import changes_held
from bench.peers.steps import STEPS as MEASURED
from quorum.core.vocabulary import Epoch, Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.records.encode import encode, stamp
from statemachine.records.codec import encode as encode_record
from statemachine.records.kafka_records import PartitionChange

DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END = 1
# A ResponseHeader of cluster 5, member 6, revision 300, term 2, as PutResponse has it.
PUT_RESPONSE = b"\x0a\x09\x08\x05\x10\x06\x18\xac\x02\x20\x02"


def answered(revision: bytes = b"\xac\x02", *, data: bool = True) -> bytes:
    message = PUT_RESPONSE.replace(b"\xac\x02", revision)
    body = b"\x00" + len(message).to_bytes(4, "big") + message
    parts = [frame(HEADERS, 4, 1, b"\x88")]
    if data:
        parts.append(frame(DATA, 0, 1, body))
    return b"".join((*parts, frame(HEADERS, 4 | END, 1, b"\xbf")))


class Wire(asyncio.Transport):
    """The bytes that a connection writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


def asking() -> tuple[EtcdConnection, Wire, list[str]]:
    failures: list[str] = []
    connection, wire = EtcdConnection(3, failures.append), Wire()
    connection.connection_made(wire)
    connection.go()
    return connection, wire, failures


def test_the_revision_of_an_answer_is_read() -> None:
    assert revision_of(b"\x00\x00\x00\x00\x0b" + PUT_RESPONSE) == 300
    assert revision_of(b"") is None
    assert revision_of(b"\x00\x00\x00\x00\x02\x12\x00") is None


def test_requests_differ_in_the_stream_alone() -> None:
    first, second = request(b"/a", put(b"k", b"v")), request(b"/a", put(b"k", b"v"))
    number(first, 1)
    number(second, 3)
    differing = [at for at, (one, two) in enumerate(zip(first, second, strict=True)) if one != two]
    assert len(differing) == 2
    assert first.endswith(b"\x00\x00\x00\x00\x06\x0a\x01k\x12\x01v")


async def test_a_put_follows_upon_each_answer_however_it_is_cut() -> None:
    connection, wire, failures = asking()
    assert wire.written[0] == opening()
    assert wire.written[0].startswith(PREFACE)
    answer = answered() + answered(b"\xad\x02")
    for at in range(len(answer)):
        connection.data_received(answer[at : at + 1])
    assert (connection.answered, failures) == (2, [])
    assert len(wire.written) == 4


async def test_settings_and_pings_are_acknowledged() -> None:
    connection, wire, _ = asking()
    connection.data_received(frame(SETTINGS, 0, 0, b"") + frame(PING, 0, 0, b"12345678"))
    assert wire.written[2:] == [frame(SETTINGS, 1, 0, b""), frame(PING, 1, 0, b"12345678")]
    connection.data_received(frame(SETTINGS, 1, 0, b""))
    assert len(wire.written) == 4


@pytest.mark.parametrize("answer", [answered(data=False), answered() + answered()])
async def test_an_answer_that_proves_nothing_ends_the_run(answer: bytes) -> None:
    """A failed call has no data, and a revision that does not rise is of no new change."""
    connection, _, failures = asking()
    connection.data_received(answer)
    assert failures
    assert "has no newer revision" in failures[0]


def test_the_table_says_what_was_reached() -> None:
    measured = {
        OURS: {"commits-128": [30.0, 20.0, 25.0], "cpu-128": [0.4], "idle": [0.3]},
        ETCD: {"commits-128": [10.0], "cpu-128": [1.0], "idle": [2.0]},
        KAFKA: {"commits-128": [2.0], "cpu-128": [4.0]},
        PYSYNCOBJ: {"commits-128": [14.0]},
    }
    lines = table(measured).splitlines()[2:]
    assert len(lines) == 3
    # 2.5 times etcd would do, but not 1.8 times PySyncObj.
    assert lines[0].endswith(
        "| 25 (20–30) | 10 | 2 | 14 | 2.50 | 12.5 | 2 x etcd | 3 x etcd | no |"
    )
    assert lines[1].endswith("| 0.4 | 1 | 4 | – | 0.40 | 0.10 | 0.5 of etcd | 0.3 of etcd | must |")
    assert lines[2].endswith("| 0.3 | 2 | – | – | 0.15 | – | 1 % | 0.35 % | aim |")


def test_a_fail_over_reports_median_worst_and_count() -> None:
    measured = {OURS: {"killed": [0.1, 0.2, 2.6]}, ETCD: {"killed": [1.0, 2.0]}}
    median, worst = table(measured).splitlines()[2:]
    cells = "| 0.2 (0.1–2.6 of 3) | 1.5 (1–2 of 2) | – | – | 0.13 | – |"
    assert median.endswith(f"{cells} 0.5 s | 0.3 s | aim |")
    assert worst.endswith("| 2.6 | 2 | – | – | 1.30 | – | 2.5 s | 1.5 s | no |")


def test_a_side_that_cannot_be_measured_is_named_with_its_reason() -> None:
    measured = {OURS: {"idle": [0.3]}}
    reason = "there is no java: install Java 17 or newer"
    shown = table(measured, [KAFKA])
    assert absences({KAFKA: reason}) == {"Kafka is left out": reason}
    assert "| 0.3 | – | left out | – |" in shown


def test_without_java_kafka_is_left_out_by_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    kafka, left_out = without_kafka(SIDES)
    assert kafka is None
    sentence = f"JAVA_HOME is {tmp_path}, and has no bin/java: install Java 17 or newer"
    assert left_out == {KAFKA: sentence}
    assert capsys.readouterr().err == f"Kafka is left out: {sentence}\n"
    assert without_kafka([OURS]) == (None, {})


def test_the_records_of_each_partition_in_a_log_are_counted(tmp_path: Path) -> None:
    """Records of its own topic only, in every segment, up to an incomplete batch."""
    claims = [
        Claim(number=each, topic_id=UUID(int=7 << 80), replicas=(1, 2), broker_epochs={})
        for each in range(2)
    ]
    isrs = [(7 << 80, 0, (1,)), (8 << 80, 0, (2,)), (7 << 80, 0, (1, 2)), (7 << 80, 1, (1,))]
    log = SegmentedLog(tmp_path, segment_bytes_max=1)
    for offset, (topic, at, isr) in enumerate(isrs):
        change = PartitionChange(partition_id=at, topic_id=UUID(int=topic), isr=isr)
        batch = encode([encode_record(change, 29)], timestamp_ms=0)
        stamp(batch, Offset(offset), Epoch(1))
        log.append(bytes(batch))
    log.commit()
    log.close()
    assert changes_held(tmp_path, claims) == {0: (2, (1, 2)), 1: (1, (1,))}
    last = max(tmp_path.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    assert changes_held(tmp_path, claims) == {0: (2, (1, 2)), 1: (0, (1, 2))}


def test_every_figure_has_a_step_that_measures_it() -> None:
    assert {figure.step for figure in FIGURES.values()} == set(STEPS) == set(MEASURED)


def test_an_installation_has_none_of_the_settings_of_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PYTHONSAFEPATH, the setup.py of PySyncObj does not find the package beside it."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "setup.py").write_text("import beside")
    run([sys.executable, "setup.py"], "the package", tmp_path)
