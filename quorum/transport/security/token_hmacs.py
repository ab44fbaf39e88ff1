"""The secret side of delegation tokens (KIP-48): their HMACs, and the settings of their lifetime.

A token is its id, which is in the log, and an HMAC of the id, which is its password. Controllers
and brokers have the key for it in their settings, so that the log holds no password.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

_ALGORITHM: Final = "sha512"
_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenConfig:
    """The settings for delegation tokens; without a key there are none."""

    secret_key: str | None = field(default=None, repr=False)
    max_lifetime_ms: int = 7 * _DAY_MS
    renew_period_ms: int = _DAY_MS
    check_interval_ms: int = 3_600_000
    """The time between two removals of expired tokens."""


NO_TOKENS: Final = DelegationTokenConfig()


class DelegationTokens:
    """The HMACs of the tokens of a cluster."""

    def __init__(self, config: DelegationTokenConfig) -> None:
        self.config = config
        self._key = (config.secret_key or "").encode()
        self._ids: dict[bytes, str] = {}
        """The ids of tokens seen so far, by their HMACs."""
        self._seen: set[str] = set()

    @property
    def is_enabled(self) -> bool:
        """True if this node has a key."""
        return bool(self._key)

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return hmac.digest(self._key, token_id.encode(), _ALGORITHM)

    @property
    def hmac_or_none(self) -> Callable[[str], bytes] | None:
        """The function `hmac`, or None where there are no tokens."""
        return self.hmac if self.is_enabled else None

    def find(self, tokens: Mapping[str, object], asked: bytes) -> str | None:
        """Return the id, among these tokens by id, of the one with this HMAC, or None."""
        if len(self._seen) > 2 * len(tokens):
            self._ids.clear()
            self._seen.clear()
        for token_id in tokens.keys() - self._seen:
            self._ids[self.hmac(token_id)] = token_id
            self._seen.add(token_id)
        found = self._ids.get(asked)
        return found if found in tokens else None
