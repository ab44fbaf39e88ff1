"""KIP-966: a clean election never gives the lead to a replica that lacks an acknowledged record.

Beside the cluster runs a ledger of who has everything that was ever acknowledged. It knows nothing
of the ELR: enough in sync means that the leader may acknowledge, and then only those in sync have
it all; a restart that was not clean loses everything.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.commands import (
    AlterPartition,
    Command,
    CreateTopics,
    FenceBrokers,
    NewTopic,
    RegisterBroker,
    UnregisterBroker,
)
from statemachine.features.features import ELR_VERSION
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records import kafka_records
from statemachine.vocabulary import NO_LEADER, RECOVERING, TOPIC_RESOURCE, Replicas
from tests.statemachine.support.config_requests import MIN_ISR, SET, change
from tests.statemachine.support.reference_checks import has_elr
from tests.statemachine.support.world import World
from tests.statemachine.test_decide_properties import (
    Draw,
    a_heartbeat,
    a_registration,
    an_isr,
    reassignments,
)
from tests.support.parameters import at_most_in_quick

BROKERS = range(1, 6)


class Ledger(World):
    """A cluster, and per partition the replicas that have everything acknowledged."""

    def __init__(self) -> None:
        self.complete: dict[tuple[UUID, int], set[int]] = {}
        self.proposed: dict[tuple[UUID, int], set[int]] = {}
        self.trusted: set[tuple[UUID, int]] = set()
        self.elections = 0
        super().__init__(broker_count=len(BROKERS), elr=True)

    def ask(self, command: Command) -> commands.Decision:
        """As ever; but first a broker that begins anew without a clean end loses what it had."""
        if isinstance(command, RegisterBroker):
            before = self.image.brokers.get(command.broker_id)
            same = before is not None and before.incarnation_id == command.incarnation_id
            refused = before is not None and not before.fenced and not same
            clean = before is not None and command.previous_epoch == before.broker_epoch
            if not (same or refused or clean):
                for complete in self.complete.values():
                    complete.discard(command.broker_id)
                if not has_elr(self.image):
                    self.trusted |= self.led_by_nobody_but(command.broker_id)
        self.proposed = {}
        if isinstance(command, AlterPartition):
            for each in command.proposals:
                members = {member.broker_id for member in each.isr}
                self.proposed[each.topic_id, each.partition] = members
        return super().ask(command)

    def led_by_nobody_but(self, broker_id: int) -> set[tuple[UUID, int]]:
        """KIP-903: its last member stays in an ISR, whatever it lost, if the feature is off then.

        Switched on later it finds a member of the ISR like any other.
        """
        return {
            (topic.topic_id, number)
            for topic in self.image.topics.values()
            for number, partition in topic.existing()
            if partition.isr == (broker_id,)
        }

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        """Keep the books of every partition that a record creates, changes or is about."""
        isr_before: Replicas = ()
        if isinstance(record, kafka_records.PartitionChange):
            before = self.image.topics[record.topic_id].partition(record.partition_id)
            isr_before = () if before is None else before.isr
        super().replay(record, written)
        if isinstance(record, kafka_records.Partition | kafka_records.PartitionChange):
            self.book(record, isr_before)
        elif isinstance(record, kafka_records.Config):
            for topic in self.image.topics.values():
                for number, partition in topic.existing():
                    self.acknowledged(topic, number, partition)

    def book(
        self, record: kafka_records.Partition | kafka_records.PartitionChange, isr_before: Replicas
    ) -> None:
        """The replicas that have everything after this change."""
        key = (record.topic_id, record.partition_id)
        topic = self.image.topics[record.topic_id]
        partition = topic.partition(record.partition_id)
        assert partition is not None
        complete = self.complete.setdefault(key, set(partition.isr))
        may_lack = partition.leader in isr_before and (
            key in self.trusted or not has_elr(self.image)
        )
        # Whom the leader lets into the ISR has everything, and may lead by the same change where
        # that completes a reassignment.
        complete |= self.proposed.get(key, set()) & set(partition.isr)
        if record.leader not in (None, NO_LEADER):
            if record.recovery == RECOVERING or (
                partition.recovery == RECOVERING and partition.isr == (partition.leader,)
            ):
                # It may have lost something, and says so: what it has is all there is now.
                complete.clear()
                complete.add(partition.leader)
            elif partition.leader not in complete and may_lack:
                self.trusted.discard(key)
                complete.clear()
                complete.add(partition.leader)
            assert partition.leader in complete, f"{partition.leader} of {complete}: {partition}"
            self.elections += 1
        complete |= set(partition.isr)
        self.acknowledged(topic, record.partition_id, partition)

    def acknowledged(self, topic: Topic, number: int, partition: PartitionRegistration) -> None:
        """If enough are in sync, only these have everything from now on."""
        configured = int(self.image.configs.get((2, topic.name), {}).get("min.insync.replicas", 1))
        if len(partition.isr) >= min(configured, len(partition.replicas)):
            self.complete[topic.topic_id, number].intersection_update(partition.isr)


def a_loss(draw: Draw, image: Image) -> Command:
    """All replicas of a partition fall silent at once, or some brokers do."""
    held = [p.replicas for topic in image.topics.values() for _, p in topic.existing()]
    some = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
    return FenceBrokers(broker_ids=draw(st.one_of(some, st.sampled_from(held))))


def a_return(draw: Draw, image: Image) -> Command:
    """A fenced broker wants to be unfenced: it has read all there is."""
    fenced = [each for each in sorted(image.brokers) if image.brokers[each].fenced]
    if not fenced:
        return a_loss(draw, image)
    broker = image.brokers[draw(st.sampled_from(fenced))]
    return commands.BrokerHeartbeat(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        metadata_offset=image.end_offset,
    )


def a_switch(draw: Draw, image: Image) -> Command:
    """The feature is switched on, or off."""
    off = has_elr(image)
    update = commands.FeatureUpdate(
        name=ELR_VERSION,
        level=0 if off else 1,
        upgrade=commands.UpgradeType.SAFE_DOWNGRADE if off else commands.UpgradeType.UPGRADE,
    )
    return commands.UpdateFeatures(updates=(update,), controller_id=1, voters=(1,))


def a_min_isr(draw: Draw, _image: Image) -> Command:
    """Another min ISR for one of the topics."""
    op = (MIN_ISR, SET, str(draw(st.integers(1, 3))))
    topic = (TOPIC_RESOURCE, draw(st.sampled_from("abc")))
    return commands.IncrementalAlterConfigs(changes=(change(topic, op),))


def a_farewell(draw: Draw, _image: Image) -> Command:
    """Seldom: a broker is forgotten."""
    return UnregisterBroker(broker_id=draw(st.sampled_from(BROKERS)))


STEPS = [
    *[a_loss] * 3,
    *[a_return] * 4,
    *[a_registration] * 3,
    *[an_isr] * 3,
    a_heartbeat,
    reassignments,
    a_farewell,
]


def go_on(data: st.DataObject, steps: Sequence[Callable[[Draw, Image], Command]]) -> None:
    """Three topics, and some of these steps; the ledger sees to it that nothing is lost."""
    ledger = Ledger()
    for number, min_isr in enumerate((1, 2, 3)):
        topic = NewTopic(
            name="abc"[number],
            topic_id=UUID(int=(number + 1) << 80),
            partition_count=1,
            replication_factor=3,
            configs=(("min.insync.replicas", str(min_isr)),),
        )
        ledger.ask(CreateTopics(topics=(topic,)))
    for _ in range(data.draw(st.integers(5, 30))):
        step = data.draw(st.sampled_from(steps))
        ledger.ask(step(data.draw, ledger.image))


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(80))
@given(data=st.data())
def test_a_clean_election_loses_nothing_that_was_acknowledged(data: st.DataObject) -> None:
    go_on(data, STEPS)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(80))
@given(data=st.data())
def test_a_clean_election_loses_nothing_while_the_feature_and_min_isr_change(
    data: st.DataObject,
) -> None:
    go_on(data, [*STEPS, *[a_switch] * 2, *[a_min_isr] * 2])
