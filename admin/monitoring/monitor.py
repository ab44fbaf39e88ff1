"""The port from the HTTP listener to its node: readiness, samples and rights."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from admin.monitoring.metric_table import Sample
from quorum.driver import Quorum
from quorum.transport.audit_log import Requester
from statemachine.security.rights import Access

BEHIND_RECORDS_MAX: Final = 10_000
"""A node that applies the log and lacks no more is ready: records come all the time."""


class Monitor(Protocol):
    """A node, as probes and scrapes see it."""

    def unready(self) -> Sequence[str]:
        """Return why the node is not ready; nothing if it is. Everybody may read the reasons."""
        ...

    async def samples(self) -> Iterable[Sample]:
        """Return the samples of now."""
        ...

    def access(self, requester: Requester) -> Access:
        """Return the rights of whoever asks for them."""
        ...


def unready(quorum: Quorum, applied: int, *, is_ready: bool) -> Sequence[str]:
    """Return why a node that has applied everything below `applied` is not ready."""
    found = []
    if quorum.leader is None:
        found.append("it knows no leader")
    behind = (quorum.node.high_watermark or 0) - applied
    if not is_ready or behind > BEHIND_RECORDS_MAX:
        found.append("it has not caught up with the metadata log")
    return found
