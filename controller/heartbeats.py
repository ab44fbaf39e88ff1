"""Heartbeats of brokers on the active controller: last contact, metadata offset, copies.

They are lost with the leadership: a new active controller grants every broker a full session.
"""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from statemachine.commands import BrokerHeartbeat
from statemachine.image.image import Image
from statemachine.limits import BROKER_SESSION_TIMEOUT_MS
from statemachine.reassignment.copies import Copies, CopyReport
from statemachine.vocabulary import BrokerId

NEVER_HEARD: int = -1
"""The metadata offset of a broker without a heartbeat to this controller."""


class Liveness(NamedTuple):
    """The unfenced brokers by their heartbeats: some may have died within their sessions."""

    silent: frozenset[BrokerId]
    """The brokers whose last heartbeat is half a session old, which is two intervals and more by
    default, or which this controller has not heard since it took over the lead."""
    oldest_ms: int | None
    """The age of the oldest last heartbeat of the others; None if there is none."""


class BrokerHeartbeatManager:
    """Last contact, metadata offset and copies of each broker."""

    __slots__ = ("_heard_ms", "_image", "_offsets", "_timeout_ms", "_unheard", "copies")

    def __init__(
        self, image: Image, now_ms: int, timeout_ms: int = BROKER_SESSION_TIMEOUT_MS
    ) -> None:
        self._image = image
        self._timeout_ms = timeout_ms
        self._heard_ms: dict[BrokerId, int] = dict.fromkeys(image.brokers, now_ms)
        self._unheard: set[BrokerId] = set(image.brokers)
        """The brokers that the previous leader has left, and that were not heard since."""
        self._offsets: dict[BrokerId, int] = {}
        self.copies = Copies()
        """The copies under way on brokers, and their rates."""

    def touch(self, broker_id: BrokerId, now_ms: int, metadata_offset: int = NEVER_HEARD) -> None:
        """Note a registration, or a heartbeat with its metadata offset."""
        self._heard_ms[broker_id] = now_ms
        self._unheard.discard(broker_id)
        self._offsets[broker_id] = metadata_offset

    def heard(
        self, heartbeat: BrokerHeartbeat, copies: tuple[CopyReport, ...], now_ms: int
    ) -> BrokerHeartbeat:
        """Note a heartbeat of a registered incarnation; return it with the lowest live offset."""
        broker = self._image.brokers.get(heartbeat.broker_id)
        if broker is not None and broker.broker_epoch == heartbeat.broker_epoch:
            self.touch(heartbeat.broker_id, now_ms, heartbeat.metadata_offset)
            self.copies.reported(heartbeat.broker_id, copies, now_ms)
        return replace(heartbeat, lowest_live_offset=self.lowest_live_offset())

    def expired(self, now_ms: int) -> tuple[BrokerId, ...]:
        """Return the unfenced brokers whose session has expired, in order of id."""
        return tuple(
            broker_id
            for broker_id, broker in sorted(self._image.brokers.items())
            if not broker.fenced
            and now_ms - self._heard_ms.setdefault(broker_id, now_ms) >= self._timeout_ms
        )

    def liveness(self, now_ms: int, *, without: Collection[BrokerId] = ()) -> Liveness:
        """Return the liveness of the unfenced brokers, `without` some of them."""
        ages = {
            broker_id: now_ms - self._heard_ms.get(broker_id, now_ms)
            for broker_id, broker in self._image.brokers.items()
            if not broker.fenced and broker_id not in without
        }
        silent = frozenset(
            broker_id
            for broker_id, age_ms in ages.items()
            if broker_id in self._unheard or 2 * age_ms >= self._timeout_ms
        )
        heard = [age_ms for broker_id, age_ms in ages.items() if broker_id not in silent]
        return Liveness(silent, max(heard, default=None))

    def next_expiry_ms(self) -> int | None:
        """Return the next expiry of a session; None if no broker is unfenced."""
        heard = [
            self._heard_ms[broker_id]
            for broker_id, broker in self._image.brokers.items()
            if not broker.fenced and broker_id in self._heard_ms
        ]
        return min(heard) + self._timeout_ms if heard else None

    def lowest_live_offset(self) -> int | None:
        """Return the lowest metadata offset of a live broker; None if no broker is live."""
        offsets = [
            self._offsets.get(broker_id, NEVER_HEARD)
            for broker_id, broker in self._image.brokers.items()
            if broker.live
        ]
        return min(offsets, default=None)
