"""The log of a process: what comes from the network neither forges lines nor fills the disk."""

import io
import json
import logging
import re

import pytest

from quorum import process_log
from quorum.log_events import LogEvent
from quorum.process_log import LINES_MAX, WINDOW_SECONDS, LogFormat


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    """A logger with the handler of a process."""
    logger, said = logging.Logger("node"), io.StringIO()  # noqa: LOG001 - nobody else has it
    handler = process_log.handler()
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(said)
    logger.addHandler(handler)
    return logger, said


def test_a_message_is_one_printable_line(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, said = log
    logger.warning("broker %s refused", "x\n2026-01-01 ERROR forged \x1b[2J\u202e")
    (line,) = said.getvalue().splitlines()
    assert line.endswith(r"broker x\n2026-01-01 ERROR forged \x1b[2J\u202e refused")


def test_an_error_keeps_its_lines_and_is_printable(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, said = log
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logger.exception("failed")
    first, *_, last = said.getvalue().splitlines()
    assert first.endswith("failed")
    assert last == r"ValueError: \x1b[2J"


def test_a_stack_trace_is_logged_once_in_a_while(
    log: tuple[logging.Logger, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, said = log
    now = [1_000.0]
    monkeypatch.setattr("logging.time.time", lambda: now[0])
    monkeypatch.setattr("logging.time.time_ns", lambda: int(now[0] * 1e9), raising=False)

    def fail(key: str) -> None:
        try:
            raise KeyError(key)
        except KeyError:
            logger.exception("failed for %s", key)

    for each in ("a", "b", "c"):
        fail(each)
    assert said.getvalue().count("Traceback") == 1
    now[0] += WINDOW_SECONDS
    fail("d")
    assert said.getvalue().count("Traceback") == 2
    assert "failed for d (2 more like it were left out)" in said.getvalue()


def test_one_place_logs_so_many_lines(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, said = log
    for number in range(LINES_MAX + 50):
        logger.info("refused %d", number)
    logger.info("another place is heard")
    lines = said.getvalue().splitlines()
    assert len(lines) == LINES_MAX + 1
    assert lines[-1].endswith("another place is heard")


@pytest.fixture
def json_log() -> tuple[logging.Logger, io.StringIO, process_log.ProcessHandler]:
    """A logger with the handler of a process that writes JSON."""
    logger, said = logging.Logger("node"), io.StringIO()  # noqa: LOG001 - nobody else has it
    handler = process_log.handler(LogFormat.JSON)
    handler.setStream(said)
    logger.addHandler(handler)
    return logger, said, handler


def test_a_line_of_json_has_time_level_logger_event_and_message(
    json_log: tuple[logging.Logger, io.StringIO, process_log.ProcessHandler],
) -> None:
    logger, said, _ = json_log
    logger.info('broker "%s"', "x\n\x1b[2J\ud800", extra=LogEvent.BROKER_FENCED.extra)
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logger.exception("failed")
    first, second = (json.loads(each) for each in said.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "INFO",
        "logger": "node",
        "event": "broker-fenced",
        "message": r'broker "x\n\x1b[2J\ud800"',
    }
    assert second["event"] is None
    assert second["trace"][-1] == r"ValueError: \x1b[2J"


def test_a_text_line_ends_with_its_event(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, said = log
    logger.info("it leads", extra=LogEvent.ELECTED.extra)
    assert said.getvalue().endswith("it leads [elected]\n")


def test_a_flood_of_one_event_is_counted_wherever_it_comes_from(
    json_log: tuple[logging.Logger, io.StringIO, process_log.ProcessHandler],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two places share the bound, and the count is said even if no line of the event follows."""
    logger, said, handler = json_log
    now = [1_000.0]
    monkeypatch.setattr("logging.time.time", lambda: now[0])
    monkeypatch.setattr("logging.time.time_ns", lambda: int(now[0] * 1e9), raising=False)
    for number in range(LINES_MAX):
        logger.info("here %d", number, extra=LogEvent.ISR_CHANGED.extra)
        logger.info("there %d", number, extra=LogEvent.ISR_CHANGED.extra)
    assert len(said.getvalue().splitlines()) == LINES_MAX
    now[0] += WINDOW_SECONDS + process_log.SUMMARY_SECONDS
    logger.info("another", extra=LogEvent.ELECTED.extra)
    summary, last = (json.loads(each) for each in said.getvalue().splitlines()[LINES_MAX:])
    assert (summary["event"], last["event"]) == ("lines-left-out", "elected")
    assert summary["message"] == f"{LINES_MAX} more lines of isr-changed were left out"
    for number in range(LINES_MAX + 3):
        logger.info("at the end %d", number, extra=LogEvent.ISR_CHANGED.extra)
    handler.close()
    assert said.getvalue().splitlines()[-1].count("3 more lines of isr-changed") == 1


def test_the_newest_lines_stay_in_memory_as_they_were_written(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, said = log
    logger.info("remembered")
    assert [*process_log.RECENT][-1] == said.getvalue().rstrip("\n")
