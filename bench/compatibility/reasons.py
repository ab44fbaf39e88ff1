"""The reasons of a "no", each with a pattern of the words in which clients report it."""

from typing import Final

from bench.compatibility.model import Reason

_NOT_OFFERED: Final = "unsupported|incompatible|not support|coordinator|too old"

NO_GROUPS: Final = Reason(
    "The embedded brokers have no consumer groups, and say so at once: assign partitions without a "
    "group, or use Kafka's brokers.",
    _NOT_OFFERED,
)
NO_TRANSACTIONS: Final = Reason(
    "The embedded brokers have no transactions, and say so at once: write without a transactional "
    "id, or use Kafka's brokers.",
    rf"{_NOT_OFFERED}|cluster.?authorization.?failed",
)
NO_DELETION: Final = Reason(
    "The embedded brokers do not delete records, neither on request nor by retention. kcl reports "
    "success all the same.",
    f"{_NOT_OFFERED}|there is not a first offset of 3",
)
BROKERS_ONLY: Final = Reason(
    "The tool itself refuses to send this to controllers, Kafka's as well.",
    "not yet supported when communicating directly with the controller",
)
UNKNOWN_KEYS: Final = Reason(
    "The client stops at API keys that it has no name for, such as our private ones.",
    "is not a valid ApiKey",
)
WRONG_ENDPOINT: Final = Reason(
    "The client always asks for brokers (endpoint type 1 of DescribeCluster), which a controller "
    "refuses, as Kafka's does (KIP-919).",
    "MISMATCHED_ENDPOINT_TYPE",
)
ANY_NODE: Final = Reason(
    "It works by chance: the client asks any node that it knows, always for brokers (endpoint type "
    "1 of DescribeCluster). Brokers answer, and a controller refuses, as Kafka's does (KIP-919).",
    "MismatchedEndpointType",
    by_chance=True,
)
KCL_CANCEL: Final = Reason(
    "kcl 0.18.0 refuses the empty list of replicas that its help names for a cancel.",
    "has no replicas specified",
)
KCL_ACKS: Final = Reason(
    "kcl 0.18.0 leaves its producer idempotent with acks=1, which it then refuses itself.",
    "idempotency requires acks=all",
)
