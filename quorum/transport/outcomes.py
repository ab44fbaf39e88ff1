"""The outcomes of a request to another node: its response, or the reason for none."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from quorum.protocol.apis import api_name
from quorum.protocol.codec import decode_response
from quorum.protocol.shape import Data


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of the answer, in the version that the request was sent with."""

    api_key: int
    version: int
    body: Data

    def decode(self) -> Any:
        """kio's value of the body; raises `Malformed`."""
        return decode_response(self.api_key, self.version, self.body)


class Loss(Enum):
    """The way a connection was lost. A refused or closed one hints that the other process is gone;
    a silent one says nothing of it."""

    NO_ADDRESS = "no address is known"
    REFUSED = "nobody accepts connections there"
    UNREACHABLE = "no connection could be made"
    CLOSED = "the other side closed the connection"
    SILENT = "an answer did not come in time"
    GARBLED = "the other side does not speak our protocol"
    SHUT = "this side has closed the channel"


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection, or the attempt to make it, ended before the answer came.

    Whether the other side has seen the request is unknown.
    """

    loss: Loss
    reason: str

    def __str__(self) -> str:
        return f"{self.loss.value}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The answer did not come in time, and the connection has been dropped for it (KIP-595)."""

    timeout_ms: int

    def __str__(self) -> str:
        return f"no answer within {self.timeout_ms} ms"


@dataclass(frozen=True, slots=True)
class Overloaded:
    """The request was not sent, because too much is under way on this channel."""

    reason: str

    def __str__(self) -> str:
        return f"too much under way: {self.reason}"


@dataclass(frozen=True, slots=True)
class NotServed:
    """The request was not sent: the other side serves no version of it that we could use."""

    reason: str

    def __str__(self) -> str:
        return f"cannot be sent: {self.reason}"


@dataclass(frozen=True, slots=True)
class Unsendable:
    """The request was not sent, and would not be if tried again on the same connection."""

    reason: str

    def __str__(self) -> str:
        return f"cannot be sent: {self.reason}"


Failure: TypeAlias = ConnectionLost | TimedOut | Overloaded | NotServed | Unsendable
Outcome: TypeAlias = Reply | Failure


class RequestFailed(Exception):
    """A call got no answer; `failure` says why."""

    def __init__(self, api_key: int, failure: Failure) -> None:
        super().__init__(f"{api_name(api_key)}: {failure}")
        self.failure = failure
