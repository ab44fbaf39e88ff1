"""Quotas of controller mutations (KIP-599): the partitions that a client may create and delete.

The quota `controller_mutation_rate` fills a token bucket of the client, up to what it would add in
the whole window of the quota (`controller.quota.window.num` times `.size.seconds`). Each partition
that is created or deleted takes a token. Any number of partitions is accepted while the bucket is
not below zero, and may take it far below: the client then waits until it is back at zero. The
numbers are those of Kafka's `TokenBucket` and `ControllerMutationQuotaManager`.

The buckets are not replicated: a new active controller begins with full ones, as in Kafka.
"""

from math import floor, inf
from typing import Final, NamedTuple

from statemachine.commands import MutationClient, MutationTokens, QuotaOwner
from statemachine.configs.quota_precedence import (
    CONTROLLER_MUTATION_RATE,
    controller_mutation_quota,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import MUTATION_BUCKETS_KEPT_MS, MUTATION_BUCKETS_MAX

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The longest time that a response can name."""
_NAME_CHARACTERS_MAX: Final = 100
"""Characters of a client id that a message shows."""


class MutationQuotas:
    """The token buckets of one controller. Times are milliseconds of its monotonic clock."""

    def __init__(self, window_seconds: int) -> None:
        """A full bucket has the tokens of `window_seconds`."""
        self._window_seconds = window_seconds
        # In the order of their last charges.
        self._buckets: dict[QuotaOwner, MutationTokens] = {}

    @property
    def clients(self) -> int:
        """The number of clients that are remembered."""
        return len(self._buckets)

    def at(self, now_ms: int) -> "MutationView":
        """Return a view of the buckets for a decision at this time."""
        return MutationView(self, now_ms)

    def budget(self, image: Image, client: MutationClient, now_ms: int) -> "MutationBudget":
        """Return the budget of a client for one decision."""
        found = controller_mutation_quota(image.quotas, client.user, client.client_id)
        if found is None:
            return MutationBudget()
        owner, rate = found
        tokens = burst = self._window_seconds * rate
        bucket = self._buckets.get(owner)
        if bucket is not None and now_ms - bucket.at_ms <= MUTATION_BUCKETS_KEPT_MS:
            tokens = min(burst, bucket.tokens + rate * ((now_ms - bucket.at_ms) / 1_000))
        return MutationBudget(owner, rate, tokens=tokens, now_ms=now_ms, is_strict=client.is_strict)

    def record(self, left: MutationTokens) -> None:
        """Record what a decision has left, and forget who has been idle for long."""
        self._buckets.pop(left.owner, None)
        self._buckets[left.owner] = left
        while True:
            oldest = next(iter(self._buckets.values()))
            is_old = left.at_ms - oldest.at_ms > MUTATION_BUCKETS_KEPT_MS
            if not is_old and len(self._buckets) <= MUTATION_BUCKETS_MAX:
                return
            del self._buckets[oldest.owner]


class MutationView(NamedTuple):
    """The buckets at a moment, for a decision, which does not change them."""

    quotas: MutationQuotas
    now_ms: int

    def budget(self, image: Image, client: MutationClient) -> "MutationBudget":
        """Return the budget of a client now."""
        return self.quotas.budget(image, client, self.now_ms)


class MutationBudget:
    """The tokens of one client during one decision; by default without a limit."""

    def __init__(
        self,
        owner: QuotaOwner = ("", ""),
        rate: float = inf,
        *,
        tokens: float = inf,
        now_ms: int = 0,
        is_strict: bool = True,
    ) -> None:
        self._owner = owner
        self._rate = rate
        self._tokens = tokens
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_charged = False
        self._refusal: Refusal | None = None
        self.throttled_until_ms = 0
        """The time until which the client is to wait; 0 if it need not."""

    def take(self, partitions: int) -> Refusal | None:
        """Take so many tokens, or return the refusal of a strict quota that is used up.

        A quota that is not strict takes them in any case, and makes the client wait.
        """
        if self._is_strict and self._tokens < 0:
            self._refusal = self._refusal or self._refuse()
            return self._refusal
        self._tokens -= partitions
        self._is_charged = True
        if not self._is_strict and self._tokens < 0:
            self.throttled_until_ms = self._now_ms + self._wait_ms
        return None

    @property
    def left(self) -> MutationTokens | None:
        """The tokens that are left; None if none were taken, or nothing limits the client."""
        if not self._is_charged or self._rate == inf:
            return None
        return MutationTokens(self._owner, self._tokens, self._now_ms)

    @property
    def _wait_ms(self) -> int:
        # Only a log that others have written has a quota of 0 or less.
        wait_ms = -self._tokens / self._rate * 1_000 if self._rate > 0 else inf
        # Rounded as Java rounds.
        return THROTTLE_MS_MAX if wait_ms >= THROTTLE_MS_MAX else floor(wait_ms + 0.5)

    def _refuse(self) -> Refusal:
        wait_ms = self._wait_ms
        self.throttled_until_ms = self._now_ms + wait_ms
        user, client_id = self._owner
        names = [f"user {user}"] * bool(user)
        names += [f"client id {client_id[:_NAME_CHARACTERS_MAX]}"] * bool(client_id)
        return Refusal(
            Error.THROTTLING_QUOTA_EXCEEDED,
            f"The throttling quota has been exceeded: {CONTROLLER_MUTATION_RATE}={self._rate:.10g}"
            f" (partitions a second) of {' with '.join(names)}; try again in"
            f" {max(0.1, wait_ms / 1_000):.1f} s",
        )
