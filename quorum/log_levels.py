"""The levels of this process's loggers, read and changed while it runs (Kafka's broker loggers).

Names are those of the second word of a log line; `root` stands for all that have no level of their
own. Levels have Kafka's names (KIP-412). The audit log is not among them: it cannot be silenced.
"""

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from quorum.log_events import LogEvent

ROOT: Final = "root"
TRACE: Final = 5
"""Kafka's level below DEBUG."""
LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "TRACE": TRACE,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
    }
)
"""Kafka's names of the levels."""
_NAMES: Final = {level: name for name, level in LEVELS.items()}
_NAME_CHARACTERS_MAX: Final = 100
"""Of a name that is compared with those that there are."""
AUDIT: Final = "audit"
"""The logger of the audit log."""

logger = logging.getLogger("process")


def parse_level(text: str) -> int:
    """Return the level of a name; raises `ValueError`, which names those that there are."""
    level = LEVELS.get(text.strip().upper())
    if level is None:
        raise ValueError(f"{text!r} is not a level; there are {', '.join(LEVELS)}")
    return level


def begin(levels: Mapping[str, int]) -> None:
    """Set the levels with which the process starts."""
    for name, level in levels.items():
        _logger(name).setLevel(level)


def levels() -> Mapping[str, str]:
    """Return the level in force of every logger, by name."""
    found: dict[str, logging.Logger] = {ROOT: logging.root}
    for name, each in logging.root.manager.loggerDict.items():
        if isinstance(each, logging.Logger) and name.partition(".")[0] != AUDIT:
            found[name] = each
    return {name: _name(found[name].getEffectiveLevel()) for name in sorted(found)}


def refusal(name: str, level: str | None) -> str | None:
    """Return why this level cannot be set, None for the level of `root`; or None if it can."""
    known = levels()
    if name not in known:
        near = get_close_matches(name[:_NAME_CHARACTERS_MAX], known, n=1)
        right = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}"
        return f"Logger {name} does not exist! {right}"
    if level is None:
        return (
            f"Removing the log level of the {ROOT} logger is not allowed" if name == ROOT else None
        )
    try:
        parse_level(level)
    except ValueError as error:
        return f"Cannot set the log level of {name}: {error}"
    return None


SET: Final = 0
DELETE: Final = 1
"""The operations of IncrementalAlterConfigs that a level takes (KIP-339)."""

Change = tuple[str, int, str | None]
"""The name of a logger, the operation, and the new level."""


def other_node(node: int, asked: str) -> str | None:
    """Return why node `node` does not answer for the loggers of `asked`, or None."""
    if asked == str(node):
        return None
    return f"this is node {node}, which knows its own loggers alone: send the request to {asked}"


def text(changes: Sequence[Change]) -> str:
    """Return the changes as the audit log has them."""
    return ", ".join(f"{name}={'' if op == DELETE else level}" for name, op, level in changes)


def alter(changes: Sequence[Change], who: str, *, validate_only: bool) -> str | None:
    """Carry out all changes, or return why one of them, and so none, can be."""
    for name, operation, level in changes:
        if operation not in (SET, DELETE):
            return f"{name}: a log level can be set and deleted, and not be appended to"
        reason = refusal(name, None if operation == DELETE else level or "")
        if reason is not None:
            return reason
    for name, operation, level in changes if not validate_only else ():
        _change(name, None if operation == DELETE else level, who)
    return None


def _change(name: str, level: str | None, who: str) -> None:
    """Set the level of a logger, or with None let it have that of `root`; `refusal` allows it."""
    before = levels()[name]
    _logger(name).setLevel(logging.NOTSET if level is None else parse_level(level))
    line = "The log level of %s is %s now, was %s; set by %s"
    values = (name, levels()[name], before, who)
    extra = LogEvent.LOG_LEVEL_CHANGED.extra
    # Handled, not logged: it stands in the log whatever the level of this logger is now.
    logger.handle(
        logger.makeRecord(logger.name, logging.WARNING, "", 0, line, values, None, extra=extra)
    )


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name(level: int) -> str:
    return _NAMES.get(level, str(level))
