"""The follower's side of FetchQuorumRecords: when to ask next, and whom.

There is one fetch under way at most. The next one leaves when everything the last one brought
is on disk, because the fetch offset acknowledges all below it.
"""

from quorum.core.events import Correlation
from quorum.core.limits import Timeouts


class Fetching:
    """What is under way, and after failures, how long to wait (exponential, KIP-580)."""

    __slots__ = ("_failures", "_timeouts", "not_before_ms", "overdue_ms", "pending")

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._failures = 0
        self.pending: Correlation | None = None
        self.not_before_ms = 0
        self.overdue_ms: int | None = None
        """When somebody else is asked, if what is under way has no answer; None for never."""

    def may_ask(self, now_ms: int) -> bool:
        return self.pending is None and now_ms >= self.not_before_ms

    def asked(self, correlation: Correlation, overdue_ms: int | None = None) -> None:
        assert self.pending is None
        self.pending, self.overdue_ms = correlation, overdue_ms

    def leave(self, now_ms: int) -> bool:
        """Wait no more for what is under way, if that is overdue; True if so."""
        if self.pending is None or self.overdue_ms is None or now_ms < self.overdue_ms:
            return False
        self.pending = None
        return True

    def done(self) -> None:
        """The fetch under way was answered, and well."""
        self.pending = None
        self._failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int, *, pause_ms_max: int | None = None) -> None:
        """It was not answered, or with an error that asking again at once would repeat."""
        self.pending = None
        backoff_ms = self._timeouts.retry_backoff_ms << min(self._failures, 16)
        self._failures += 1
        most_ms = self._timeouts.retry_backoff_ms_max if pause_ms_max is None else pause_ms_max
        self.not_before_ms = now_ms + min(backoff_ms, most_ms)

    def forget(self) -> None:
        """Whom to ask has changed: what is under way no longer matters, nor what failed."""
        self.pending = None
        self._failures = 0
        self.not_before_ms = 0
