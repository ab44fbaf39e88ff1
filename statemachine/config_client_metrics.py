"""The configurations of a subscription to the metrics of clients (KIP-714).

Names, types and bounds are those of `ClientMetricsConfigs` of Kafka 4.2, and so are the errors.
"""

from typing import Final

from statemachine.config_types import INT_MAX, Definition, integer, listed, parts, table
from statemachine.errors import Error, Refusal

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
    """Why a subscription may not get this configuration, or None."""
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
    """What is wrong with a regular expression at first sight, or None.

    A broker compiles it in Java's dialect, which nobody else can judge in full. Here it is seen
    whether brackets are closed and whether everything that repeats has something to repeat.
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
