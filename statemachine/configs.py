"""The configurations that the state machine heeds, and which ones a topic may have.

Names, types and bounds are those of `LogConfig` of Kafka. Values in the log are not judged: what
does not parse counts as not set. Nothing here changes anything.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from statemachine.image import Image, Resource
from statemachine.partition import Partition
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

MIN_ISR_DEFAULT: Final = 1
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_DEFAULTS: Final[Resource] = (BROKER_RESOURCE, CLUSTER_DEFAULT)
# Not `int()`, which also takes underscores and other scripts' digits.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_THROTTLED_REPLICAS: Final = re.compile(r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?")


def min_isr(image: Image, topic_name: str, partition: Partition) -> int:
    """How many replicas must be in sync: never more than the partition is meant to have."""
    return min(configured_min_isr(image, topic_name), len(partition.aimed))


def configured_min_isr(image: Image, topic_name: str) -> int:
    """`min.insync.replicas` of the topic, else of the cluster, else 1."""
    for resource in ((TOPIC_RESOURCE, topic_name), _DEFAULTS):
        configs = image.configs.get(resource)
        value = None if configs is None else configs.get(MIN_ISR)
        if value is not None and _WHOLE_NUMBER.fullmatch(value):
            return max(int(value), 1)
    return MIN_ISR_DEFAULT


def unclean_election_allowed(image: Image, topic_name: str) -> bool:
    """`unclean.leader.election.enable` of the topic, else of the cluster, else false."""
    for resource in ((TOPIC_RESOURCE, topic_name), _DEFAULTS):
        value = image.configs.get(resource, {}).get(UNCLEAN_ELECTION)
        if value is not None:
            return value.strip().lower() == "true"
    return False


def config_refusal(name: str, value: str | None) -> str | None:
    """Why a topic may not have this configuration, or None."""
    expected = TOPIC_CONFIGS.get(name)
    if expected is None:
        return f"{name} is not a configuration of topics"
    if value is None:
        return f"{name} has no value"
    reason = expected(value.strip())
    return None if reason is None else f"{name}={value}: it must be {reason}"


_Check = Callable[[str], str | None]
"""What a value ought to be, or None if it is."""


def _whole(lowest: int, highest: int) -> _Check:
    def check(value: str) -> str | None:
        if _WHOLE_NUMBER.fullmatch(value) and lowest <= int(value) <= highest:
            return None
        return f"a whole number from {lowest} to {highest}"

    return check


def _one_of(*allowed: str) -> _Check:
    def check(value: str) -> str | None:
        return None if value in allowed else f"one of {', '.join(allowed)}"

    return check


def _boolean(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "true or false"


def _ratio(value: str) -> str | None:
    try:
        ratio = float(value)
    except ValueError:
        ratio = -1.0
    return None if 0 <= ratio <= 1 else "a number from 0 to 1"


def _cleanup_policy(value: str) -> str | None:
    policies = [policy.strip() for policy in value.split(",")]
    allowed = all(policy in ("compact", "delete") for policy in policies)
    return None if allowed else "compact, delete or both with a comma"


def _throttled_replicas(value: str) -> str | None:
    allowed = _THROTTLED_REPLICAS.fullmatch(value) is not None
    return None if allowed else "* or partition:broker pairs with commas"


TOPIC_CONFIGS: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "cleanup.policy": _cleanup_policy,
        "compression.gzip.level": _whole(-1, 9),
        "compression.lz4.level": _whole(1, 17),
        "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.zstd.level": _whole(-131_072, 22),
        "delete.retention.ms": _whole(0, LONG_MAX),
        "file.delete.delay.ms": _whole(0, LONG_MAX),
        "flush.messages": _whole(1, LONG_MAX),
        "flush.ms": _whole(0, LONG_MAX),
        "follower.replication.throttled.replicas": _throttled_replicas,
        "index.interval.bytes": _whole(0, INT_MAX),
        "leader.replication.throttled.replicas": _throttled_replicas,
        "local.retention.bytes": _whole(-2, LONG_MAX),
        "local.retention.ms": _whole(-2, LONG_MAX),
        "max.compaction.lag.ms": _whole(1, LONG_MAX),
        "max.message.bytes": _whole(0, INT_MAX),
        "message.downconversion.enable": _boolean,
        "message.timestamp.after.max.ms": _whole(0, LONG_MAX),
        "message.timestamp.before.max.ms": _whole(0, LONG_MAX),
        "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
        "min.cleanable.dirty.ratio": _ratio,
        "min.compaction.lag.ms": _whole(0, LONG_MAX),
        MIN_ISR: _whole(1, INT_MAX),
        "preallocate": _boolean,
        "remote.log.copy.disable": _boolean,
        "remote.log.delete.on.disable": _boolean,
        "remote.storage.enable": _boolean,
        "retention.bytes": _whole(LONG_MIN, LONG_MAX),
        "retention.ms": _whole(-1, LONG_MAX),
        "segment.bytes": _whole(14, INT_MAX),
        "segment.index.bytes": _whole(4, INT_MAX),
        "segment.jitter.ms": _whole(0, LONG_MAX),
        "segment.ms": _whole(1, LONG_MAX),
        UNCLEAN_ELECTION: _boolean,
    }
)
"""Every configuration that a topic may have, with what its value ought to be."""
