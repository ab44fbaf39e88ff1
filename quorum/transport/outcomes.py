"""The outcomes of a request to another node: its response, or the reason for none."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from quorum.protocol.apis import api_name
from quorum.protocol.codec import decode_response
from quorum.protocol.shape import Data


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of the response, in the version of the request."""

    api_key: int
    version: int
    body: Data

    def decode(self) -> Any:
        """Decode the body with kio; raises `Malformed`."""
        return decode_response(self.api_key, self.version, self.body)


class Cause(Enum):
    """The cause of a failed request, in the request itself or in its connection.

    A refused or closed connection hints that the other process is gone; a silent one does not.
    """

    NO_ADDRESS = "no address is known"
    REFUSED = "nobody accepts connections there"
    UNREACHABLE = "no connection could be made"
    CLOSED = "the other side closed the connection"
    SILENT = "an answer did not come in time"
    GARBLED = "the other side does not speak our protocol"
    SHUT = "this side has closed the channel"
    TIMED_OUT = "the request timed out"
    """The connection is dropped too (KIP-595), and its other requests end as `SILENT`."""
    OVERLOADED = "too much under way"
    UNAUTHENTICATED = "no secure connection"
    """This side or the other did not prove who it is, or TLS found no common ground."""
    NOT_SERVED = "no common version"
    UNSENDABLE = "cannot be sent"
    """Another attempt on the same connection would fail too."""


NOT_SENT: Final = frozenset(
    {
        Cause.NO_ADDRESS,
        Cause.REFUSED,
        Cause.UNREACHABLE,
        Cause.UNAUTHENTICATED,
        Cause.OVERLOADED,
        Cause.NOT_SERVED,
        Cause.UNSENDABLE,
    }
)
"""The causes that prove that the other side has not received the request."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer."""

    cause: Cause
    reason: str

    def __str__(self) -> str:
        return f"{self.cause.value}: {self.reason}"


Outcome: TypeAlias = Reply | Failure


class RequestFailed(Exception):
    """A call without a response; `failure` has the reason."""

    def __init__(self, api_key: int, failure: Failure) -> None:
        super().__init__(f"{api_name(api_key)}: {failure}")
        self.failure = failure
