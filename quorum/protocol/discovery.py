"""DiscoverBrokers between flat messages and the wire; what is believed of them is not decided here.

What cannot be true is refused as a whole: a node that is wrong about one place is not asked for
the others.
"""

from typing import Any, Final

from quorum.core.vocabulary import NO_DIRECTORY, NO_REPLICA, Epoch, ReplicaId
from quorum.gossip import (
    SIGHTINGS_MAX,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    Sighting,
    impossible,
)
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import make, nested
from quorum.protocol.errors import ErrorCode, error_name
from quorum.protocol.raft_types import Refusal
from quorum.protocol.shape import Data

BROKERS_MAX: Final = 2 * SIGHTINGS_MAX
"""Of one answer: as many as a node remembers, and as many voters as there may ever be."""

_API: Final = ApiKey.DISCOVER_BROKERS
_VERSION: Final = 0
_UNKNOWN: Final = -1


def write_request(request: DiscoverBrokersRequest) -> bytes:
    """The body of the request."""
    schema = codec.request_schema(_API, _VERSION)
    me = request.sighting
    if me is None:
        values: dict[str, object] = {
            "replica_id": NO_REPLICA,
            "boot_timestamp": _UNKNOWN,
            "host": "",
            "port": _UNKNOWN,
        }
    else:
        values = _values(me)
    return codec.encode_request_body(
        _API, _VERSION, make(schema, cluster_id=request.cluster_id, **values)
    )


def read_request(body: Data) -> DiscoverBrokersRequest | Refusal:
    """The request, or the refusal that its sender is to get; raises `Malformed`."""
    asked = codec.decode_request(_API, _VERSION, body)
    if asked.replica_id == NO_REPLICA:
        return DiscoverBrokersRequest(cluster_id=asked.cluster_id, sighting=None)
    sighting = _sighting(asked)
    reason = impossible(sighting)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {reason}")
    return DiscoverBrokersRequest(cluster_id=asked.cluster_id, sighting=sighting)


def write_response(response: DiscoverBrokersResponse) -> bytes:
    """The body of an answer that teaches."""
    schema = codec.response_schema(_API, _VERSION)
    broker = nested(schema, "Broker")
    payload = make(
        schema,
        error_code=codec.error_code(0),
        cluster_id=response.cluster_id,
        brokers=tuple(make(broker, **_values(each)) for each in response.brokers),
        leader_id=NO_REPLICA if response.leader is None else response.leader,
        leader_epoch=response.epoch,
        is_founded=response.is_founded,
        replica_id=NO_REPLICA if response.answerer is None else response.answerer,
    )
    return codec.encode_response_body(_API, _VERSION, payload)


def write_refusal(refusal: Refusal, cluster_id: str | None) -> bytes:
    """The body of an answer that teaches nothing but why."""
    payload = make(
        codec.response_schema(_API, _VERSION),
        error_code=codec.error_code(refusal.code),
        error_message=refusal.reason,
        cluster_id=cluster_id,
        brokers=(),
    )
    return codec.encode_response_body(_API, _VERSION, payload)


def read_response(body: Data) -> DiscoverBrokersResponse | Refusal:
    """What the other node knows, or why it is not to be learned; raises `Malformed`."""
    answer = codec.decode_response(_API, _VERSION, body)
    if answer.error_code.value != 0:
        said = f": {answer.error_message}" if answer.error_message else ""
        reason = f"{error_name(answer.error_code.value)}{said}"
        return Refusal(answer.error_code.value, reason)
    if len(answer.brokers) > BROKERS_MAX:
        reason = f"{len(answer.brokers)} brokers in one answer, at most {BROKERS_MAX} are read"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    brokers = tuple(_sighting(each) for each in answer.brokers)
    wrong = next(filter(None, map(impossible, brokers)), None)
    if wrong is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"what it says cannot be: {wrong}")
    return DiscoverBrokersResponse(
        cluster_id=answer.cluster_id or None,
        brokers=brokers,
        leader=None if answer.leader_id < 0 else ReplicaId(answer.leader_id),
        epoch=Epoch(max(0, answer.leader_epoch)),
        is_founded=bool(answer.is_founded),
        answerer=None if answer.replica_id < 0 else ReplicaId(answer.replica_id),
    )


def _values(sighting: Sighting) -> dict[str, object]:
    directory_id = sighting.directory_id
    return {
        "replica_id": sighting.id,
        "boot_timestamp": sighting.boot_timestamp,
        "host": sighting.host,
        "port": sighting.port,
        "directory_id": None if directory_id == NO_DIRECTORY else directory_id,
    }


def _sighting(value: Any) -> Sighting:
    return Sighting(
        id=ReplicaId(value.replica_id),
        boot_timestamp=int(value.boot_timestamp),
        host=value.host,
        port=int(value.port),
        directory_id=value.directory_id or NO_DIRECTORY,
    )
