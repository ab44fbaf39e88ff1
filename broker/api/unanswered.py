"""A request that its sender expects no answer to: Produce with acks=0."""

from quorum.transport.server import InboundRequest


def respond_nothing(request: InboundRequest) -> None:
    """Let `request` count as answered, with no bytes at all, so that those behind it get theirs.

    The connection keeps answers in the order of the requests; one that stays open would hold up
    all that follow.
    """
    if request.is_gone:
        return
    assert request.answer_parts is None, f"{request} was answered twice"
    request.answer_parts = ()
    request.body = b""
    request._connection.answered(request)
