"""The principal of a request: the identity that a client has proved, as Kafka writes it."""

from dataclasses import dataclass
from typing import Final

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """An identity. Its text is `kind:name`, as in ACLs and `super.users`."""

    kind: str
    name: str
    token_authenticated: bool = False
    """True if a delegation token proved it: such a client may not ask for further tokens."""

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """Return the principal of `kind:name`."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def principal_fault(text: str) -> str | None:
    """Return why this is no principal that a client can have, or None."""
    kind, _, name = text.partition(":")
    if not (kind and name):
        return f"{text!r} is not a principal, like User:alice"
    if kind.lower() == USER.lower() and kind != USER:
        return f"{text!r} is nobody: Kafka writes {USER}:{name}"
    return None


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that has proved nothing."""
