"""Uuids as Kafka writes them: 22 characters of base64url. Nothing here draws at random by itself.

Directory ids whose upper half is zero and whose lower half is below 100 are reserved (KIP-858):
they stand for "unassigned", "lost" and the like.
"""

import random
from base64 import b64decode
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import uuid_to_text

__all__ = ["is_reserved", "new_directory_id", "uuid_from_text", "uuid_to_text"]

TEXT_LENGTH: Final = 22
_HALF_BITS: Final = 64
_RESERVED_BELOW: Final = 100


def uuid_from_text(text: str) -> UUID:
    """The uuid that Kafka shows as `text`; raises `ValueError`."""
    if len(text) != TEXT_LENGTH:
        raise ValueError(f"{text!r} has {len(text)} characters, a uuid has {TEXT_LENGTH}")
    try:
        uuid = UUID(bytes=b64decode(text + "==", altchars=b"-_"))
    except ValueError as error:
        raise ValueError(f"{text!r} is not base64url, as a uuid is") from error
    if uuid_to_text(uuid) != text:  # Foreign characters are skipped, unused bits ignored.
        raise ValueError(f"{text!r} is not base64url of a uuid, that would be {uuid_to_text(uuid)}")
    return uuid


def is_reserved(uuid: UUID) -> bool:
    """Whether no directory may have this id. Kafka compares the lower half as a signed number."""
    upper, lower = divmod(uuid.int, 1 << _HALF_BITS)
    signed = lower - (1 << _HALF_BITS) if lower >> (_HALF_BITS - 1) else lower
    return upper == 0 and signed < _RESERVED_BELOW


def new_directory_id(rng: random.Random) -> UUID:
    """A directory id that no other directory has: a random uuid, version 4."""
    while True:
        uuid = UUID(int=rng.getrandbits(128), version=4)
        # A dash in front looks like an option to the tools of the command line.
        if not is_reserved(uuid) and not uuid_to_text(uuid).startswith("-"):
            return uuid
