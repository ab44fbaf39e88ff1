"""The bound on what other replicas can add to the epoch of this one.

Epochs have 31 bits and never fall, so the quorum ends when they are used up; and each higher epoch
ends the lead of a leader. A message that raises the epoch is therefore believed only

- from a voter: a replica that an assignment in the log names, with its directory if the log knows
  that; within an allowance that refills slowly;
- from another replica, which may be a voter that this log does not name yet: within a smaller
  allowance, once in two election time-outs, and never while this node hears its leader
  (Raft dissertation §4.2.3: a server that was removed must not disrupt the others).

`State.may_enter` applies these rules.
"""

from dataclasses import dataclass

from quorum.core.limits import (
    EPOCH_LEAP_MAX,
    EPOCH_LEAP_REFILL_MS,
    STRANGER_EPOCH_LEAP_MAX,
    STRANGER_EPOCH_LEAP_REFILL_MS,
)


@dataclass(slots=True)
class EpochAllowance:
    """The number of epochs that others may still add; it refills with time up to its limit."""

    most: int
    refill_ms: int
    left: int
    _since_ms: int | None = None

    @classmethod
    def of_voters(cls) -> "EpochAllowance":
        return cls(EPOCH_LEAP_MAX, EPOCH_LEAP_REFILL_MS, EPOCH_LEAP_MAX)

    @classmethod
    def of_strangers(cls) -> "EpochAllowance":
        most = STRANGER_EPOCH_LEAP_MAX
        return cls(most, STRANGER_EPOCH_LEAP_REFILL_MS, most)

    def take(self, epochs: int, now_ms: int) -> bool:
        """Take so many epochs if there are as many left; return False otherwise."""
        since_ms = now_ms if self._since_ms is None else self._since_ms
        refilled, rest_ms = divmod(max(0, now_ms - since_ms), self.refill_ms)
        self.left = min(self.most, self.left + refilled)
        self._since_ms = now_ms - rest_ms
        if epochs > self.left:
            return False
        self.left -= epochs
        return True
