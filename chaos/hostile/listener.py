"""The listener of a controller in the simulation: codec, refusals and authorization of the product.

What passes reaches the core of a process, if its cluster has no authentication. If it has, nothing
of the hostile node passes (R33).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from chaos.network.connection import Message, visit
from chaos.violation import Violation
from controller.apis.controller_apis import OFFERED
from controller.apis.refusals import only_nodes
from controller.authorization import NEEDS, ControllerAuthorization
from quorum.core.events import Asker
from quorum.core.messages import Request
from quorum.protocol.apis import ApiKey
from quorum.protocol.principal import ANONYMOUS, USER, KafkaPrincipal
from quorum.protocol.raft_messages import VERSIONS
from quorum.protocol.raft_types import LocalNode
from quorum.raft_rpc import RaftRpc
from quorum.transport.inbound import Handler, InboundRequest
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper
from statemachine.image.image import Image
from statemachine.security.authorization import Authorization, AuthorizerConfig
from statemachine.security.rights import CLUSTER_ACTION

if TYPE_CHECKING:
    from chaos.simulation.process import Process

NODE: Final = KafkaPrincipal(USER, "node")
"""The principal of the nodes of a cluster: a super user, as docs/security.md has it."""
MALLORY: Final = KafkaPrincipal(USER, "mallory")
"""A user who has proved who he is, and has no rights."""
BETWEEN_NODES: Final = tuple(
    key for key, needs in NEEDS.items() if needs.whole is CLUSTER_ACTION and key != ApiKey.ENVELOPE
)
"""The requests between nodes, but for Envelope, whose check is in the task of its request."""


def asked_of_core(
    process: "Process", messages: list[Message], more: Mapping[int, Handler], connection_id: int
) -> list[Request]:
    """Send these bytes to a process without authentication; return what its core is asked.

    Its gossip answers what is for it, and `more` the rest. Runs inside the process.
    """
    asked: list[Request] = []

    def take(_: Asker, request: Request) -> None:
        asked.append(request)

    rpc = RaftRpc(
        LocalNode(cluster_id=process.cluster.id, replica=process.incarnation.key),
        process.replica.node,
        Peers(process.gossip.book, client_id="", sweeper=Sweeper(process.now_ms), rng=process.rng),
        addresses=process.gossip.book,
        on_request=take,
        timeout_ms=1,
        refusal_log=RefusalLog("simulation", process.now_ms),
    )
    handlers: dict[int, Handler] = {
        **dict.fromkeys(VERSIONS, rpc.asked),
        ApiKey.DISCOVER_BROKERS: process.gossip.serve,
        **more,
    }
    visit(handlers, OFFERED, messages, ANONYMOUS, connection_id)
    return asked


def authorization_by(image: Image | None) -> ControllerAuthorization:
    """The authorization of a node whose ACLs are in `image`; without one there are none."""
    config = AuthorizerConfig(super_users=frozenset({str(NODE)}))
    authorizer = config.authorizer(Image() if image is None else image, lambda: True)
    return Authorization(authorizer, lambda *_: None)


class AuthorizingListener:
    """The listener of a controller that authorizes (`controller.apis.refusals.only_nodes`)."""

    def __init__(self, image: Image | None = None) -> None:
        self._reached: list[InboundRequest] = []
        handlers: dict[int, Handler] = dict.fromkeys(BETWEEN_NODES, self._reached.append)
        self._handlers = only_nodes(handlers, authorization_by(image))
        self._last_connection = 0

    def refuse(self, messages: list[Message], who: object) -> None:
        """R33: none of these requests of a user without rights is served, each is answered."""
        for principal in (ANONYMOUS, MALLORY):
            answers = self._send(messages, principal)
            if self._reached:
                raise Violation("R33", f"{who} serves {self._reached[0]} of {principal}")
            if answers != len(messages):
                raise Violation("R33", f"{who} answers {answers} of {len(messages)} requests")

    def admits_nodes(self, messages: list[Message]) -> bool:
        """True if the same requests of a node are served: else a refusal shows nothing."""
        self._send(messages, NODE)
        count = len(self._reached)
        self._reached.clear()
        return count == len(messages)

    def _handle(self, request: InboundRequest) -> None:
        self._handlers[request.api_key](request)

    def _send(self, messages: list[Message], principal: KafkaPrincipal) -> int:
        self._last_connection += 1
        handlers = dict.fromkeys(BETWEEN_NODES, self._handle)
        return visit(handlers, OFFERED, messages, principal, self._last_connection)
