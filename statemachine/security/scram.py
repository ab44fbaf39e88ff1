"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554, KIP-900).

Checks, errors and messages are those of `ScramControlManager` and `ScramImage` of Kafka 4.2. Keys
are derived from the salted password before the command is decided, so that it holds no password.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from statemachine.commands import (
    AlterUserScramCredentials,
    ScramCredentialAltered,
    ScramCredentialsAltered,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import METADATA_VERSION_MIN, SCRAM_NAME_BYTES_MAX, SCRAM_SALT_BYTES_MAX
from statemachine.pending_decision import PendingDecision
from statemachine.records.kafka_records import RemoveUserScramCredential, UserScramCredential
from statemachine.slices import SORTED_US, Slices, sort_in_slices
from statemachine.vocabulary import LEVEL_SCRAM


class ScramMechanism(IntEnum):
    """The mechanisms, by their numbers in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_MECHANISMS: Final = tuple([int(each) for each in ScramMechanism])

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Of the salted password; every authentication of a client computes as many."""

# Every level that a cluster of ours has knows the record.
assert LEVEL_SCRAM <= METADATA_VERSION_MIN

_Asked: TypeAlias = RemoveUserScramCredential | UserScramCredential


def alter_user_scram_credentials(
    pending: PendingDecision, command: AlterUserScramCredentials
) -> ScramCredentialsAltered:
    """Delete and set the credentials of each user that is named once."""
    outcomes: dict[str, Refusal | _Asked] = {}
    everything: tuple[_Asked, ...] = (*command.deletions, *command.upsertions)
    for asked in everything:
        before = outcomes.get(asked.name)
        if isinstance(before, Refusal):
            continue
        if before is not None:
            reason = "A user credential cannot be altered twice in the same request"
            outcomes[asked.name] = Refusal(Error.DUPLICATE_RESOURCE, reason)
        else:
            outcomes[asked.name] = _fault(pending.image, asked) or asked
    results = []
    for user, outcome in outcomes.items():
        refusal = outcome if isinstance(outcome, Refusal) else None
        if not isinstance(outcome, Refusal):
            pending.records.append(outcome)
        results.append(ScramCredentialAltered.from_refusal(refusal, user=user))
    return ScramCredentialsAltered(users=tuple(results))


def _fault(image: Image, asked: _Asked) -> Refusal | None:
    if not asked.name:
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(asked.name.encode()) > SCRAM_NAME_BYTES_MAX:
        reason = f"the name of a user may have {SCRAM_NAME_BYTES_MAX} bytes"
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, reason)
    if asked.mechanism not in set(ScramMechanism):
        return Refusal(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(asked, RemoveUserScramCredential):
        if (asked.name, asked.mechanism) in image.scram_credentials:
            return None
        reason = "Attempt to delete a user credential that does not exist"
        return Refusal(Error.RESOURCE_NOT_FOUND, reason)
    if asked.iterations < ITERATIONS_MIN:
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > ITERATIONS_MAX:
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not 0 < len(asked.salt) <= SCRAM_SALT_BYTES_MAX:
        reason = f"the salt has {len(asked.salt)} bytes; it may have 1 to {SCRAM_SALT_BYTES_MAX}"
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, reason)
    if not (asked.stored_key and asked.server_key):
        return Refusal(Error.UNACCEPTABLE_CREDENTIAL, "the salted password is empty")
    return None


class CredentialInfo(Struct, frozen=True, gc=False):
    """The public part of a credential."""

    mechanism: int
    iterations: int


class UserCredentials(Struct, frozen=True, gc=False):
    """The credentials of one user, or why there are none to tell of."""

    user: str
    refusal: Refusal | None
    infos: tuple[CredentialInfo, ...] = ()


def users_with_credentials(image: Image) -> Iterator[str | None]:
    """Yield the users that have credentials, each once and in no order.

    None stands for a further credential of a user.
    """
    credentials = image.scram_credentials
    for user, mechanism in credentials:
        is_first = not any((user, each) in credentials for each in _MECHANISMS if each < mechanism)
        yield user if is_first else None


def credentials_of(image: Image, user: str) -> tuple[CredentialInfo, ...]:
    """Return the credentials of a user, in the order of the mechanisms."""
    found = ((each, image.scram_credentials.get((user, each))) for each in _MECHANISMS)
    return tuple([CredentialInfo(each, known.iterations) for each, known in found if known])


def describe_user_scram_credentials(
    image: Image, users: Sequence[str] | None
) -> Slices[list[UserCredentials]]:
    """Return the credentials of these users, of all with None or an empty list.

    `image` must not change until the last slice.
    """
    asked: Iterable[str] = users or (yield from sort_in_slices(users_with_credentials(image)))
    counts: dict[str, int] = {}
    for user in asked:
        counts[user] = counts.get(user, 0) + 1
        yield SORTED_US
    found = []
    for user, count in counts.items():
        yield SORTED_US
        known = credentials_of(image, user)
        if count > 1:
            reason = (
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                f"{user}"
            )
            found.append(UserCredentials(user, Refusal(Error.DUPLICATE_RESOURCE, reason)))
        elif not known:
            reason = f"Attempt to describe a user credential that does not exist: {user}"
            found.append(UserCredentials(user, Refusal(Error.RESOURCE_NOT_FOUND, reason)))
        else:
            found.append(UserCredentials(user, None, known))
    return found
