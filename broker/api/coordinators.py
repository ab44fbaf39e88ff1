"""FindCoordinator: a clear "no", because consumer groups and transactions are not offered here."""

from datetime import timedelta
from typing import Final

from broker.api.codes import Code
from quorum.protocol import codec
from quorum.transport.server import InboundRequest

_REASON: Final = "this broker offers neither consumer groups nor transactions"
_MANY_KEYS_FROM: Final = 4
_NOWHERE: Final = {"node_id": -1, "host": "", "port": -1}


def find_coordinator(request: InboundRequest) -> None:
    """Answer COORDINATOR_NOT_AVAILABLE for every key."""
    version = request.api_version
    message = codec.decode_request(request.api_key, version, request.body)
    schema = codec.response_schema(request.api_key, version)
    refusal = {
        "error_code": codec.error_code(Code.COORDINATOR_NOT_AVAILABLE),
        "error_message": _REASON,
        **_NOWHERE,
    }
    if version >= _MANY_KEYS_FROM:
        of_key = codec.nested(schema, "Coordinator")
        keys = tuple(codec.make(of_key, key=key, **refusal) for key in message.coordinator_keys)
        payload = codec.make(schema, throttle_time=timedelta(0), coordinators=keys)
    else:
        payload = codec.make_known(schema, throttle_time=timedelta(0), **refusal)
    request.respond(codec.encode_response_body(request.api_key, version, payload))
