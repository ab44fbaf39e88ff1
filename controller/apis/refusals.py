"""Refuse a request of a node that lacks CLUSTER_ACTION."""

from typing import Final

from controller.apis.brokers import NOT_DONE_FIELDS, SUBMITTED
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_request, encode_response_body
from quorum.protocol.errors import ErrorCode
from quorum.protocol.refusals import build_refusal
from quorum.transport.inbound import InboundRequest
from statemachine.security.authorizer import CLUSTER_NAME, Rule
from statemachine.security.rights import CLUSTER_ACTION

_TO_CONTROLLERS: Final = frozenset({ApiKey.ALTER_PARTITION, *SUBMITTED})
"""The APIs whose clients look for another controller when they hear NOT_CONTROLLER."""


def refuse_action(inbound: InboundRequest, rule: Rule) -> None:
    """Answer with the error of a sender without the right; raises `Malformed`.

    While the ACLs are not loaded, the error is one after which nodes ask again.
    """
    key, version = inbound.api_key, inbound.api_version
    message = decode_request(key, version, inbound.body)
    if rule is not Rule.NOT_READY:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        words = CLUSTER_ACTION.refusal(str(inbound.principal), CLUSTER_NAME)
    else:
        words = rule.value
        error = (
            ErrorCode.NOT_CONTROLLER if key in _TO_CONTROLLERS else ErrorCode.UNKNOWN_SERVER_ERROR
        )
    refusal = build_refusal(key, version, message, error, words, **NOT_DONE_FIELDS.get(key, {}))
    inbound.respond(encode_response_body(key, version, refusal))
