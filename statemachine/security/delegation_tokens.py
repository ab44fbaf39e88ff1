"""Delegation tokens: create, renew, expire and describe them (KIP-48, KIP-373, KIP-900).

Checks and errors are those of `DelegationTokenControlManager` of Kafka 4.2. The HMAC of a token,
which is its password, is made from its id and a key of the controllers: neither is known here.
Tokens are compared with the clock of the active controller; replay never reads one.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from msgspec.structs import replace

from statemachine.commands import (
    CreateDelegationToken,
    DelegationTokenGiven,
    Done,
    ExpireDelegationToken,
    ForgetDelegationTokens,
    RenewDelegationToken,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import (
    DELEGATION_TOKENS_FORGOTTEN_MAX,
    DELEGATION_TOKENS_MAX,
    DELEGATION_TOKENS_OF_REQUESTER_MAX,
    METADATA_VERSION_MIN,
)
from statemachine.pending_decision import PendingDecision
from statemachine.records.kafka_records import DelegationToken, RemoveDelegationToken
from statemachine.slices import Slices
from statemachine.vocabulary import LEVEL_DELEGATION_TOKENS

_TIMESTAMP_MAX: Final = 2**63 - 1
_USER: Final = "User:"

_COMPARED_AT_ONCE: Final = 100
_COMPARED_US: Final = 1_000
"""To decide whether somebody may see that many tokens."""

# Every level that a cluster of ours has knows the record.
assert LEVEL_DELEGATION_TOKENS <= METADATA_VERSION_MIN


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _TIMESTAMP_MAX)


def create_delegation_token(
    pending: PendingDecision, command: CreateDelegationToken
) -> DelegationTokenGiven:
    """Create a token; its expiry is never after its end of life."""
    if not all(each.startswith(_USER) for each in command.renewers):
        return _refused(Error.INVALID_PRINCIPAL_TYPE, "only users may renew a token")
    if command.token_id in pending.image.delegation_tokens:
        return _refused(Error.DUPLICATE_RESOURCE, f"the id {command.token_id} is taken")
    if not _has_room(pending.image, command.requester):
        return _refused(Error.POLICY_VIOLATION, "there are too many delegation tokens")
    now_ms, lifetime_ms = pending.now_ms, command.default_max_lifetime_ms
    if command.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, command.max_lifetime_ms)
    end_ms = _sum(now_ms, lifetime_ms)
    token = DelegationToken(
        owner=command.owner,
        requester=command.requester,
        renewers=command.renewers,
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=end_ms,
        expiration_timestamp_ms=min(end_ms, _sum(now_ms, command.default_renew_period_ms)),
        token_id=command.token_id,
    )
    return _given(pending, token)


def _has_room(image: Image, requester: str) -> bool:
    tokens = image.delegation_tokens
    if len(tokens) < DELEGATION_TOKENS_OF_REQUESTER_MAX:
        return True
    of_requester = sum(1 for each in tokens.values() if each.requester == requester)
    return len(tokens) < DELEGATION_TOKENS_MAX and of_requester < DELEGATION_TOKENS_OF_REQUESTER_MAX


def renew_delegation_token(
    pending: PendingDecision, command: RenewDelegationToken
) -> DelegationTokenGiven:
    """Let a token that has not expired be valid for another period."""
    token = _token(pending.image, command.token_id)
    if token is None:
        return _NOT_FOUND
    if _has_expired(token, pending.now_ms):
        return _EXPIRED
    if not _may_renew(token, command.requester):
        return _OWNER_MISMATCH
    period_ms = command.default_renew_period_ms
    if command.renew_period_ms > 0:
        period_ms = min(period_ms, command.renew_period_ms)
    end_ms = min(token.max_timestamp_ms, _sum(pending.now_ms, period_ms))
    return _given(pending, replace(token, expiration_timestamp_ms=end_ms))


def expire_delegation_token(
    pending: PendingDecision, command: ExpireDelegationToken
) -> DelegationTokenGiven:
    """Remove a token, or let it expire after a period."""
    token = _token(pending.image, command.token_id)
    if token is None:
        return _NOT_FOUND
    if not _may_renew(token, command.requester):
        return _OWNER_MISMATCH
    if command.expiry_period_ms < 0:
        pending.records.append(RemoveDelegationToken(token_id=token.token_id))
        return DelegationTokenGiven(expiry_timestamp_ms=pending.now_ms)
    if _has_expired(token, pending.now_ms):
        return _EXPIRED
    end_ms = min(token.max_timestamp_ms, _sum(pending.now_ms, command.expiry_period_ms))
    return _given(pending, replace(token, expiration_timestamp_ms=end_ms))


def describe_delegation_tokens(
    image: Image,
    requester: str,
    owners: Collection[str] | None,
    may_describe: Callable[[DelegationToken], bool],
) -> Slices[list[DelegationToken]]:
    """Return the tokens of these owners, or of all with None, that the requester may see.

    An owner, a requester and a renewer of a token may; of others `may_describe` decides.
    """
    of_owners = None if owners is None else frozenset(owners)
    found = []
    for number, token in enumerate(image.delegation_tokens.values()):
        whose = _principals(token)
        is_asked_for = of_owners is None or not of_owners.isdisjoint(whose)
        if is_asked_for and (requester in whose or may_describe(token)):
            found.append(token)
        if number % _COMPARED_AT_ONCE == 0:
            yield _COMPARED_US
    return found


def has_expired_tokens(image: Image, now_ms: int) -> bool:
    """Return True if `forget_delegation_tokens` has something to record."""
    return next(_expired(image, now_ms), None) is not None


def forget_delegation_tokens(pending: PendingDecision, _command: ForgetDelegationTokens) -> Done:
    """Remove expired tokens, a bounded number at a time; the rest follows."""
    for token in _expired(pending.image, pending.now_ms):
        if len(pending.records) >= DELEGATION_TOKENS_FORGOTTEN_MAX:
            break
        pending.records.append(RemoveDelegationToken(token_id=token.token_id))
    return Done()


def _expired(image: Image, now_ms: int) -> Iterator[DelegationToken]:
    return (each for each in image.delegation_tokens.values() if _has_expired(each, now_ms))


def _token(image: Image, token_id: str | None) -> DelegationToken | None:
    return None if token_id is None else image.delegation_tokens.get(token_id)


def _has_expired(token: DelegationToken, now_ms: int) -> bool:
    return min(token.max_timestamp_ms, token.expiration_timestamp_ms) < now_ms


def _may_renew(token: DelegationToken, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def _principals(token: DelegationToken) -> tuple[str, ...]:
    return token.owner, token.requester, *token.renewers


def _given(pending: PendingDecision, token: DelegationToken) -> DelegationTokenGiven:
    pending.records.append(token)
    return DelegationTokenGiven(token=token, expiry_timestamp_ms=token.expiration_timestamp_ms)


def _refused(error: Error, reason: str) -> DelegationTokenGiven:
    return DelegationTokenGiven.from_refusal(Refusal(error, reason))


_NOT_FOUND: Final = _refused(Error.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")
_EXPIRED: Final = _refused(Error.DELEGATION_TOKEN_EXPIRED, "the token has expired")
_OWNER_MISMATCH: Final = _refused(
    Error.DELEGATION_TOKEN_OWNER_MISMATCH, "only its owner and its renewers may renew a token"
)
