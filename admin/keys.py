"""Keys of requests that may be asked again: how they are made, judged, and put around a command.

A door gets a key with a request, or none; the state machine sees to it that a request with a key is
carried out once (`statemachine.reassignment.idempotency`). Nothing is remembered here.
"""

import secrets
from hashlib import blake2b
from typing import Final

import msgspec

from statemachine.commands import (
    AlterReassignments,
    CancelMoves,
    Keyed,
    KeyedCommand,
    RollBackMove,
)
from statemachine.limits import FINGERPRINT_BYTES_MAX, KEY_CHARACTERS_MAX

_FINGERPRINT_BYTES: Final = 16
_RANDOM_BYTES: Final = 16

assert _FINGERPRINT_BYTES <= FINGERPRINT_BYTES_MAX


def new_key() -> str:
    """A key that nobody has."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def wrong_key(key: str) -> str | None:
    """Why this cannot be a key, or None."""
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        return f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(key)}"
    if not (key.isascii() and key.isprintable()):
        return f"the key {key!r} has other characters than printable ASCII"
    return None


def keyed(command: KeyedCommand, key: str, of_request: bytes | None = None) -> Keyed | KeyedCommand:
    """The command as it is to be submitted; without a key, or where it changes nothing, itself.

    `of_request` is the fingerprint of the request that it is a part of, where it is not all of it.
    """
    if not key or is_dry_run(command):
        return command
    return Keyed(key=key, fingerprint=of_request or fingerprint(command), command=command)


def is_dry_run(command: KeyedCommand) -> bool:
    """Whether it only asks what would become of it."""
    return isinstance(command, AlterReassignments | CancelMoves | RollBackMove) and command.dry_run


def fingerprint(asked: object) -> bytes:
    """The same for the same request, whoever is asked, by whichever door."""
    kind, body = type(asked).__name__.encode(), msgspec.msgpack.encode(asked)
    return blake2b(kind + body, digest_size=_FINGERPRINT_BYTES).digest()
