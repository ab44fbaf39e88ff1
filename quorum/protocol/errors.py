"""The error codes of the Kafka protocol by their names, and the exceptions of the protocol.

The codes are those that the program gives or acts on. `quorum.core` and `statemachine`, which may
not import this module, define the few that they answer with. The whole table is kio's, with which
a test compares all of them.
"""

from enum import IntEnum

from quorum.protocol.apis import api_name


class ErrorCode(IntEnum):
    """An error code of the Kafka protocol (`org.apache.kafka.common.protocol.Errors`)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    INVALID_UPDATE_VERSION = 95
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_REGISTRATION = 119
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127

    def __str__(self) -> str:
        return self.name


def error_name(code: int) -> str:
    """Kafka's name of an error code, like NOT_CONTROLLER; `error <code>` for an unknown one."""
    from kio.schema.errors import ErrorCode as KafkaErrorCode

    try:
        return KafkaErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


class RequestRefused(Exception):
    """A request that is answered with an error code of the protocol.

    `reason` is the message beside the code; `words` says as well what failed. `throttle_ms` is how
    long the client is to wait for its quota.
    """

    def __init__(self, code: int, reason: str, *, failing: str = "", throttle_ms: int = 0) -> None:
        self.code = code
        self.throttle_ms = throttle_ms
        self.reason = reason
        self.words = ": ".join(each for each in (failing, reason) if each)
        super().__init__(self.words)


class BadFrame(Exception):
    """A frame announces a length that cannot be accepted; the stream cannot be read any further."""


class Malformed(Exception):
    """The bytes are not a message of this API and version; `reason` says where they differ."""

    def __init__(self, api_key: int, version: int, reason: str) -> None:
        super().__init__(f"{api_name(api_key)} v{version}: {reason}")
        self.reason = reason
