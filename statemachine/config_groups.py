"""The configurations of a group of consumers, of share consumers or of streams (KIP-848, KIP-932).

Names, types, defaults and bounds are those of `GroupConfig` of Kafka 4.2. The bounds that a Kafka
controller reads from its own `group.*` settings are Kafka's defaults of those settings.
"""

import re
from typing import Final

from statemachine.config_types import ConfigType, Definition, integer, one_of, table

_DURATION: Final = re.compile(
    r"by_duration:P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?"
)

HEARTBEAT_MS: Final = (5_000, 15_000)
SESSION_MS: Final = (45_000, 60_000)
RECORD_LOCK_MS: Final = (15_000, 60_000)
STANDBY_REPLICAS_MAX: Final = 2


def _offset_reset(value: str) -> str | None:
    if value in ("latest", "earliest") or _DURATION.fullmatch(value):
        return None
    return "latest, earliest or by_duration:PnDTnHnMn.nS"


GROUP_CONFIGS: Final = table(
    integer(
        "consumer.heartbeat.interval.ms",
        5_000,
        "How often the members of a consumer group send heartbeats.",
        *HEARTBEAT_MS,
    ),
    integer(
        "consumer.session.timeout.ms",
        45_000,
        "After how long a silent member of a consumer group is removed.",
        *SESSION_MS,
    ),
    Definition(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        _offset_reset,
        "Where a share group begins to read a partition.",
    ),
    integer(
        "share.heartbeat.interval.ms",
        5_000,
        "How often the members of a share group send heartbeats.",
        *HEARTBEAT_MS,
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
        "share.session.timeout.ms",
        45_000,
        "After how long a silent member of a share group is removed.",
        *SESSION_MS,
    ),
    integer(
        "streams.heartbeat.interval.ms",
        5_000,
        "How often the members of a streams group send heartbeats.",
        *HEARTBEAT_MS,
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
    integer(
        "streams.session.timeout.ms",
        45_000,
        "After how long a silent member of a streams group is removed.",
        *SESSION_MS,
    ),
)
"""Every configuration that a group may have."""

# A session always outlasts a heartbeat: no check of the two together is needed.
assert HEARTBEAT_MS[1] < SESSION_MS[0]


def group_value_refusal(name: str, value: str) -> str | None:
    """Why a group may not get this configuration, or None."""
    definition = GROUP_CONFIGS.get(name)
    if definition is None:
        return f"{name} is not a configuration of groups"
    return definition.refusal(value)
