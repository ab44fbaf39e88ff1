"""Limits of the state machine, each with its unit."""

from typing import Final

METADATA_VERSION_MIN: Final = 15
METADATA_VERSION_MAX: Final = 29
"""Levels of metadata.version that a cluster may be founded at: 3.7-IV0 to 4.2."""

BROKER_SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's default of `broker.session.timeout.ms`."""

NO_OP_INTERVAL_MS: Final = 500
"""Kafka's default of `metadata.max.idle.interval.ms`."""

TOPIC_NAME_CHARACTERS_MAX: Final = 249

PARTITION_NUMBER_MAX: Final = 999_999
"""The highest partition of a topic that is replayed: a list is kept up to it."""

CREATED_PARTITIONS_MAX: Final = 100_000
"""Partitions that one request may create in all: about a second's work, for which everyone waits
who asks for something else.
"""

CONFIG_NAME_CHARACTERS_MAX: Final = 1_000
CONFIG_VALUE_BYTES_MAX: Final = 32_767
"""Of the value of one configuration, in UTF-8: old versions have 16 bits for its length."""

PARTITIONS_FREED_BY_CONFIGS_MAX: Final = 1_000
"""Partitions that one change of configurations may give a leader, or complete the move of; the rest
follows by itself, as many at a time.
"""

LEFT_OVER_LOOKED_AT_MAX: Final = 5_000
"""Partitions that one decision looks at for that: some 20 ms."""

QUOTA_NAME_BYTES_MAX: Final = 32_767
"""Of the name of a user, client or host that has a quota, in UTF-8."""

MOVE_PART_PARTITIONS_MAX: Final = 1_000
"""Partitions whose plan is in one record: some 30 kB."""

REFUSED_SHOWN_MAX: Final = 1_000
"""Partitions that are refused with their reasons in one answer; of the others only the number."""

PLANNED_STEPS_SHOWN_MAX: Final = 200
"""Partitions that a dry run lists the steps of: each takes some 50 µs, a large one 0.3 ms."""

ENDED_MOVES_MAX: Final = 1_000
ENDED_MOVES_KEPT_MS: Final = 7 * 24 * 3_600_000
"""How many moves are listed after their end, and how long."""

KEYS_MAX: Final = 100_000
KEYS_KEPT_MS: Final = 24 * 3_600_000
"""How many answers are remembered for requests that may be asked again, and how long."""

KEY_CHARACTERS_MAX: Final = 255
FINGERPRINT_BYTES_MAX: Final = 64
KEYED_PARTS_MAX: Final = 5_000
"""Partitions in an answer that is remembered, with their reasons: less than 2 MB at worst."""

STEPS_BEGUN_MAX: Final = 500
"""Steps of reassignments that one decision begins; what is left follows by itself."""

TURNS_LOOKED_AT_MAX: Final = 64
"""Partitions of those that wait in the same group that are looked at in vain in one decision."""

PASSED_OVER_MAX: Final = 1_000
"""How often others go before a partition that fits no limit; then nobody begins until it does."""

THROTTLE_BYTES_PER_S_MAX: Final = 2**63 - 1

THROTTLES_RELEASED_MAX: Final = 1_000
"""Configurations that one decision gives up for moves that need them no more; the rest follows by
itself, as many at a time.
"""

THROTTLES_RELEASED_US_MAX: Final = 50_000
"""Of work that it does for that at most; where lists are long it gives up fewer."""

LEAVING_PARTITIONS_MAX: Final = 20_000
"""Partitions that one decision takes a broker that is gone out of: less than half a second."""

DISTRUSTED_PARTITIONS_MAX: Final = 5_000
"""The same where the broker is registered by the same decision. All of it is one batch: an epoch is
the offset of its record, which nothing may be put before afterwards.
"""

PLANNED_PARTITIONS_MAX: Final = 200_000
"""Partitions of one plan. A plan for 100,000 on 1,000 brokers takes ten seconds of processor time,
in pieces of a few milliseconds.
"""

COPY_REPORT_KEPT_MS: Final = 10_000
"""How long what a broker says of a copy is taken for true; it says so again every two seconds."""

COPY_REPORTS_MAX: Final = 1_000
"""Replicas in one report of a broker."""

COPY_REPORTS_PER_BROKER_MAX: Final = 10_000
"""Replicas of one broker of which is kept what it has said last: some 2 MB."""

COPY_FALLS_BEHIND_MS: Final = 30_000
"""A copy of which more is left than there was all this time falls behind: several times as long as
the window over which brokers measure, and as the bites take that a tight throttle lets through."""

COPIES_LOOKED_AT_MAX: Final = 1_000
"""Partitions that are looked at for one answer to tell what moves have left to copy: a few
milliseconds."""

STOPPING_PARTITIONS_MAX: Final = 50_000
"""Partitions that are looked at to tell whether brokers may stop: about 0.1 s, in
slices. A controller that is not active, which a stale look asks, takes in nothing new meanwhile.
"""

HELD_PARTITIONS_NAMED_MAX: Final = 3
"""Partitions that are named of those that a broker still has; the others are counted."""

HURT_PARTITIONS_SHOWN_MAX: Final = 1_000
"""Partitions that are named of those that say no; the others are counted."""

PRODUCER_IDS_PER_BLOCK: Final = 1_000
PRODUCER_ID_MAX: Final = 2**63 - 1

PARTITIONS_REMEMBERED_MAX: Final = 1 << 13
"""Partitions that are rows and were asked for last, remembered as values: some 4 MB; forgotten all
at once when there are more.
"""

DIRECTORIES_NUMBERED_MAX: Final = 1 << 16
"""Log directories that rows can name, which takes two bytes; partitions in others are no rows."""

UUIDS_REMEMBERED_MAX: Final = 1 << 16
"""Topic and directory ids remembered while records are read."""

CHANGES_REMEMBERED_MAX: Final = 1 << 14
"""What changes of partitions say, remembered while records are read: a few hundred bytes each."""

RESERVED_DIRECTORY_IDS: Final = 100
"""Directory ids below it, as signed 64-bit numbers with an upper half of zero, mean something
(KIP-858).
"""

assert CREATED_PARTITIONS_MAX <= PARTITION_NUMBER_MAX + 1
