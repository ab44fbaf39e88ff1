"""The partitions that `topics list` and `describe` are asked for, as in kafka-topics.sh.

| option | partitions |
| --- | --- |
| `--under-replicated` | with fewer in-sync replicas than replicas, those being added left out |
| `--under-min-isr` | with fewer in-sync replicas than min.insync.replicas and than replicas |
| `--unavailable` | without a leader |

Several options together choose the partitions that any of them chooses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from admin.cli.options import add_options, say

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.model import PartitionDescription, TopicDescription

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _flag(name: str, help: str) -> Callable[[Decorated], Decorated]:
    """A flag with the name in Kafka's script as its second one."""
    return click.option(f"--{name}", f"--{name}-partitions", is_flag=True, help=help)


filter_options: Final = add_options(
    _flag("under-replicated", "Only partitions with fewer in-sync replicas than replicas."),
    _flag("under-min-isr", "Only partitions with fewer in-sync replicas than min.insync.replicas."),
    _flag("unavailable", "Only partitions without a leader."),
)
"""The options of a command that takes a `PartitionFilter` as `**only`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """The partitions that the options choose; without any of them, all."""

    under_replicated: bool = False
    under_min_isr: bool = False
    unavailable: bool = False

    @property
    def is_empty(self) -> bool:
        """True if no option is given."""
        return not (self.under_replicated or self.under_min_isr or self.unavailable)

    async def apply(
        self, client: "AdminClient", topics: "Mapping[str, TopicDescription]"
    ) -> "Mapping[str, TopicDescription]":
        """The topics with such partitions, and of each only those; see `with_moves`."""
        from admin.client.topic_configs import min_isr_of

        if self.is_empty or not topics:
            return topics
        min_isr = await min_isr_of(client.carry_out, [*topics]) if self.under_min_isr else {}
        return self.chosen(topics, min_isr)

    def chosen(
        self, topics: "Mapping[str, TopicDescription]", min_isr: Mapping[str, int]
    ) -> "Mapping[str, TopicDescription]":
        """The same, given min.insync.replicas."""
        found = {}
        for name, topic in topics.items():
            partitions = [
                each for each in topic.partitions if self._chooses(each, min_isr.get(name, 0))
            ]
            if partitions:
                found[name] = replace(topic, partitions=tuple(partitions))
        return found

    def _chooses(self, found: "PartitionDescription", min_isr: int) -> bool:
        from statemachine.vocabulary import NO_LEADER

        replicas, in_sync = len(found.replicas) - len(found.adding), len(found.isr)
        return (
            (self.under_replicated and in_sync < replicas)
            or (self.under_min_isr and in_sync < min(min_isr, replicas))
            or (self.unavailable and found.leader == NO_LEADER)
        )


async def with_moves(
    client: "AdminClient", topics: "Mapping[str, TopicDescription]", *, stale: bool
) -> "Mapping[str, TopicDescription]":
    """The topics with the replicas that moves add and remove, if somebody tells them."""
    from admin.faults import Incompatible, NoLeader, Refused
    from admin.model import PartitionId
    from quorum.protocol.errors import ErrorCode

    if not topics:
        return topics
    try:
        moving = {each.id: each for each in (await client.reassignments(stale=stale)).value}
    except (Refused, NoLeader, Incompatible) as error:
        is_unlisted = not isinstance(error, Refused) or (
            error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        if not is_unlisted:
            raise
        say(f"moves are not shown: {error}")
        return topics

    def moved(name: str, found: "PartitionDescription") -> "PartitionDescription":
        move = moving.get(PartitionId(name, found.partition))
        return found if move is None else replace(found, adding=move.adding, removing=move.removing)

    return {
        name: replace(topic, partitions=tuple([moved(name, each) for each in topic.partitions]))
        for name, topic in topics.items()
    }
