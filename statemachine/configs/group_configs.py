"""Configurations of groups (KIP-848, KIP-932) and of client metrics subscriptions (KIP-714).

Names, types, defaults and bounds are those of `GroupConfig` and `ClientMetricsConfigs` of Kafka
4.2. Where a Kafka controller reads a bound from its own `group.*` settings, it is their default.
"""

import re
from typing import Final

from statemachine.configs.definitions import (
    INT_MAX,
    ConfigType,
    Definition,
    integer,
    listed,
    one_of,
    parts,
    table,
)
from statemachine.errors import Error, Refusal

_DURATION: Final = re.compile(
    r"by_duration:P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?"
)

GROUP_KINDS: Final = ("consumer", "share", "streams")
HEARTBEAT_MS: Final = (5_000, 15_000)
SESSION_MS: Final = (45_000, 60_000)
RECORD_LOCK_MS: Final = (15_000, 60_000)
STANDBY_REPLICAS_MAX: Final = 2


GROUP_CONFIGS: Final = table(
    *(
        integer(
            f"{kind}.heartbeat.interval.ms",
            5_000,
            f"How often the members of a {kind} group send heartbeats.",
            *HEARTBEAT_MS,
        )
        for kind in GROUP_KINDS
    ),
    *(
        integer(
            f"{kind}.session.timeout.ms",
            45_000,
            f"After how long a silent member of a {kind} group is removed.",
            *SESSION_MS,
        )
        for kind in GROUP_KINDS
    ),
    Definition(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        "Where a share group begins to read a partition.",
        "latest, earliest or by_duration:PnDTnHnMn.nS",
        lambda value: value in ("latest", "earliest") or _DURATION.fullmatch(value),
    ),
    one_of(
        "share.isolation.level",
        "read_uncommitted",
        "Whether a share group reads records of transactions that are not committed.",
        ("read_committed", "read_uncommitted"),
    ),
    integer(
        "share.record.lock.duration.ms",
        30_000,
        "How long a record is reserved for the share consumer that has fetched it.",
        *RECORD_LOCK_MS,
    ),
    integer(
        "streams.initial.rebalance.delay.ms",
        3_000,
        "How long a new streams group waits for more members before it begins.",
        0,
    ),
    integer(
        "streams.num.standby.replicas",
        0,
        "How many standby copies each task of a streams group has.",
        0,
        STANDBY_REPLICAS_MAX,
    ),
)
"""Every configuration that a group may have."""

# Any session timeout exceeds any heartbeat interval, so no check of the two is needed.
assert HEARTBEAT_MS[1] < SESSION_MS[0]


INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

MATCHED: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

CLIENT_METRICS_CONFIGS: Final = table(
    integer("interval.ms", 300_000, "How often clients push their metrics.", -INT_MAX - 1),
    listed("match", "", "Which clients it is for: name=pattern pairs with commas; none means all."),
    listed("metrics", "", "The prefixes of the metrics that are wanted; * means all of them."),
)
"""Every configuration that a subscription may have."""


def client_metrics_refusal(name: str, value: str) -> Refusal | None:
    """Return the reason to refuse this configuration of a subscription, or None."""
    definition: Definition | None = CLIENT_METRICS_CONFIGS.get(name)
    if definition is None:
        known = ", ".join(CLIENT_METRICS_CONFIGS)
        return Refusal(
            Error.INVALID_REQUEST,
            f"{name} is not a configuration of client metrics, which are {known}",
        )
    reason = definition.refusal(value)
    if reason is not None:
        return Refusal(Error.INVALID_CONFIG, reason)
    if name == "interval.ms" and not INTERVAL_MS_MIN <= int(value) <= INTERVAL_MS_MAX:
        return Refusal(
            Error.INVALID_REQUEST,
            f"{name}={value}: it must be from {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} (an hour)",
        )
    if name == "match":
        return _match_refusal(value)
    return None


def _match_refusal(value: str) -> Refusal | None:
    for part in parts(value):
        name, equals, pattern = part.partition("=")
        if not equals or "=" in pattern or not pattern.strip() or name.strip() not in MATCHED:
            return Refusal(
                Error.INVALID_CONFIG,
                f"match={part}: it must be name=pattern, and the name one of {', '.join(MATCHED)}",
            )
        fault = pattern_fault(pattern.strip())
        if fault is not None:
            return Refusal(Error.INVALID_CONFIG, f"match={part}: in the pattern {fault}")
    return None


def pattern_fault(pattern: str) -> str | None:
    """Return the fault of a regular expression as far as a simple check sees it, or None.

    A broker compiles it in Java's dialect. This checks only that brackets are closed and that
    every repetition has something to repeat.
    """
    groups, sets, may_repeat, escaped = 0, 0, False, False
    for at, character in enumerate(pattern):
        if escaped or (sets and character not in "[]\\"):
            escaped, may_repeat = False, True
        elif character == "\\":
            escaped = True
        elif character in "[]":
            sets = max(0, sets + (1 if character == "[" else -1))
            may_repeat = True
        elif character in "()":
            groups += 1 if character == "(" else -1
            may_repeat = character == ")"
            if groups < 0:
                return "a ) closes nothing"
        elif character in "*+?":
            if not may_repeat and not (character == "?" and pattern[at - 1 : at] == "("):
                return f"a {character} repeats nothing"
        else:
            may_repeat = character != "|"
    if escaped:
        return "the last \\ escapes nothing"
    return "a [ is not closed" if sets else "a ( is not closed" if groups else None
