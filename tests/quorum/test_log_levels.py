"""Log levels that change while a process runs."""

import logging
from collections.abc import Iterator

import pytest

from quorum import log_levels
from quorum.log_levels import DELETE, SET
from quorum.transport import audit_log

NAME = "quorum.of_this_test"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """A logger of this test; the levels are put back."""
    logging.getLogger(NAME)
    before = logging.root.level, logging.getLogger("process").level
    yield
    logging.root.setLevel(before[0])
    logging.getLogger("process").setLevel(before[1])
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def test_a_level_is_set_and_given_back_to_root(caplog: pytest.LogCaptureFixture) -> None:
    log_levels.begin({"root": logging.INFO})
    assert log_levels.levels()[NAME] == "INFO"
    with caplog.at_level(logging.INFO):
        assert log_levels.alter([(NAME, SET, "debug")], "User:ann", validate_only=False) is None
    assert log_levels.levels()[NAME] == "DEBUG"
    assert f"The log level of {NAME} is DEBUG now, was INFO; set by User:ann" in caplog.text
    assert log_levels.alter([(NAME, DELETE, None)], "User:ann", validate_only=False) is None
    assert log_levels.levels()[NAME] == "INFO"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("nobody", SET, "INFO"), "Logger nobody does not exist! There are "),
        (("proces", SET, "INFO"), "Logger proces does not exist! Did you mean process?"),
        (("audit", SET, "FATAL"), "Logger audit does not exist!"),
        ((NAME, SET, "LOUD"), "'LOUD' is not a level; there are TRACE, DEBUG, INFO, WARN"),
        ((NAME, SET, None), "'' is not a level"),
        (("root", DELETE, None), "Removing the log level of the root logger is not allowed"),
        ((NAME, 2, "DEBUG"), "a log level can be set and deleted, and not be appended to"),
    ],
)
def test_all_changes_are_made_or_none(change: log_levels.Change, reason: str) -> None:
    logging.getLogger("audit")
    before = log_levels.levels()
    found = log_levels.alter([(NAME, SET, "TRACE"), change], "User:ann", validate_only=False)
    assert found is not None
    assert reason in found
    assert log_levels.levels() == before


def test_a_request_that_is_only_checked_changes_nothing() -> None:
    before = log_levels.levels()
    assert log_levels.alter([(NAME, SET, "TRACE")], "User:ann", validate_only=True) is None
    assert log_levels.levels() == before


@pytest.mark.parametrize("name", ["root", "process"])
def test_the_line_about_a_change_stands_in_the_log_at_every_level(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    logging.getLogger("process")
    assert log_levels.alter([(name, SET, "FATAL")], "User:ann", validate_only=False) is None
    assert f"The log level of {name} is FATAL now" in caplog.text


def test_the_audit_log_does_not_follow_the_level_of_root() -> None:
    assert log_levels.alter([("root", SET, "FATAL")], "User:ann", validate_only=False) is None
    assert audit_log.logger.isEnabledFor(logging.INFO)
