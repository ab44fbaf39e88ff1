"""DiscoverBrokers (20000, KIP-595): the messages on the wire, and the requests that carry them.

Each request has its own connection and closes it: most addresses are asked rarely, and some are
gone. `DiscoverySchedule` decides whom to ask.
"""

import asyncio
import logging
import random
from dataclasses import replace
from typing import Any, Final

from quorum.core.vocabulary import NO_DIRECTORY, NO_REPLICA, Epoch, HostPort, ReplicaId
from quorum.discovery.gossip import (
    ADVERTISEMENTS_MAX,
    Advertisement,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    impossible,
    is_of_the_future,
    version_of_peer,
)
from quorum.discovery.schedule import DiscoverySchedule
from quorum.log_events import LogEvent
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode, Malformed, error_name
from quorum.protocol.raft_types import Refusal
from quorum.protocol.shape import Data
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.inbound import InboundRequest
from quorum.transport.outcomes import Cause, RequestFailed
from quorum.transport.refusal_log import RefusalLog, printable
from quorum.transport.security.client_log import SilentLog
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper
from quorum.version import VERSION as SOFTWARE_VERSION

logger = logging.getLogger("quorum")

VERSION: Final = 0
NAP_SECONDS_MAX: Final = 1.0
"""The longest sleep: a node that has lost its leader starts to search within it."""

NO_DISCOVERY: Final = "the node does not know DiscoverBrokers, as no node of Kafka does"

TOLD_MAX: Final = 256
"""Addresses whose last log message is remembered, so that it is not repeated."""


class DiscoverBrokersService:
    """Sends DiscoverBrokers requests until cancelled, and answers those of others."""

    def __init__(
        self,
        discovery: DiscoverySchedule,
        *,
        client_id: str,
        sweeper: Sweeper,
        clock: Clock,
        wall_clock: Clock,
        rng: random.Random,
        timeout_ms: int,
        refusal_log: RefusalLog,
        security: ClientSecurity = PLAIN_CLIENT,
    ) -> None:
        self._wall_clock = wall_clock
        self._security = security
        self._discovery = discovery
        self._client_id = client_id
        self._sweeper = sweeper
        self._clock = clock
        self._rng = rng
        self._timeout_ms = timeout_ms
        self._refusal_log = refusal_log
        self._told: dict[HostPort, str] = {}

    async def run(self) -> None:
        """Send the scheduled requests until cancelled."""
        discovery = self._discovery
        async with asyncio.TaskGroup() as asking:
            while True:
                if discovery.is_due(self._clock()):
                    for place in discovery.round(self._clock()):
                        asking.create_task(self._ask(place))
                wait_seconds = (discovery.deadline_ms - self._clock()) / 1_000
                await asyncio.sleep(min(max(wait_seconds, 0.0), NAP_SECONDS_MAX))

    def asked(self, request: InboundRequest) -> None:
        """Answer a node or a client; raises `Malformed` for an unreadable request."""
        message = read_request(request.body)
        if isinstance(message, DiscoverBrokersRequest) and message.advertisement is not None:
            message = self._of_the_future(message.advertisement) or message
        if not isinstance(message, Refusal):
            answer = self._discovery.asked(message, self._clock())
            if not isinstance(answer, str):
                request.respond(write_response(answer))
                return
            message = Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, answer)
        self._refusal_log.refused(request.peer, str(request), str(message))
        request.respond(write_refusal(message, self._discovery.cluster_id))

    async def _ask(self, place: HostPort) -> None:
        security = self._security
        if self._discovery.is_observer(place):
            security = replace(security, log=SilentLog())
        channel = Channel(
            lambda: place,
            client_id=self._client_id,
            sweeper=self._sweeper,
            rng=self._rng,
            security=security,
        )
        try:
            reply = await channel.call(
                ApiKey.DISCOVER_BROKERS,
                write_request(self._discovery.request()),
                timeout_ms=self._timeout_ms,
                version=VERSION,
            )
            response = read_response(reply.body)
        except (RequestFailed, Malformed) as error:
            is_refused = (
                isinstance(error, RequestFailed) and error.failure.cause is Cause.UNAUTHENTICATED
            )
            if self._discovery.failed(place, is_refused=is_refused):
                what = "Node at %s takes no controllers, so it is not asked again: %s"
                logger.info(
                    what,
                    Address(*place),
                    printable(str(error)),
                    extra=LogEvent.DISCOVERY_DECLINED.extra,
                )
            elif isinstance(error, RequestFailed) and error.failure.cause is Cause.NOT_SERVED:
                # It takes part in the quorum all the same.
                self._tell(place, NO_DISCOVERY, logging.INFO)
            else:
                self._tell(place, str(error))
        else:
            if isinstance(response, Refusal):
                self._discovery.failed(place)
                self._tell(place, f"refused: {response.reason}")
            else:
                wall_ms = self._wall_clock()
                credible = [
                    each for each in response.brokers if not is_of_the_future(each, wall_ms)
                ]
                response = replace(response, brokers=tuple(credible))
                foreign = self._discovery.heard(place, response, self._clock())
                self._tell(place, f"the response is ignored: {foreign}" if foreign else "")
        finally:
            await channel.close()

    def _of_the_future(self, advertisement: Advertisement) -> Refusal | None:
        wall_ms = self._wall_clock()
        if not is_of_the_future(advertisement, wall_ms):
            return None
        boot = advertisement.boot_timestamp
        reason = f"node {advertisement.id} has boot timestamp {boot}, the time here is {wall_ms}"
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {reason}")

    def _tell(self, place: HostPort, what: str, level: int = logging.WARNING) -> None:
        """Log a message unless it repeats the last one of this address; "" stands for success."""
        if self._told.pop(place, "") != what and what:
            said = printable(what)
            logger.log(
                level,
                "Discovery at %s failed: %s",
                Address(*place),
                said,
                extra=LogEvent.DISCOVERY_FAILED.extra,
            )
        if what:
            self._told[place] = what
            if len(self._told) > TOLD_MAX:
                del self._told[next(iter(self._told))]


BROKERS_MAX: Final = 2 * ADVERTISEMENTS_MAX
"""Brokers in one response: twice as many as a node remembers, with room for all voters."""

_API: Final = ApiKey.DISCOVER_BROKERS
_NOBODY: Final = {"replica_id": NO_REPLICA, "boot_timestamp": -1, "host": "", "port": -1}
"""The fields of a client, which advertises no address."""


def write_request(request: DiscoverBrokersRequest) -> bytes:
    """Encode the request."""
    me = request.advertisement
    values = _NOBODY if me is None else _values(me)
    return codec.request_body(_API, VERSION, cluster_id=request.cluster_id, **values)


def read_request(body: Data) -> DiscoverBrokersRequest | Refusal:
    """Decode a request, or return the refusal for its sender; raises `Malformed`."""
    asked = codec.decode_request(_API, VERSION, body)
    if asked.replica_id == NO_REPLICA:
        return DiscoverBrokersRequest(cluster_id=asked.cluster_id, advertisement=None)
    advertisement = _advertisement(asked)
    reason = impossible(advertisement)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {reason}")
    return DiscoverBrokersRequest(cluster_id=asked.cluster_id, advertisement=advertisement)


def write_response(response: DiscoverBrokersResponse) -> bytes:
    """Encode a response."""
    return codec.response_body(
        _API,
        VERSION,
        error_code=0,
        cluster_id=response.cluster_id,
        brokers=map(_values, response.brokers),
        leader_id=NO_REPLICA if response.leader is None else response.leader,
        leader_epoch=response.epoch,
        is_founded=response.is_founded,
        replica_id=NO_REPLICA if response.answerer is None else response.answerer,
        software_version=SOFTWARE_VERSION,
    )


def write_refusal(refusal: Refusal, cluster_id: str | None) -> bytes:
    """Encode a response with an error."""
    return codec.response_body(
        _API,
        VERSION,
        error_code=refusal.code,
        error_message=refusal.reason,
        cluster_id=cluster_id,
        brokers=(),
    )


def read_response(body: Data) -> DiscoverBrokersResponse | Refusal:
    """Decode a response, or return the reason to ignore it; raises `Malformed`."""
    answer = codec.decode_response(_API, VERSION, body)
    if answer.error_code.value != 0:
        said = f": {answer.error_message}" if answer.error_message else ""
        reason = f"{error_name(answer.error_code.value)}{said}"
        return Refusal(answer.error_code.value, reason)
    if len(answer.brokers) > BROKERS_MAX:
        reason = f"{len(answer.brokers)} brokers in one answer, at most {BROKERS_MAX} are read"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    brokers = tuple(_advertisement(each) for each in answer.brokers)
    wrong = next(filter(None, map(impossible, brokers)), None)
    if wrong is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid response: {wrong}")
    return DiscoverBrokersResponse(
        cluster_id=answer.cluster_id or None,
        brokers=brokers,
        leader=None if answer.leader_id < 0 else ReplicaId(answer.leader_id),
        epoch=Epoch(max(0, answer.leader_epoch)),
        is_founded=bool(answer.is_founded),
        answerer=None if answer.replica_id < 0 else ReplicaId(answer.replica_id),
    )


def _values(advertisement: Advertisement) -> dict[str, Any]:
    directory_id = advertisement.directory_id
    return {
        "replica_id": advertisement.id,
        "boot_timestamp": advertisement.boot_timestamp,
        "host": advertisement.host,
        "port": advertisement.port,
        "directory_id": None if directory_id == NO_DIRECTORY else directory_id,
        "software_version": advertisement.software_version,
    }


def _advertisement(value: Any) -> Advertisement:
    return Advertisement(
        id=ReplicaId(value.replica_id),
        boot_timestamp=int(value.boot_timestamp),
        host=value.host,
        port=int(value.port),
        directory_id=value.directory_id or NO_DIRECTORY,
        software_version=version_of_peer(value.software_version),
    )
