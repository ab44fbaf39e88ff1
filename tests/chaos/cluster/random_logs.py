"""Random logs, decided by the product and checked by the model; a seed determines each.

Brokers come, go and are in sync; operators move, cancel, redirect and configure; some of it is
nonsense. Nothing here checks anything: the model does.
"""

import random
from typing import Final
from uuid import UUID

from chaos.cluster.invariants.metadata import MetadataInvariants
from chaos.cluster.invariants.record_parser import ParsedRecord, fact
from statemachine import commands
from statemachine.decide import decide
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE, Replicas
from tests.statemachine.support.world import (
    CLUSTER_ID,
    FEATURES,
    LEVEL,
    World,
    directory,
    incarnation,
)

BROKERS: Final = 5
STRANGER: Final = 9
"""A broker that never registers."""
TOPICS: Final = "ab"
STALE_EACH: Final = 7
OLD_EACH: Final = 11
LIMITS: Final = (
    "reassignment.parallel.replica.count",
    "reassignment.parallel.partition.count",
    "reassignment.parallel.leader.movements",
    "reassignment.max.concurrent.replica.movements",
)


class Decided(World):
    """A cluster whose every decision goes to the model, as the bytes of one batch."""

    def __init__(self, broker_count: int = 0, level: int = LEVEL, *, elr: bool = False) -> None:
        self.model = MetadataInvariants(has_proposals=True)
        super().__init__(broker_count, level, elr=elr)

    def ask(self, command: commands.Command) -> commands.Decision:
        """Decide, let it be judged, and replay the records."""
        if isinstance(command, commands.AlterReassignments):
            for each in command.reassignments:
                self.model.ask(each.topic, each.partition, each.replicas or ())
        if isinstance(command, commands.AlterPartition):
            for one in command.proposals:
                members = {each.broker_id: each.broker_epoch for each in one.isr}
                key = (one.topic_id.hex, one.partition)
                self.model.propose(key, one.partition_epoch, members)
        if isinstance(command, commands.RegisterBroker):
            stopped_at = -1 if command.previous_epoch is None else command.previous_epoch
            self.model.starts(command.incarnation_id.hex, stopped_at)
        if (
            isinstance(command, commands.ElectLeaders)
            and command.election is commands.ElectionType.UNCLEAN
        ):
            self.model.ask_unclean_election()
        base, ids = self.image.end_offset, dict(self.image.topic_ids)
        decision = decide(self.image, command)
        values = [encode(record, self.image.level) for record in decision.records]
        facts: list[ParsedRecord] = [
            fact(base + place, value) for place, value in enumerate(values)
        ]
        refused = refused_by(decision.answer)
        self.model.take(facts, {(ids[name].hex, n) for name, n in refused if name in ids})
        for value in values:
            replay(self.image, decode(value), self.image.end_offset)
        return decision


def refused_by(answer: commands.Answer) -> set[tuple[str, int]]:
    """The partitions of which every part of a request for moves was refused."""
    if not isinstance(answer, commands.ReassignmentsAltered):
        return set()
    accepted = {(each.topic, each.partition) for each in answer.partitions if not each.error.code}
    return {(each.topic, each.partition) for each in answer.partitions} - accepted


def a_log(seed: int, steps: int = 60) -> Decided:
    """A cluster of five brokers to which that much has happened."""
    rng = random.Random(seed)
    world = Decided(BROKERS, elr=rng.random() < 0.5)
    for place, name in enumerate(TOPICS):
        new = commands.NewTopic(
            name=name,
            topic_id=UUID(int=1 + place << 80),
            partition_count=2,
            replication_factor=3,
            configs=(("min.insync.replicas", "2"),) if place else (),
        )
        world.ask(commands.CreateTopics(topics=(new,)))
    for _ in range(steps):
        world.ask(rng.choice(ANYTHING)(rng, world))
    return world


def a_partition(rng: random.Random, world: World) -> tuple[str, int, PartitionRegistration]:
    """One that exists."""
    found = [
        (topic.name, number, partition)
        for topic in world.image.topics.values()
        for number, partition in topic.existing()
    ]
    return rng.choice(found)


def some_replicas(rng: random.Random) -> Replicas:
    """Ids of brokers that exist, and now and then of one that does not."""
    replicas = tuple(rng.sample(range(1, BROKERS + 1), rng.randrange(1, 5)))
    return (*replicas, STRANGER) if rng.random() < 0.05 else replicas


def a_move(rng: random.Random, world: World) -> commands.Command:
    """To other replicas, to some of the present ones in another order, or back."""
    name, number, partition = a_partition(rng, world)
    replicas: Replicas | None = some_replicas(rng)
    kind = rng.random()
    if kind < 0.2:
        shuffled = rng.sample(partition.replicas, len(partition.replicas))
        replicas = tuple(shuffled[: rng.randrange(1, len(shuffled) + 1)])
    elif kind < 0.45:
        replicas = None
    asked = commands.Reassignment(topic=name, partition=number, replicas=replicas)
    return commands.AlterReassignments(reassignments=(asked,))


def an_isr(rng: random.Random, world: World) -> commands.Command:
    """An ISR that a leader might propose; most often more replicas, fenced ones among them.

    Now and then it has not heard of the last change.
    """
    name, number, partition = a_partition(rng, world)
    wanted = [r for r in partition.replicas if r == partition.leader or rng.random() < 0.75]
    proposal = commands.IsrProposal(
        topic_id=world.image.topic_ids[name],
        partition=number,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch - (world.image.end_offset % OLD_EACH == 0),
        isr=tuple(_member(world, each, partition) for each in wanted),
    )
    sender = partition.leader
    epoch = world.image.brokers[sender].broker_epoch if sender in world.image.brokers else -1
    return commands.AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=(proposal,))


def _member(world: World, broker_id: int, partition: PartitionRegistration) -> commands.IsrMember:
    """Now and then who is to join is known by an epoch that is over."""
    found = world.member(broker_id)
    is_stale = broker_id not in partition.isr and world.image.end_offset % STALE_EACH == 0
    return commands.IsrMember(broker_id, found.broker_epoch - 1) if is_stale else found


def a_heartbeat(rng: random.Random, world: World) -> commands.Command:
    """A heartbeat of a broker that is caught up; now and then it wants to stop."""
    broker_id = rng.randrange(1, BROKERS + 1)
    broker = world.image.brokers.get(broker_id)
    return commands.BrokerHeartbeat(
        broker_id=broker_id,
        broker_epoch=-1 if broker is None else broker.broker_epoch,
        metadata_offset=world.image.end_offset - 1,
        want_shut_down=rng.random() < 0.1,
    )


def a_registration(rng: random.Random, world: World) -> commands.Command:
    """The same incarnation or another one, after a clean end or not."""
    broker_id = rng.randrange(1, BROKERS + 1)
    before = world.image.brokers.get(broker_id)
    epoch = 0 if before is None else before.broker_epoch
    if world.image.end_offset % STALE_EACH == 0:
        epoch -= 1
    return commands.RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        our_cluster_id=CLUSTER_ID,
        incarnation_id=incarnation(broker_id, rng.randrange(1, 3)),
        endpoints=(),
        features=FEATURES,
        rack=rng.choice((None, "x")),
        log_dirs=(directory(broker_id),),
        previous_epoch=rng.choice((None, epoch)),
    )


def a_departure(rng: random.Random, _world: World) -> commands.Command:
    """Sessions expire, one or two at a time."""
    brokers = rng.sample(range(1, BROKERS + 1), rng.randrange(1, 3))
    if rng.random() < 0.05:
        return commands.UnregisterBroker(broker_id=brokers[0])
    return commands.FenceBrokers(broker_ids=tuple(brokers))


def a_setting(rng: random.Random, _world: World) -> commands.Command:
    """A configuration that the state machine uses, of a topic or of all."""
    name, value = rng.choice(
        (
            ("min.insync.replicas", rng.choice("123")),
            ("min.insync.replicas", rng.choice("12")),
            ("unclean.leader.election.enable", rng.choice(("true", "false", "false"))),
            ("reassignment.completion.rule", rng.choice(("min-isr", "all-target"))),
            *((name, rng.choice("123")) for name in LIMITS),
        )
    )
    is_general = name.startswith("reassignment") or rng.random() < 0.3
    change = commands.ConfigChange(
        resource_type=BROKER_RESOURCE if is_general else TOPIC_RESOURCE,
        resource_name="" if is_general else rng.choice(TOPICS),
        ops=(commands.ConfigOp(name=name, operation=rng.choice((0, 0, 1)), value=value),),
    )
    return commands.IncrementalAlterConfigs(changes=(change,), validate_only=False)


def a_sweep(_rng: random.Random, _world: World) -> commands.Command:
    """The active controller looks whether steps may begin that nobody has begun."""
    return commands.AdvanceMoves()


def an_election(rng: random.Random, _world: World) -> commands.Command:
    """An election for all partitions that need one."""
    kind = rng.choice(list(commands.ElectionType))
    return commands.ElectLeaders(election=kind, partitions=None)


ANYTHING: Final = (
    *(a_move, a_move, a_move, an_isr, an_isr, an_isr, an_isr, an_isr, an_isr),
    *(a_heartbeat, a_heartbeat, a_heartbeat, a_heartbeat, a_heartbeat, a_heartbeat),
    *(a_registration, a_registration, a_departure, a_setting, an_election, a_sweep),
)
