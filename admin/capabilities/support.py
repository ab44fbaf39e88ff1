"""The facts about the node that is asked that a bug report needs, without its secrets."""

import platform
from typing import Annotated

from msgspec import Meta

from admin.capabilities.needs import ALTER_VOTERS
from admin.capabilities.quorum import Quorum, quorum_of
from admin.capabilities.schema import Answer, Context, Request, Route
from quorum import log_levels
from quorum.version import VERSION


class NodeSupport(Answer, frozen=True, kw_only=True):
    """One node: its release, its settings without secrets, its log and its metrics."""

    node_id: int
    version: str
    python: str
    platform: str
    settings: Annotated[dict[str, str], Meta(description="[hidden] stands for each secret")]
    levels: Annotated[dict[str, str], Meta(description="Log levels in force")]
    quorum: Annotated[Quorum, Meta(description="As this node knows it")]
    metrics: Annotated[str, Meta(description="As a scrape has them; empty without HTTP")]
    log: Annotated[tuple[str, ...], Meta(description="The newest lines, at most 1 MiB")]


class DescribeSupport(Request[NodeSupport], frozen=True, kw_only=True):
    """Describe the node that is asked for a bug report; only administrators may."""

    NAME = "node.support"
    NEEDS = ALTER_VOTERS
    ROUTES = (Route("GET", "/v1/support"),)
    STALE = False
    LOCAL = True
    FAILING = "the node cannot be described"

    async def answer(self, context: Context) -> NodeSupport:
        service = context.service
        host = service.host
        scrub = host.scrub
        return NodeSupport(
            node_id=service.quorum.node.me.id,
            version=VERSION,
            python=platform.python_version(),
            platform=platform.platform(),
            settings={name: scrub(value) for name, value in host.settings.items()},
            levels=dict(log_levels.levels()),
            quorum=quorum_of(await service.describe_quorum(stale=True)),
            metrics="" if host.metrics is None else (await host.metrics()).decode(),
            log=await host.log(),
        )
