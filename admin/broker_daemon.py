"""A broker of ours with its HTTP listener, which has probes and metrics."""

import logging
from contextlib import AsyncExitStack
from functools import partial

from admin.config import BrokerNodeConfig
from broker.broker_server import BrokerServer
from broker.broker_server import main as run_broker
from broker.limits import LISTENER_CLOSE_MS
from quorum.log_events import LogEvent

logger = logging.getLogger("broker")


def main(config: BrokerNodeConfig) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit code of the process."""
    return run_broker(config, None if config.http is None else partial(_listen, config))


async def _listen(config: BrokerNodeConfig, broker: BrokerServer, parts: AsyncExitStack) -> None:
    # Only brokers with a listener need them.
    from admin.http.base_app import base_app
    from admin.http.start import http_exposures, listen_http
    from admin.monitoring.broker_monitor import BrokerMonitor

    http = config.http
    assert http is not None
    monitor = BrokerMonitor(broker)
    await listen_http(
        http,
        lambda access: base_app(access, http.limits, monitor),
        parts,
        close_ms=LISTENER_CLOSE_MS,
    )
    for sentence in http_exposures(http):
        logger.warning("%s", sentence, extra=LogEvent.LISTENER_EXPOSED.extra)
