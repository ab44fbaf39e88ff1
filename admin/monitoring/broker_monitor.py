"""A broker, as probes and scrapes see it."""

from collections.abc import Iterable, Iterator, Sequence

from admin.monitoring.broker_samples import broker_samples
from admin.monitoring.metric_table import Sample
from admin.monitoring.monitor import unready
from admin.monitoring.quorum_samples import listener_samples, quorum_samples
from broker.broker_server import BrokerServer
from quorum.transport.audit_log import Requester
from statemachine.security.rights import Access


class BrokerMonitor:
    """The monitor of a broker."""

    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker

    def unready(self) -> Sequence[str]:
        broker = self._broker
        found = unready(
            broker.opened.quorum, broker.image.end_offset, is_ready=broker.is_metadata_ready
        )
        fenced = ("it is fenced",) if broker.lifecycle.state.is_fenced else ()
        return (*found, *fenced)

    async def samples(self) -> Iterable[Sample]:
        return self._collect()

    def _collect(self) -> Iterator[Sample]:
        broker, opened = self._broker, self._broker.opened
        yield from quorum_samples(opened.quorum, opened.disk, opened.log, broker.image.end_offset)
        yield from broker_samples(broker)
        yield from listener_samples(broker.server)

    def access(self, requester: Requester) -> Access:
        return self._broker.rights.access_of(requester)
