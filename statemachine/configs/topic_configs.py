"""The configurations of topics, and conflicts between them.

Names, types, defaults and bounds are those of `LogConfig` of Kafka 4.2, and of 3.9 for a cluster
below the level of 4.0. Only requested values are validated, not stored ones.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from statemachine.configs.definitions import (
    INT_MAX,
    LONG_MAX,
    WHOLE_NUMBER,
    ConfigType,
    Definition,
    boolean,
    integer,
    long,
    one_of,
    parts,
    ratio,
    some_of,
    table,
    text,
    throttled_replicas,
)
from statemachine.configs.effective import MIN_ISR, UNCLEAN_ELECTION
from statemachine.reassignment.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS

LEVEL_KAFKA_4: Final = 22
"""The level of metadata.version from which on every broker is of Kafka 4.0 or later."""

SEGMENT_BYTES_MIN_KAFKA_4: Final = 1 << 20
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = ("compact", "delete")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
DAY_MS: Final = 86_400_000

TOPIC_CONFIGS: Final = table(
    some_of(
        "cleanup.policy",
        "delete",
        "What becomes of old records: they are deleted, or compacted to the last one of each key.",
        CLEANUP_POLICIES,
    ),
    # 1 to 9, or the library's own choice (KIP-390).
    Definition(
        "compression.gzip.level",
        ConfigType.INT,
        "-1",
        "The compression level where the compression type is gzip.",
        "a whole number from 1 to 9, or -1",
        lambda value: WHOLE_NUMBER.fullmatch(value) and (int(value) == -1 or 1 <= int(value) <= 9),
    ),
    integer(
        "compression.lz4.level",
        9,
        "The compression level where the compression type is lz4.",
        1,
        17,
    ),
    one_of(
        "compression.type",
        "producer",
        "How record batches are compressed; producer keeps what the producer did.",
        COMPRESSION_TYPES,
    ),
    integer(
        "compression.zstd.level",
        3,
        "The compression level where the compression type is zstd.",
        -131_072,
        22,
    ),
    long(
        "delete.retention.ms",
        DAY_MS,
        "How long a delete marker of a compacted topic is kept for those who read it late.",
        0,
    ),
    long("file.delete.delay.ms", 60_000, "How long a removed file stays on the disk.", 0),
    long("flush.messages", LONG_MAX, "After how many records the log is forced to disk.", 1),
    long("flush.ms", LONG_MAX, "After how long the log is forced to disk.", 0),
    throttled_replicas(
        FOLLOWER_REPLICAS,
        "The replicas whose fetching is throttled, as partition:broker pairs, or * for all.",
    ),
    integer("index.interval.bytes", 4_096, "Bytes of records between two index entries.", 0),
    throttled_replicas(
        LEADER_REPLICAS,
        "The replicas whose leader serves them throttled, as partition:broker pairs, or *.",
    ),
    long(
        "local.retention.bytes",
        -2,
        "With tiered storage, bytes of a partition kept locally; -2 takes retention.bytes.",
        -2,
    ),
    long(
        "local.retention.ms",
        -2,
        "With tiered storage, how long segments are kept locally; -2 takes retention.ms.",
        -2,
    ),
    long("max.compaction.lag.ms", LONG_MAX, "After how long a record must be compacted.", 1),
    integer("max.message.bytes", 1_048_588, "The largest record batch that is accepted.", 0),
    boolean(
        "message.downconversion.enable",
        True,
        "Whether records are converted for consumers of old formats (before Kafka 4.0).",
    ),
    text("message.format.version", "3.0-IV1", "The format of the log (before Kafka 4.0)."),
    long(
        "message.timestamp.after.max.ms",
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        0,
    ),
    long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
        0,
    ),
    long(
        "message.timestamp.difference.max.ms",
        LONG_MAX,
        "How far a record's timestamp may be off the broker's clock (before Kafka 4.0).",
        0,
    ),
    one_of(
        "message.timestamp.type",
        "CreateTime",
        "Whether the timestamp is the producer's or that of the append.",
        TIMESTAMP_TYPES,
    ),
    ratio("min.cleanable.dirty.ratio", "0.5", "The share of uncompacted log at which to compact."),
    long("min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", 0),
    integer(
        MIN_ISR, 1, "How many replicas must be in sync for a produce with acks=all to succeed.", 1
    ),
    boolean("preallocate", False, "Whether the file of a new segment is made in full at once."),
    boolean(
        "remote.log.copy.disable", False, "With tiered storage, whether nothing more is copied."
    ),
    boolean(
        "remote.log.delete.on.disable",
        False,
        "Whether remote data is deleted when remote storage is disabled for the topic.",
    ),
    boolean("remote.storage.enable", False, "Whether the topic uses tiered storage (KIP-405)."),
    long("retention.bytes", -1, "How large a partition may become; -1 has no limit."),
    long("retention.ms", 7 * DAY_MS, "How long records are kept; -1 has no limit.", -1),
    integer("segment.bytes", 1 << 30, "How large a segment file may become.", 14),
    integer("segment.index.bytes", 10 << 20, "How large the index of a segment may become.", 4),
    long("segment.jitter.ms", 0, "How much earlier than segment.ms a segment may be closed.", 0),
    long("segment.ms", 7 * DAY_MS, "After how long a segment is closed.", 1),
    boolean(
        UNCLEAN_ELECTION,
        False,
        "Whether a replica that is not in sync may lead if no other lives; it may lose records.",
    ),
)
"""Every configuration that a topic may have."""

GONE_WITH_KAFKA_4: Final = frozenset(
    {
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    }
)
"""Configurations that Kafka 4.0 has removed (KIP-724)."""

BROKER_SYNONYMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "log.cleanup.policy",
        "compression.gzip.level": "compression.gzip.level",
        "compression.lz4.level": "compression.lz4.level",
        "compression.type": "compression.type",
        "compression.zstd.level": "compression.zstd.level",
        "delete.retention.ms": "log.cleaner.delete.retention.ms",
        "file.delete.delay.ms": "log.segment.delete.delay.ms",
        "flush.messages": "log.flush.interval.messages",
        "flush.ms": "log.flush.interval.ms",
        "index.interval.bytes": "log.index.interval.bytes",
        "local.retention.bytes": "log.local.retention.bytes",
        "local.retention.ms": "log.local.retention.ms",
        "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
        "max.message.bytes": "message.max.bytes",
        "message.downconversion.enable": "log.message.downconversion.enable",
        "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
        "message.timestamp.type": "log.message.timestamp.type",
        "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
        "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
        MIN_ISR: MIN_ISR,
        "preallocate": "log.preallocate",
        "retention.bytes": "log.retention.bytes",
        "retention.ms": "log.retention.ms",
        "segment.bytes": "log.segment.bytes",
        "segment.index.bytes": "log.index.size.max.bytes",
        "segment.jitter.ms": "log.roll.jitter.ms",
        "segment.ms": "log.roll.ms",
        UNCLEAN_ELECTION: UNCLEAN_ELECTION,
    }
)
"""The broker configuration that applies if a topic has none (`ServerTopicConfigSynonyms`)."""

assert BROKER_SYNONYMS.keys() <= TOPIC_CONFIGS.keys()


def topic_value_refusal(name: str, value: str, level: int) -> str | None:
    """Return the reason to refuse this configuration of a topic at this level, or None."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return f"Unknown topic config name: {name}"
    reason = definition.refusal(value)
    if reason is not None or level < LEVEL_KAFKA_4:
        return reason
    if name in GONE_WITH_KAFKA_4:
        return f"{name} is not a topic configuration any more: Kafka 4.0 has removed it"
    if name == "segment.bytes" and int(value) < SEGMENT_BYTES_MIN_KAFKA_4:
        return (
            f"Invalid value {value} for configuration {name}: it must be a whole number from"
            f" {SEGMENT_BYTES_MIN_KAFKA_4} to {INT_MAX}"
        )
    return None


def topic_conflict(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Return a conflict between configurations of a topic, or None.

    `before` and `after` are the topic's own configurations. If a value is not set or does not
    parse, the default counts.
    """
    lag_min, lag_max = (
        _whole(after, "min.compaction.lag.ms"),
        _whole(after, "max.compaction.lag.ms"),
    )
    if lag_min > lag_max:
        return (
            f"min.compaction.lag.ms ({lag_min}) must not be above max.compaction.lag.ms ({lag_max})"
        )
    if _true(after, "remote.storage.enable"):
        return _remote_conflict(after)
    if _true(before, "remote.storage.enable") and not _true(after, "remote.log.delete.on.disable"):
        return (
            "remote.storage.enable cannot become false while the remote data is kept: set"
            " remote.log.delete.on.disable=true to delete it, or leave remote.storage.enable=true"
            " and set remote.log.copy.disable=true to go on reading it"
        )
    return None


def _remote_conflict(configs: Mapping[str, str]) -> str | None:
    if "compact" in parts(_value(configs, "cleanup.policy")):
        return "remote.storage.enable=true and cleanup.policy=compact do not go together"
    return _local_conflict(configs, "retention.bytes") or _local_conflict(configs, "retention.ms")


def _local_conflict(configs: Mapping[str, str], name: str) -> str | None:
    """Return the reason why the local retention is too large, or None; -2 means "as the total
    retention".
    """
    total, local = _whole(configs, name), _whole(configs, f"local.{name}")
    if local == -2:
        return None
    if total > -1 and not 0 <= local <= total:
        return f"local.{name} ({local}) must be from 0 to {name} ({total}), or -2"
    if _true(configs, "remote.log.copy.disable") and local != total:
        return (
            f"with remote.log.copy.disable, local.{name} ({local}) must be {name} ({total}) or -2"
        )
    return None


def _value(configs: Mapping[str, str], name: str) -> str:
    definition: Definition = TOPIC_CONFIGS[name]
    value = configs.get(name)
    if value is None or definition.refusal(value) is not None:
        assert definition.default is not None
        return definition.default
    return value.strip()


def _whole(configs: Mapping[str, str], name: str) -> int:
    return int(_value(configs, name))


def _true(configs: Mapping[str, str], name: str) -> bool:
    return _value(configs, name).lower() == "true"


def new_topic_refusal(configs: Iterable[tuple[str, str | None]], level: int) -> str | None:
    """Return the reason to refuse a new topic with these configurations, or None."""
    given: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            return f"{name} has no value"
        reason = topic_value_refusal(name, value, level)
        if reason is not None:
            return reason
        given[name] = value
    return topic_conflict({}, given)
