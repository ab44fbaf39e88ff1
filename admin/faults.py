"""Errors between a client and a cluster, each one sentence for a person."""

from quorum.protocol.errors import RequestRefused, error_name


class AdminError(Exception):
    """A request to a cluster failed; the message names the request and the reason."""


class Unreachable(AdminError):
    """No node answered in time; the message names the nodes, the time and their last errors."""

    def __init__(self, message: str, *, may_be_done: bool) -> None:
        """`may_be_done` unless certainly no attempt has succeeded."""
        super().__init__(message)
        self.may_be_done = may_be_done


class NoLeader(Unreachable):
    """No controller leads, as far as the nodes know that answer."""


class Refused(AdminError, RequestRefused):
    """The cluster answered with an error of the Kafka protocol that no retry can change now."""

    def __init__(
        self,
        failing: str,
        code: int,
        message: str | None,
        *,
        throttle_ms: int = 0,
        doubt: str = "",
    ) -> None:
        """`doubt` is about an earlier attempt without an answer, which may have been carried
        out."""
        RequestRefused.__init__(self, code, message or "", failing=failing, throttle_ms=throttle_ms)
        why = f"{failing}: {explained(code, message)}"
        self.args = (f"{why}. An earlier attempt was not answered. {doubt}" if doubt else why,)


class Incompatible(AdminError):
    """A node has no version of an API in common with this client, or another protocol."""


class Unauthenticated(Incompatible):
    """TLS or SASL failed: a node does not accept the credentials of this client, or the reverse,
    or it does not use what this client does."""


class CertificateRefused(Unauthenticated):
    """This client refuses the certificate of a node."""


def explained(code: int, message: str | None) -> str:
    """An error of the protocol in words: the node's, and Kafka's name for it."""
    return f"{message} ({error_name(code)})" if message else error_name(code)
