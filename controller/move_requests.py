"""Values of requests about moves that listeners and clients share: options, names, keys, progress.

The state machine carries out a request with a key once (`statemachine.reassignment.idempotency`).
"""

import secrets
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from statemachine.commands import (
    AlterReassignments,
    IdempotentCommand,
    KeyedCommand,
    is_dry_run,
)
from statemachine.limits import FINGERPRINT_BYTES_MAX, KEY_CHARACTERS_MAX
from statemachine.vocabulary import Replicas

NAME_CHARACTERS_MAX: Final = 255
_FINGERPRINT_BYTES: Final = 16
_RANDOM_BYTES: Final = 16

assert _FINGERPRINT_BYTES <= FINGERPRINT_BYTES_MAX


class MoveOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The extension of AlterPartitionReassignments: our clients' options of a move."""

    command: AlterReassignments
    """Its partitions are those of Kafka's request, except in a dry run."""
    key: str = ""
    """The idempotency key."""

    @property
    def contradiction(self) -> str | None:
        """The reason why these cannot be the options of a move, or None."""
        return wrong_name(self.command.name) or (wrong_key(self.key) if self.key else None)


class PartitionId(NamedTuple):
    """One partition of a topic; sorts by topic, then by number. -1 stands for the whole topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"


KnownBytes = Annotated[
    int | None, Meta(description="To be copied, as brokers report; null: unknown")
]
BytesLeftPartial = Annotated[
    bool,
    Meta(description="true: `bytes_left` is the sum of what is known, and more is to be copied"),
]
BytesPerS = Annotated[int | None, Meta(description="The rate now; null: unknown")]
TimeLeftMs = Annotated[int | None, Meta(description="At the rate now; null: unknown")]


class OngoingReassignment(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "adding": "adding_replicas",
        "removing": "removing_replicas",
        "target": "target_replicas",
        "step_count": "steps",
    },
):
    """A partition under reassignment (KIP-455); fields that the node does not report are absent.

    Our controllers report the progress of the first partitions of a list, Kafka's only replicas.
    """

    topic: str
    partition: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    target: Replicas | UnsetType = UNSET
    move_id: int | UnsetType | None = UNSET
    step: Annotated[int, Meta(description="Under way or next, from 1 on")] | UnsetType = UNSET
    step_count: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    reason: (
        Annotated[str | None, Meta(description="Reason to wait, as a word for programs")]
        | UnsetType
    ) = UNSET
    detail: str | UnsetType | None = UNSET
    reason_brokers: Replicas | UnsetType = UNSET
    since_ms: Annotated[int, Meta(description="0: unknown")] | UnsetType = UNSET
    bytes_left: KnownBytes | UnsetType = UNSET
    bytes_per_s: BytesPerS | UnsetType = UNSET
    time_left_ms: TimeLeftMs | UnsetType = UNSET

    @property
    def id(self) -> PartitionId:
        """The id of the partition."""
        return PartitionId(self.topic, self.partition)


def wrong_name(name: str) -> str | None:
    """Return the reason why a move cannot have this name, or None."""
    if len(name) > NAME_CHARACTERS_MAX:
        return f"the name of a move has at most {NAME_CHARACTERS_MAX} characters, not {len(name)}"
    if not name.isprintable():
        return f"the name {name!r} has characters that cannot be shown"
    return None


def new_key() -> str:
    """Return a new key, which no other request has."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def wrong_key(key: str) -> str | None:
    """Return the reason why this cannot be a key, or None."""
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        return f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(key)}"
    if not (key.isascii() and key.isprintable()):
        return f"the key {key!r} has other characters than printable ASCII"
    return None


def with_idempotency_key(
    command: KeyedCommand, key: str, of_request: bytes | None = None
) -> IdempotentCommand | KeyedCommand:
    """Put a key around a command, unless there is none or it changes nothing.

    `of_request` is the fingerprint of the request that the command is a part of, if it is not all.
    """
    if not key or is_dry_run(command):
        return command
    return IdempotentCommand(
        key=key, fingerprint=of_request or fingerprint(command), command=command
    )


def fingerprint(asked: object) -> bytes:
    """Return the fingerprint of a request, the same on every node and listener."""
    kind, body = type(asked).__name__.encode(), msgspec.msgpack.encode(asked)
    return blake2b(kind + body, digest_size=_FINGERPRINT_BYTES).digest()
