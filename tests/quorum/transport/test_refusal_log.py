import logging

import pytest

from quorum.transport.refusal_log import KEYS_MAX, QUIET_MS, QUIET_MS_MAX, RefusalLog
from tests.quorum.transport.loopback import ManualClock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that were logged since the last call."""
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    caplog.clear()
    return said


def test_the_same_complaint_of_a_host_is_said_once_in_a_while_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    refusal_log = RefusalLog("kafka", clock)
    for port in range(100):
        refusal_log.cut_off(f"10.0.0.1:{port}", "Vote v9, served are versions 0 to 1")
    assert lines(caplog) == [
        "kafka: closed the connection from 10.0.0.1:0: Vote v9, served are versions 0 to 1"
    ]
    clock.ms += QUIET_MS - 1
    refusal_log.cut_off("10.0.0.1:7", "Vote v9, served are versions 0 to 1")
    assert lines(caplog) == []
    clock.ms += 1
    refusal_log.cut_off("10.0.0.1:8", "Vote v9, served are versions 0 to 1")
    assert lines(caplog) == [
        "kafka: closed the connection from 10.0.0.1:8: Vote v9, served are versions 0 to 1"
        " (repeated 100 times since the last line)"
    ]


def test_a_refusal_that_goes_on_for_an_hour_is_said_nine_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A node with a wrong certificate, say, that tries again every second."""
    clock = ManualClock()
    refusal_log = RefusalLog("kafka", clock)
    told: list[int] = []
    for second in range(3_600):
        refusal_log.cut_off("10.0.0.1:7", "its certificate is refused")
        told += [second] * len(lines(caplog))
        clock.ms += 1_000
    assert told == [0, 10, 30, 70, 150, 310, 630, 1_270, 2_550]
    clock.ms += 2 * QUIET_MS_MAX
    refusal_log.cut_off("10.0.0.1:7", "its certificate is refused")
    (line,) = lines(caplog)
    assert line.endswith("(repeated 1049 times since the last line)")


def test_another_host_and_another_reason_are_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    refusal_log = RefusalLog("kafka", ManualClock())
    for peer, reason in [("10.0.0.1:1", "a"), ("10.0.0.2:1", "a"), ("10.0.0.1:1", "b")]:
        refusal_log.cut_off(peer, reason)
        assert len(lines(caplog)) == 1


def test_a_host_with_ever_new_errors_fills_neither_memory_nor_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    refusal_log = RefusalLog("kafka", clock)
    for n in range(10 * KEYS_MAX):
        refusal_log.cut_off("10.0.0.1:1", f"reason {n}")
    said = lines(caplog)
    assert len(said) == KEYS_MAX + 1
    assert said[-1].endswith("too many different refusals to log them all")
    clock.ms += QUIET_MS
    refusal_log.cut_off("10.0.0.1:1", "reason 1")
    assert len(lines(caplog)) == 1
