"""Partitions whose leader proposes ISRs, likely ones and others, among other events."""

from typing import Final
from uuid import UUID

from hypothesis import strategies as st

from statemachine import commands
from statemachine.configs.effective import MIN_ISR
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, Replicas
from tests.statemachine.support.world import World

TOPICS: Final = {"a": UUID(int=1 << 80), "b": UUID(int=2 << 80)}
REPLICAS: Final = st.sampled_from([(1, 2, 3), (1, 2, 3), (1, 3, 4), (2, 1, 3)])
SELDOM = st.sampled_from([False] * 9 + [True])


class Topics(World):
    """Two topics; broker 1 leads most of their partitions."""

    def __init__(self, assignments: dict[str, list[Replicas]], *, elr: bool = False) -> None:
        self.members: dict[tuple[commands.IsrMember, ...], tuple[commands.IsrMember, ...]] = {}
        """ISRs that are asked for: the same are one and the same, as in a request that is read."""
        super().__init__(broker_count=4, elr=elr)
        self.ask(
            commands.CreateTopics(
                topics=tuple(
                    commands.NewTopic(
                        name=name, topic_id=TOPICS[name], assignments=tuple(enumerate(each))
                    )
                    for name, each in assignments.items()
                )
            )
        )

    def wish(self, name: str, number: int, isr: Replicas, **fields: object) -> commands.IsrProposal:
        """The proposal of a leader; `fields` override."""
        partition = self.image.topics[TOPICS[name]].partition(number)
        members = tuple(self.member(each) for each in isr)
        known: dict[str, object] = {
            "topic_id": TOPICS[name],
            "partition": number,
            "leader_epoch": -1 if partition is None else partition.leader_epoch,
            "partition_epoch": -1 if partition is None else partition.partition_epoch,
            "isr": self.members.setdefault(members, members),
        }
        return commands.IsrProposal(**{**known, **fields})  # type: ignore[arg-type]

    def isrs(self, *wishes: commands.IsrProposal) -> commands.AlterPartition:
        """From broker 1."""
        return commands.AlterPartition(
            broker_id=1, broker_epoch=self.epoch(1), proposals=tuple(wishes)
        )


def any_topics(data: st.DataObject, *, elr: bool) -> Topics:
    """A few partitions of each topic."""
    assignments: dict[str, list[Replicas]] = {
        name: [*data.draw(st.lists(REPLICAS, min_size=1, max_size=6))] for name in TOPICS
    }
    return Topics(assignments, elr=elr)


def many(world: Topics, *, isr: Replicas = (1, 2), count: int = 9) -> commands.AlterPartition:
    """The same ISR for the first partitions of topic "a"."""
    return world.isrs(*(world.wish("a", number, isr) for number in range(count)))


def any_isrs(data: st.DataObject, world: Topics) -> commands.AlterPartition:
    """Mostly of partitions that broker 1 leads, in the order of their topics, and possible."""
    wishes: list[commands.IsrProposal] = []
    for name, topic_id in TOPICS.items():
        for number, partition in world.image.topics[topic_id].existing():
            if partition.leader != 1 and not data.draw(SELDOM):
                continue
            isr = data.draw(
                st.sampled_from([partition.replicas, partition.isr, (1,), (2, 1), (1, 3)])
            )
            epoch = partition.partition_epoch - data.draw(SELDOM)
            recovery = int(data.draw(SELDOM))
            wishes.append(world.wish(name, number, isr, partition_epoch=epoch, recovery=recovery))
    if data.draw(SELDOM) and wishes:
        wishes.append(wishes[data.draw(st.integers(0, len(wishes) - 1))])
    if data.draw(SELDOM):
        wishes.append(world.wish("a", 99, (1,)))
    return world.isrs(*wishes)


def disturb(data: st.DataObject, world: Topics) -> None:
    """Something else happens, for which less may be plain."""
    if data.draw(SELDOM):
        world.fence(data.draw(st.sampled_from([2, 3, 4])))
    if data.draw(SELDOM):
        world.ask(
            commands.AlterReassignments(
                reassignments=(commands.Reassignment(topic="a", partition=0, replicas=(1, 4)),)
            )
        )
    if data.draw(SELDOM):
        world.replay(
            kafka_records.Config(
                resource_type=BROKER_RESOURCE,
                resource_name=CLUSTER_DEFAULT,
                name=PARALLEL_PARTITIONS,
                value=data.draw(st.sampled_from(["1", None])),
            )
        )
    if data.draw(SELDOM):
        world.replay(
            kafka_records.Config(
                resource_type=TOPIC_RESOURCE, resource_name="a", name=MIN_ISR, value="2"
            )
        )


def from_broker_2(command: commands.AlterPartition) -> commands.AlterPartition:
    """The same from a broker that leads nothing of it."""
    return commands.AlterPartition(
        broker_id=2, broker_epoch=command.broker_epoch + 2, proposals=command.proposals
    )
