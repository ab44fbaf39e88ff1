"""The log levels of the node that is asked: list them, and change them while it runs (KIP-412)."""

from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, Context, Request, Route, refused
from quorum import log_levels
from quorum.log_levels import DELETE, SET
from quorum.transport.audit_log import Action
from statemachine.errors import Error
from statemachine.security.authorizer import CLUSTER_NAME
from statemachine.security.rights import ALTER_CLUSTER_CONFIGS

BASE: Final = "/v1/loggers"


class Loggers(Answer, frozen=True, kw_only=True):
    """The level in force of every logger of one node, by name."""

    node_id: int
    levels: dict[str, str]


class ListLoggers(Request[Loggers], frozen=True, kw_only=True):
    """List the log levels of the node that is asked."""

    NAME = "loggers.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    STALE = False
    LOCAL = True
    FAILING = "the log levels cannot be listed"

    async def answer(self, context: Context) -> Loggers:
        node_id = context.service.quorum.node.me.id
        return Loggers(node_id=node_id, levels=dict(log_levels.levels()))


class AlterLoggers(Request[Loggers], frozen=True, kw_only=True):
    """Change log levels of the node that is asked until it restarts, all of them or none."""

    levels: Annotated[
        dict[str, str | None],
        Meta(
            min_length=1,
            description="TRACE, DEBUG, INFO, WARN, ERROR or FATAL; null: that of `root`",
        ),
    ]

    NAME = "loggers.alter"
    NEEDS = ALTER_CLUSTER
    CHANGES = True
    LOCAL = True
    ROUTES = (Route("PATCH", BASE),)
    FAILING = "the log levels cannot be changed"
    STATUS_COMMAND = "metaquorum configs describe --broker-logger ID"

    async def answer(self, context: Context) -> Loggers:
        service = context.service
        node_id = service.quorum.node.me.id
        changes = [
            (name, DELETE if level is None else SET, level)
            for name, level in sorted(self.levels.items())
        ]
        detail = f"log levels of node {node_id}: {log_levels.text(changes)}"
        action = Action.of(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME, detail)
        reason = log_levels.alter(changes, context.who, validate_only=False)
        if reason is not None:
            raise refused(Error.INVALID_REQUEST, reason)
        service.audit_log.carried_out(
            context.who, "AlterLogLevels", [action], Error.NONE.name, None
        )
        return Loggers(node_id=node_id, levels=dict(log_levels.levels()))
