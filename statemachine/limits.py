"""Limits of the state machine, each with its unit."""

from typing import Final

METADATA_VERSION_MIN: Final = 15
METADATA_VERSION_MAX: Final = 30
"""The supported levels of metadata.version: 3.7-IV0 to 4.3-IV0."""

BROKER_SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's default of `broker.session.timeout.ms`."""

NO_OP_INTERVAL_MS: Final = 500
"""Kafka's default of `metadata.max.idle.interval.ms`."""

TOPIC_NAME_CHARACTERS_MAX: Final = 249

PARTITION_NUMBER_MAX: Final = 999_999
"""The highest partition number that is replayed: the partition table has a slot for each number."""

CREATED_PARTITIONS_MAX: Final = 100_000
"""Partitions that one request may create in total: about a second of work."""

CONFIG_NAME_CHARACTERS_MAX: Final = 1_000
CONFIG_VALUE_BYTES_MAX: Final = 32_767
"""In UTF-8; old protocol versions have a length of 16 bits."""

PARTITIONS_FREED_BY_CONFIGS_MAX: Final = 1_000
"""Partitions for which one decision elects a leader or completes a step after a change of
configurations; the backlog has the others.
"""

BACKLOG_SCANNED_MAX: Final = 5_000
"""Partitions of the backlog that one decision scans: about 20 ms."""

QUOTA_NAME_BYTES_MAX: Final = 32_767
"""The length in UTF-8 of the name of a user, client or host with a quota."""

MUTATION_WINDOW_NUM: Final = 11
MUTATION_WINDOW_SIZE_SECONDS: Final = 1
"""Kafka's defaults of `controller.quota.window.num` and `controller.quota.window.size.seconds`."""

MUTATION_BUCKETS_MAX: Final = 10_000
"""Clients whose use of a quota of controller mutations is remembered: about 3 MB. Beyond it, the
one that has been idle longest begins anew."""

MUTATION_BUCKETS_KEPT_MS: Final = 3_600_000
"""How long a client must be idle to begin anew, as in Kafka."""

ACL_TEXT_BYTES_MAX: Final = 32_767
"""Of the name, the principal and the host of an ACL, in UTF-8: old versions of the requests have 16
bits for the length."""

ACL_TEXTS_REMEMBERED_MAX: Final = 1 << 14
"""Principals and hosts of ACLs that are kept once, however many ACLs name them."""

ACL_RECORDS_MAX: Final = 10_000
"""ACLs that one request may change, as in Kafka (`MAX_RECORDS_PER_USER_OP`)."""

ACLS_COMPARED_MAX: Final = 2_000_000
"""Comparisons of an ACL with a filter in one request: about a second."""

SCRAM_NAME_BYTES_MAX: Final = 32_767
"""Of the name of a user who has a SCRAM credential, in UTF-8."""

SCRAM_SALT_BYTES_MAX: Final = 1_024
"""Of a SCRAM credential: whoever names the user is sent its salt."""

DELEGATION_TOKENS_MAX: Final = 100_000
DELEGATION_TOKENS_OF_REQUESTER_MAX: Final = 10_000
"""Delegation tokens at a time, for which no right is needed."""

DELEGATION_TOKENS_FORGOTTEN_MAX: Final = 1_000
"""Expired delegation tokens that one decision removes."""

MOVE_PART_PARTITIONS_MAX: Final = 1_000
"""Planned partitions in one record: about 30 kB."""

REFUSED_SHOWN_MAX: Final = 1_000
"""Refused partitions that one answer lists with their reasons; the others are counted."""

PLANNED_STEPS_SHOWN_MAX: Final = 200
"""Partitions whose steps a dry run lists: each takes about 50 µs, a large one 0.3 ms."""

ENDED_MOVES_MAX: Final = 1_000
ENDED_MOVES_KEPT_MS: Final = 7 * 24 * 3_600_000
"""The number of ended moves that are listed, and for how long."""

KEYS_MAX: Final = 100_000
KEYS_KEPT_MS: Final = 24 * 3_600_000
"""The number of answers that are stored by idempotency key, and for how long."""

KEY_CHARACTERS_MAX: Final = 255
FINGERPRINT_BYTES_MAX: Final = 64
KEYED_PARTS_MAX: Final = 5_000
"""Refused partitions in a stored answer, with their reasons: at most 2 MB."""

STEPS_BEGUN_MAX: Final = 500
"""Reassignment steps that one decision begins; later decisions begin the others."""

WAITING_TRIED_MAX: Final = 64
"""Waiting partitions of one priority group that one decision tries in vain."""

PASSED_OVER_MAX: Final = 1_000
"""How often others pass a partition that does not fit the budget; then all wait for it."""

THROTTLE_BYTES_PER_S_MAX: Final = 2**63 - 1

THROTTLES_RELEASED_MAX: Final = 1_000
"""Configurations of ended moves that one decision releases; later decisions release the others."""

LOST_CONFIGS_SHOWN_MAX: Final = 20
"""Configurations of a throttle lost to users that an answer about a move names."""

THROTTLES_RELEASED_US_MAX: Final = 50_000
"""The work that one decision does for it; with long lists it releases fewer."""

LEAVING_PARTITIONS_MAX: Final = 20_000
"""ISRs that a decision removes a fenced broker from: less than half a second."""

DISTRUSTED_PARTITIONS_MAX: Final = 5_000
"""The same for a decision that also registers the broker. All of it is one batch: the broker epoch
is the offset of the registration record.
"""

PLANNED_PARTITIONS_MAX: Final = 200_000
"""Partitions of one plan. A plan for 100,000 on 1,000 brokers takes ten seconds of processor time,
in slices of a few milliseconds.
"""

COPY_REPORT_KEPT_MS: Final = 10_000
"""How long a copy report is valid; brokers send one every two seconds."""

COPY_REPORTS_MAX: Final = 1_000
"""Replicas in one report of a broker."""

COPY_REPORTS_PER_BROKER_MAX: Final = 10_000
"""Replicas of one broker whose last reports are kept: about 2 MB."""

COPY_FALLS_BEHIND_MS: Final = 30_000
"""A copy falls behind if more is written than is copied, both measured for at least so long."""

COPIES_LOOKED_AT_MAX: Final = 1_000
"""Partitions that one answer scans for the bytes left to copy: a few milliseconds."""

STOPPING_PARTITIONS_MAX: Final = 50_000
"""Partitions that a check whether brokers may stop scans: about 0.1 s, in slices. A controller that
is not active and answers a stale read replays nothing meanwhile.
"""

HELD_PARTITIONS_NAMED_MAX: Final = 3
"""Partitions of a broker that an error message names; the others are counted."""

UNSAFE_PARTITIONS_SHOWN_MAX: Final = 1_000
"""Unsafe partitions that an answer lists; the others are counted."""

PRODUCER_IDS_PER_BLOCK: Final = 1_000
PRODUCER_ID_MAX: Final = 2**63 - 1

PARTITIONS_REMEMBERED_MAX: Final = 1 << 13
"""Decoded rows in the cache of the partition tables: about 4 MB; a full cache is emptied."""

PLAIN_ISRS_REMEMBERED_MAX: Final = 1 << 13
"""Decided ISRs that a controller keeps: about 4 MB; when so many are kept, all are forgotten."""

DIRECTORIES_NUMBERED_MAX: Final = 1 << 16
"""Log directories that rows can name, with two bytes each; partitions in others are not rows."""

UUIDS_REMEMBERED_MAX: Final = 1 << 16
"""Topic and directory ids in the cache of the record decoder."""

CHANGES_REMEMBERED_MAX: Final = 1 << 14
"""Contents of partition records in the caches of the codec: a few hundred bytes each."""

RESERVED_DIRECTORY_IDS: Final = 100
"""Directory ids with an upper half of zero and a signed lower half below this are reserved
(KIP-858).
"""

assert CREATED_PARTITIONS_MAX <= PARTITION_NUMBER_MAX + 1
