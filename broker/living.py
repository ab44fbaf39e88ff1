"""What a broker asks of its controller next, and when, by what it was answered (KIP-631).

It registers, beats fenced until it is ready, then beats to be unfenced and to stay so; a controller
that does not know its epoch makes it register again. Pure: no task, clock, socket or codec. In
production `broker.lifecycle` asks and waits, in the simulation an event heap does.
"""

from enum import Enum, auto
from typing import Final

from broker.limits import STARTING_HEARTBEAT_MS

STALE_BROKER_EPOCH: Final = 77
DUPLICATE_BROKER_REGISTRATION: Final = 101
BROKER_ID_NOT_REGISTERED: Final = 102
INCONSISTENT_CLUSTER_ID: Final = 104
UNSUPPORTED_VERSION: Final = 35
INVALID_REGISTRATION: Final = 119

REJECTIONS: Final = frozenset({INCONSISTENT_CLUSTER_ID, UNSUPPORTED_VERSION, INVALID_REGISTRATION})
"""Errors that no other try would turn into anything else."""
_UNKNOWN: Final = frozenset({STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED})


class Registered(Enum):
    """What came of a registration."""

    DONE = auto()
    REJECTED = auto()
    """Never will this broker be registered as it is."""
    DUPLICATE = auto()
    """Another incarnation is registered, and has not been silent for a whole session yet."""
    FAILED = auto()
    """The controller could not do it now."""


class Beaten(Enum):
    """What came of a heartbeat."""

    DONE = auto()
    UNKNOWN = auto()
    """The controller knows nothing of this broker epoch: it is to be registered again."""
    FAILED = auto()
    """The controller could not do it now."""


class Living:
    """Where one process of a broker stands with its controller."""

    def __init__(self, *, heartbeat_interval_ms: int, previous_epoch: int) -> None:
        """`previous_epoch` is that of a clean end, -1 without one (KIP-966)."""
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self.previous_epoch = previous_epoch
        self.broker_epoch: int | None = None
        """Of the registration in force; None: registering comes next."""
        self.is_fenced = True
        self.is_ready = False
        """Whether what is to be here is open; set by the owner, once `becomes_ready`."""

    def registered(self, error_code: int, broker_epoch: int) -> Registered:
        """The registration was answered."""
        if error_code in REJECTIONS:
            return Registered.REJECTED
        if error_code == DUPLICATE_BROKER_REGISTRATION:
            return Registered.DUPLICATE
        if error_code != 0:
            return Registered.FAILED
        self.broker_epoch = self.previous_epoch = broker_epoch
        self.is_fenced = True
        return Registered.DONE

    def wants_fence(self, *, is_settled: bool) -> bool:
        """Whether the next heartbeat asks to stay fenced; `is_settled` is whether the controller
        knows in which directory every replica is (KIP-858)."""
        return not self.is_ready or (self.is_fenced and not is_settled)

    def beaten(self, error_code: int, *, is_fenced: bool) -> Beaten:
        """The heartbeat was answered."""
        if error_code in _UNKNOWN:
            self.broker_epoch = None
            self.is_fenced = True
            return Beaten.UNKNOWN
        if error_code != 0:
            return Beaten.FAILED
        self.is_fenced = is_fenced
        return Beaten.DONE

    def becomes_ready(self, *, is_caught_up: bool) -> bool:
        """Whether what is to be here has to be opened now: the metadata is known up to the broker's
        own registration."""
        return is_caught_up and not self.is_ready

    @property
    def wait_ms(self) -> int:
        """How long until the next request, in ms."""
        return STARTING_HEARTBEAT_MS if self.is_fenced else self._heartbeat_interval_ms

    def may_go(self, error_code: int, *, should_shut_down: bool) -> bool:
        """Whether a broker that has asked to stop may; one that is not known may as well."""
        return should_shut_down or error_code != 0
