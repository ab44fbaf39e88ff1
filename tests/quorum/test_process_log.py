"""The log of a process: what comes from the network neither forges lines nor fills the disk."""

import io
import logging

import pytest

from quorum import process_log
from quorum.process_log import LINES_MAX, WINDOW_SECONDS


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
