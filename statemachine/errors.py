"""Errors of commands: Kafka's error codes, and a refusal with its reason.

An error is a value in an answer, and is never raised.
"""

from collections.abc import Collection
from enum import Enum
from itertools import islice
from typing import Final

from msgspec import Struct


class Error(Enum):
    """The errors of the Kafka protocol that a command can have."""

    code: int
    meaning: str

    UNKNOWN_SERVER_ERROR = -1, "the controller cannot do it, and no other error says why"
    NONE = 0, "no error"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "there is no such topic or partition"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader, or this node does not know it yet"
    NOT_LEADER_OR_FOLLOWER = 6, "the broker holds no replica of the partition"
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not allowed"
    TOPIC_AUTHORIZATION_FAILED = 29, "the sender lacks a right on the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "the sender lacks a right on the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "the sender lacks a right on the cluster"
    UNSUPPORTED_SASL_MECHANISM = 33, "there is no such mechanism"
    UNSUPPORTED_VERSION = 35, "a version that is asked for or in force is not supported"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not allowed"
    INVALID_REPLICATION_FACTOR = 38, "there are not that many brokers to hold replicas"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replicas cannot be as asked"
    INVALID_CONFIG = 40, "a configuration is unknown or its value is not allowed"
    NOT_CONTROLLER = 41, "the sender knows more than this controller: there must be another one"
    INVALID_REQUEST = 42, "the request contradicts itself or the state of the partition"
    POLICY_VIOLATION = 44, "the request asks for more than one may"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "the sender lacks a right on the transactional id"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "the controllers have no key for delegation tokens"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token is another principal's"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "the sender may not ask for delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "the sender lacks a right on the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "only users may renew a delegation token"
    FENCED_LEADER_EPOCH = 74, "the sender's leader epoch is over"
    STALE_BROKER_EPOCH = 77, "the sender is not the registered incarnation of that broker"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not in sync or not alive"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that is alive may lead"
    ELECTION_NOT_NEEDED = 84, "the partition already has such a leader"
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    THROTTLING_QUOTA_EXCEEDED = 89, "the sender's quota of changes is used up: it must wait"
    RESOURCE_NOT_FOUND = 91, "there is no such credential"
    DUPLICATE_RESOURCE = 92, "it is named twice, or the key belongs to another request"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is not allowed"
    INVALID_UPDATE_VERSION = 95, "it has changed since, or cannot be at that version"
    UNKNOWN_TOPIC_ID = 100, "there is no topic of this id"
    DUPLICATE_BROKER_REGISTRATION = 101, "another incarnation of this broker is alive"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of this id is registered"
    INCONSISTENT_CLUSTER_ID = 104, "the broker belongs to another cluster"
    INELIGIBLE_REPLICA = 107, "a proposed member of the ISR may not be in it"
    NEW_LEADER_ELECTED = 108, "the change is made, and with it the sender stopped being the leader"
    INVALID_REGISTRATION = 119, "the registration contradicts itself or another broker's"

    def __new__(cls, code: int, meaning: str) -> "Error":
        """Make the code the value, by which an error is looked up and stored."""
        error = object.__new__(cls)
        error._value_ = code
        error.code = code
        error.meaning = meaning
        return error


class Refusal(Struct, frozen=True, gc=False):
    """An error with its reason; `message` names the fault and the remedy."""

    error: Error
    message: str


_LISTED_MAX: Final = 20
"""Ids that a message lists; a request may have as many as fit into a frame."""


def listed(ids: Collection[int]) -> str:
    """Return the ids as text for a message."""
    words = [str(each) for each in islice(ids, _LISTED_MAX)]
    if len(ids) > _LISTED_MAX:
        words.append(f"and {len(ids) - _LISTED_MAX:,} more")
    return ", ".join(words)
