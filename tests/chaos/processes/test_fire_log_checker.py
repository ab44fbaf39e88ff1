"""The checks of a run of real processes: faults that are found, and logs that pass."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from chaos.processes.load import CLIENT_METRICS, NAME, Register, number_of
from chaos.processes.log_checker import committed_log, disagreements, missing
from chaos.processes.report import Report, Round
from chaos.processes.timeline import percentile
from quorum.core.vocabulary import Epoch, Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.records.encode import encode, stamp
from statemachine.records.codec import encode as encode_record
from statemachine.records.kafka_records import Config

LEVEL: Final = 29


def batch(base: int, values: Sequence[bytes]) -> bytes:
    made = encode(values, timestamp_ms=0)
    stamp(made, Offset(base), Epoch(1))
    return bytes(made)


def write(name: str, number: int) -> bytes:
    """The record of one write."""
    config = Config(resource_type=CLIENT_METRICS, resource_name=name, name=NAME, value=f"n{number}")
    return encode_record(config, LEVEL)


LOG: Final = batch(0, [b"a", b"b"]) + batch(2, [b"c"]) + batch(3, [b"d"])


def test_logs_that_are_the_same_bytes_agree() -> None:
    assert disagreements({1: (0, LOG), 2: (0, LOG), 3: (0, LOG)}, 4) == []


def test_a_log_that_begins_later_is_compared_from_there() -> None:
    assert disagreements({1: (0, LOG), 2: (2, LOG[len(batch(0, [b"a", b"b"])) :])}, 4) == []


def test_one_byte_that_differs_is_found() -> None:
    changed = LOG[:-2] + bytes([LOG[-2] ^ 1]) + LOG[-1:]
    (problem,) = disagreements({1: (0, LOG), 2: (0, changed)}, 4)
    assert problem == f"the logs of nodes 1 and 2 differ at byte {len(LOG) - 2}"


def test_a_log_that_is_short_of_the_high_watermark_is_found() -> None:
    short = LOG[: -len(batch(3, [b"d"]))]
    problems = disagreements({1: (0, LOG), 2: (0, short)}, 4)
    assert problems[0] == "the log of node 2 has 3 records, committed are 4"


def test_the_committed_log_is_read_from_the_folder(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / LOG_FOLDER)
    log.append(LOG)
    log.commit()
    log.close()
    uncommitted = len(batch(3, [b"d"]))
    assert committed_log(tmp_path, 3) == (0, LOG[:-uncommitted])


def test_an_acknowledged_write_that_is_not_in_the_log_is_found() -> None:
    registers = [Register("a", asked=3, acknowledged=[1, 3]), Register("b", asked=1)]
    whole = batch(0, [write("a", 1), write("a", 2), write("a", 3)])
    assert missing(registers, 0, whole) == []
    lost = batch(0, [write("a", 1), write("a", 2), write("b", 3)])
    assert missing(registers, 0, lost) == [
        "1 writes of a were acknowledged and are not in the log, the first is 3"
    ]


def test_writes_in_a_snapshot_are_not_missed_in_the_log() -> None:
    registers = [Register("a", asked=3, acknowledged=[1, 2, 3])]
    assert missing(registers, 1, batch(1, [write("a", 2), write("a", 3)])) == []
    assert missing(registers, 1, batch(1, [write("a", 2), write("b", 3)])) == [
        "1 writes of a were acknowledged and are not in the log, the first is 3"
    ]


@pytest.mark.parametrize(("shown", "allowed"), [(3, True), (4, True), (2, True), (1, False)])
def test_a_register_shows_its_last_acknowledged_write_or_one_that_nobody_answered(
    shown: int, allowed: bool
) -> None:
    assert Register("a", asked=4, acknowledged=[1, 3]).may_hold(shown) is allowed


def test_a_register_never_shows_what_was_never_written() -> None:
    register = Register("a", asked=4, acknowledged=[1])
    assert not register.may_hold(5)
    assert not register.may_hold(0)
    assert Register("b").may_hold(number_of(None))


def test_the_report_says_what_was_missed() -> None:
    rounds = [
        Round(number=n, kind="kill-one", fault="kill-one 1", recovery_ms=30.0 * n)
        for n in range(1, 101)
    ]
    report = Report(
        seed=7,
        nodes=3,
        network="loopback",
        settings={},
        rounds=rounds,
        acknowledged=10,
        unknown=1,
        committed=12,
        log_bytes=900,
        disks=3,
        problems=["the logs of nodes 1 and 2 differ at byte 3"],
    )
    assert percentile(report.recoveries_ms, 99) == 2_970
    said = str(report)
    assert "recovery within 3000 ms (p99): met" in said
    assert said.endswith("1 problems")
    assert "PROBLEM: the logs of nodes 1 and 2 differ at byte 3" in said
    assert report.as_data()["recovery_p99_ms"] == 2_970
