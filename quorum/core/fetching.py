"""The follower's side of FetchQuorumRecords: when to ask next, and whom.

There is one fetch under way at most. The next one leaves when everything the last one brought
is on disk, because the fetch offset acknowledges all below it.
"""

from quorum.core.events import Correlation
from quorum.core.limits import Timeouts


class Fetching:
    """What is under way, and after failures, how long to wait (exponential, KIP-580)."""

    __slots__ = ("_failures", "_timeouts", "not_before_ms", "pending")

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._failures = 0
        self.pending: Correlation | None = None
        self.not_before_ms = 0

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt failed; nothing is under way."""
        return self._failures > 0

    def may_ask(self, now_ms: int) -> bool:
        return self.pending is None and now_ms >= self.not_before_ms

    def asked(self, correlation: Correlation) -> None:
        assert self.pending is None
        self.pending = correlation

    def done(self) -> None:
        """The fetch under way was answered, and well."""
        self.pending = None
        self._failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int) -> None:
        """It was not answered, or with an error that asking again at once would repeat."""
        self.pending = None
        backoff_ms = self._timeouts.retry_backoff_ms << min(self._failures, 16)
        self._failures += 1
        self.not_before_ms = now_ms + min(backoff_ms, self._timeouts.retry_backoff_ms_max)

    def forget(self) -> None:
        """Whom to ask has changed: what is under way no longer matters, nor what failed."""
        self.pending = None
        self._failures = 0
        self.not_before_ms = 0
