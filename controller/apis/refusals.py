"""Refuse the requests between nodes if the sender lacks CLUSTER_ACTION."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from controller.apis.brokers import NOT_DONE_FIELDS, SUBMITTED
from controller.authorization import NEEDS, ControllerAuthorization
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_request, encode_response_body
from quorum.protocol.errors import ErrorCode
from quorum.protocol.refusals import build_refusal
from quorum.transport.audit_log import requester_of
from quorum.transport.inbound import Handler, InboundRequest
from statemachine.security.authorizer import CLUSTER_NAME, Rule
from statemachine.security.rights import CLUSTER_ACTION

_TO_CONTROLLERS: Final = frozenset({ApiKey.ALTER_PARTITION, *SUBMITTED})
"""The APIs whose clients look for another controller when they hear NOT_CONTROLLER."""


def only_nodes(
    handlers: Mapping[int, Handler], authorization: ControllerAuthorization
) -> Mapping[int, Handler]:
    """Return the handlers of a controller's listener; those of requests between nodes refuse a
    sender without CLUSTER_ACTION."""
    if not authorization.is_limited:
        # Nodes ask all the time. Without an authorizer not even a look is needed.
        return handlers
    return {
        key: partial(_if_allowed, handler, authorization)
        if NEEDS[key].whole is CLUSTER_ACTION
        else handler
        for key, handler in handlers.items()
    }


def _if_allowed(
    handler: Handler, authorization: ControllerAuthorization, inbound: InboundRequest
) -> None:
    rule = refusing_rule(inbound, authorization)
    if rule is None:
        handler(inbound)
    else:
        _refuse(inbound, rule)


def refusing_rule(inbound: InboundRequest, authorization: ControllerAuthorization) -> Rule | None:
    """Return None if the sender has CLUSTER_ACTION, or the rule that refuses it."""
    return authorization.may_act(
        inbound.connection_id, inbound.principal, partial(requester_of, inbound)
    )


def _refuse(inbound: InboundRequest, rule: Rule) -> None:
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
