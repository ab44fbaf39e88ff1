"""The four configurations of a replication throttle (KIP-73), and what a list of replicas says.

A broker has a rate for what it serves as a leader and one for what it fetches as a follower; a
topic says of which of its replicas, as partition:broker pairs. Names and values only: what moves
make of them is told by `throttle`.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from statemachine.limits import CONFIG_VALUE_BYTES_MAX

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
"""Of brokers, in bytes a second."""
LISTS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Of topics."""

ALL_REPLICAS: Final = "*"
"""The list that names every replica; those that are in sync are never held up."""

PAIRS_MAX: Final = (CONFIG_VALUE_BYTES_MAX + 1) // 4
"""No list can name more: a pair has at least three characters, and a comma behind it."""


def listed(*groups: Iterable[str]) -> str | None:
    """The list that names all of these once; where it would be too long, all replicas of the topic.

    None if there is nobody to be named.
    """
    pairs = dict.fromkeys(chain(*groups))
    if not pairs:
        return None
    if ALL_REPLICAS in pairs or len(pairs) > PAIRS_MAX:
        return ALL_REPLICAS
    value = ",".join(pairs)
    return ALL_REPLICAS if len(value.encode()) > CONFIG_VALUE_BYTES_MAX else value


def number_of(pair: str) -> int | None:
    """The partition that a pair is about; None for one that cannot be read."""
    number, _, _ = pair.partition(":")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None
