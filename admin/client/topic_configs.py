"""The min.insync.replicas of many topics, by one DescribeConfigs (32) for many of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from admin.client.retrying_client import Call, Verdict, verdict_of
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from statemachine.configs.effective import MIN_ISR
from statemachine.vocabulary import TOPIC_RESOURCE

TOPICS_MAX: Final = 1_000
"""Topics of one request."""


async def min_isr_of(
    ask: Callable[[Call], Awaitable[Any]], topics: Sequence[str]
) -> Mapping[str, int]:
    """The min.insync.replicas of each topic that exists; raises `AdminError`."""
    names, found = iter(topics), dict[str, int]()
    while piece := list(islice(names, TOPICS_MAX)):
        response = await ask(_describe(piece))
        for each in response.results:
            # A topic that was deleted meanwhile has none.
            for config in each.configs or ():
                if config.value is not None:
                    found[each.resource_name] = int(config.value)
    return found


def _describe(topics: Sequence[str]) -> Call:
    resources = [
        {"resource_type": TOPIC_RESOURCE, "resource_name": each, "configuration_keys": (MIN_ISR,)}
        for each in topics
    ]

    def judge(response: Any) -> Verdict:
        return next(
            (
                verdict
                for verdict in map(verdict_of, response.results)
                if verdict.code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            ),
            Verdict(),
        )

    return Call(
        api_key=ApiKey.DESCRIBE_CONFIGS,
        fill=lambda form: form.request(
            resources=resources, include_synonyms=False, include_documentation=False
        ),
        judge=judge,
        failing=f"{MIN_ISR} cannot be described",
        status_command=None,
    )
