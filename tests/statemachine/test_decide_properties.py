"""Random commands on random clusters: `decide` answers anything, and the rules always hold.

`World.ask` does the checking: that nothing but replay changes the image, that every record comes
back from its bytes, how the epochs count, and that the index says what a scan says.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine import commands
from statemachine.commands import (
    AdvanceMoves,
    AlterMove,
    AlterPartition,
    AlterReassignments,
    AssignReplicasToDirs,
    BeginMove,
    BrokerHeartbeat,
    CancelMoves,
    Command,
    ConfigChange,
    ConfigOp,
    CordonBrokers,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DirectoryAssignment,
    ElectionType,
    ElectLeaders,
    FenceBrokers,
    IdempotentCommand,
    IncrementalAlterConfigs,
    IsrMember,
    IsrProposal,
    MorePartitions,
    NewTopic,
    PauseMoves,
    Reassignment,
    RegisterBroker,
    RollBackMove,
    UnregisterBroker,
)
from statemachine.decide import RULES, decide
from statemachine.image.image import Image
from statemachine.reassignment.settings import CLUSTER_CONFIGS
from statemachine.records import kafka_records
from statemachine.replay import replay
from tests.statemachine.support.random_commands import (
    A_DIRECTORY,
    GARBAGE,
    GARBAGE_BY_KIND,
    NAMES,
    TOPIC_IDS,
)
from tests.statemachine.support.reference_checks import check_image, contents
from tests.statemachine.support.world import CLUSTER_ID, World, directory, incarnation
from tests.statemachine.support.world import FEATURES as FEATURES_OF_BROKERS
from tests.support.parameters import at_most_in_quick

BROKERS = st.integers(1, 6)
NUMBERS = st.integers(0, 2)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)
Draw = Callable[[st.SearchStrategy[Any]], Any]
COMMANDS = {
    each for each in vars(commands).values() if isinstance(each, type) and issubclass(each, Command)
} - {Command, commands.KeyedCommand}


def test_every_command_has_a_rule() -> None:
    assert RULES.keys() == COMMANDS


def a_registration(draw: Draw, image: Image) -> Command:
    """The same incarnation as before or another one, which stopped cleanly or not."""
    broker_id = draw(BROKERS)
    before = image.brokers.get(broker_id)
    return RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        our_cluster_id=CLUSTER_ID,
        incarnation_id=incarnation(broker_id, draw(st.integers(1, 2))),
        endpoints=(),
        features=FEATURES_OF_BROKERS,
        rack=draw(st.sampled_from([None, "x", "y"])),
        log_dirs=(directory(broker_id),),
        previous_epoch=draw(st.sampled_from([None, -1, before.broker_epoch if before else 0])),
    )


def a_heartbeat(draw: Draw, image: Image) -> Command:
    """From a registered incarnation, with any wish."""
    broker_id = draw(BROKERS)
    broker = image.brokers.get(broker_id)
    return BrokerHeartbeat(
        broker_id=broker_id,
        broker_epoch=0 if broker is None else broker.broker_epoch,
        metadata_offset=image.end_offset - draw(st.sampled_from([1, 1, 1, 5])),
        want_fence=draw(st.sampled_from([False, False, True])),
        want_shut_down=draw(st.sampled_from([False, False, True])),
        offline_log_dirs=draw(st.sampled_from([(), (), (), (directory(broker_id),)])),
        lowest_live_offset=draw(st.sampled_from([None, image.end_offset - 1, 0])),
    )


def an_isr(draw: Draw, image: Image) -> Command:
    """From whoever leads, with the present epochs: any of the replicas, the leader among them."""
    proposals = []
    senders = [-1]
    for topic in image.topics.values():
        for number, partition in topic.existing():
            senders.append(partition.leader)
            others = draw(st.lists(st.sampled_from(partition.replicas), unique=True))
            isr = [partition.leader, *(b for b in others if b != partition.leader)]
            members = tuple(
                IsrMember(b, image.brokers[b].broker_epoch if b in image.brokers else -1)
                for b in isr
            )
            proposals.append(
                IsrProposal(
                    topic_id=topic.topic_id,
                    partition=number,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    isr=members,
                )
            )
    sender = draw(st.sampled_from(senders))
    epoch = image.brokers[sender].broker_epoch if sender in image.brokers else -1
    return AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=tuple(proposals))


def reassignments(draw: Draw, image: Image) -> Command:
    """Moves and cancels, of what exists and of what does not."""
    asked = st.builds(
        Reassignment, topic=NAMES, partition=NUMBERS, replicas=st.one_of(st.none(), REPLICAS)
    )
    known = [(t.name, number) for t in image.topics.values() for number, _ in t.existing()]
    if known:
        name, number = draw(st.sampled_from(known))
        replicas = draw(st.one_of(st.none(), REPLICAS, REPLICAS))
        first = [Reassignment(topic=name, partition=number, replicas=replicas)]
    else:
        first = []
    return AlterReassignments(reassignments=(*first, *draw(st.lists(asked, max_size=2))))


def moves(draw: Draw, image: Image) -> Command:
    """Move what is there, or roll back or cancel a move, now and then with a key."""
    known = [(t.name, number) for t in image.topics.values() for number, _ in t.existing()]
    if draw(st.sampled_from([False, False, False, True])):
        return AdvanceMoves()
    if not known or (image.moves and draw(st.booleans())):
        move_id = draw(st.integers(0, 4))
        cancel = CancelMoves(moves=(move_id,), topics=("a",), everything=draw(st.booleans()))
        some = draw(st.sampled_from([None, (move_id,)]))
        command = draw(
            st.sampled_from(
                [
                    RollBackMove(move_id=move_id),
                    cancel,
                    PauseMoves(moves=some, who="ann"),
                    PauseMoves(moves=some, paused=False),
                    AlterMove(
                        move_id=move_id,
                        priority=draw(st.sampled_from([None, 1, 2])),
                        throttle_bytes_per_s=draw(st.sampled_from([None, 0, 5, 7])),
                    ),
                ]
            )
        )
        if draw(st.booleans()):
            key = draw(st.sampled_from("kl"))
            return IdempotentCommand(
                key=key, fingerprint=b"" if key == "k" else b"x", command=command
            )
        return command  # type: ignore[no-any-return]
    asked = draw(st.lists(st.tuples(st.sampled_from(known), REPLICAS), min_size=1, max_size=3))
    return BeginMove(
        reassignments=tuple(
            Reassignment(topic=name, partition=number, replicas=replicas)
            for (name, number), replicas in asked
        ),
        throttle_bytes_per_s=draw(st.sampled_from([0, 0, 5, 9])),
    )


def topics(draw: Draw, _image: Image) -> Command:
    """Topics placed by the controller or assigned by hand, cautious and careless ones."""
    configs = st.lists(
        st.sampled_from(
            [("min.insync.replicas", "2"), ("unclean.leader.election.enable", "true"), ("x", "y")]
        ),
        max_size=2,
        unique=True,
    ).map(tuple)
    placed = st.builds(
        NewTopic,
        name=NAMES,
        topic_id=TOPIC_IDS,
        partition_count=st.integers(1, 3),
        replication_factor=st.integers(1, 4),
        configs=configs,
    )
    assigned = st.builds(
        NewTopic,
        name=NAMES,
        topic_id=TOPIC_IDS,
        assignments=st.tuples(st.tuples(st.just(0), REPLICAS)),
        configs=configs,
    )
    return CreateTopics(
        topics=tuple(draw(st.lists(st.one_of(placed, assigned), min_size=1, max_size=2))),
        validate_only=draw(st.sampled_from([False, False, False, True])),
    )


def an_operator(draw: Draw, _image: Image) -> Command:
    """A request that occurs now and then."""
    broker_ids = st.lists(BROKERS, max_size=3).map(tuple)
    partitions = st.lists(st.tuples(NAMES, NUMBERS), max_size=3).map(tuple)
    command: Command = draw(
        st.one_of(
            st.builds(FenceBrokers, broker_ids=broker_ids),
            st.builds(FenceBrokers, broker_ids=broker_ids),
            st.builds(UnregisterBroker, broker_id=BROKERS),
            st.builds(
                ElectLeaders,
                election=st.sampled_from(ElectionType),
                partitions=st.one_of(st.none(), partitions),
            ),
            st.builds(DeleteTopics, topics=st.lists(NAMES, max_size=1).map(tuple)),
        )
    )
    return command


def growth(draw: Draw, _image: Image) -> Command:
    """More partitions, placed or by hand, and brokers that are to get none of them."""
    if draw(st.booleans()):
        broker_ids = draw(st.lists(BROKERS, max_size=2).map(tuple))
        return CordonBrokers(broker_ids=broker_ids, cordoned=draw(st.booleans()))
    by_hand = st.one_of(st.none(), st.lists(REPLICAS, min_size=1, max_size=2).map(tuple))
    more = st.builds(MorePartitions, name=NAMES, count=st.integers(1, 4), assignments=by_hand)
    return CreatePartitions(topics=tuple(draw(st.lists(more, min_size=1, max_size=2))))


def directories(draw: Draw, image: Image) -> Command:
    """A broker says where its replicas are: where it can be, where nobody knows, or it is lost."""
    broker_id = draw(BROKERS)
    broker = image.brokers.get(broker_id)
    asked = st.builds(
        DirectoryAssignment,
        directory_id=st.one_of(st.just(directory(broker_id)), A_DIRECTORY),
        topic_id=TOPIC_IDS,
        partition=NUMBERS,
    )
    return AssignReplicasToDirs(
        broker_id=broker_id,
        broker_epoch=0 if broker is None else broker.broker_epoch,
        assignments=tuple(draw(st.lists(asked, min_size=1, max_size=3))),
    )


def configs(draw: Draw, _image: Image) -> Command:
    """The configurations that the state machine heeds, of topics and of all brokers."""
    op = st.builds(
        ConfigOp,
        name=st.sampled_from(["min.insync.replicas", "unclean.leader.election.enable"]),
        operation=st.sampled_from([0, 0, 1]),
        value=st.sampled_from(["1", "2", "true", "false"]),
    )
    of_all = st.builds(
        ConfigOp,
        name=st.sampled_from(sorted(CLUSTER_CONFIGS)),
        operation=st.sampled_from([0, 0, 1]),
        value=st.sampled_from(["1", "2", "3", "all-target"]),
    )
    changes = st.one_of(
        st.builds(ConfigChange, resource_type=st.just(2), resource_name=NAMES, ops=st.tuples(op)),
        st.builds(
            ConfigChange,
            resource_type=st.just(4),
            resource_name=st.just(""),
            ops=st.tuples(st.one_of(op, of_all)),
        ),
    )
    return IncrementalAlterConfigs(
        changes=tuple(draw(st.lists(changes, max_size=2))),
        validate_only=draw(st.sampled_from([False, False, False, True])),
    )


SENSIBLE = st.sampled_from(
    [
        a_registration,
        a_heartbeat,
        a_heartbeat,
        an_isr,
        an_isr,
        reassignments,
        reassignments,
        moves,
        topics,
        configs,
        growth,
        directories,
        an_operator,
    ]
)


def a_busy_cluster(data: st.DataObject, steps: int, level: int = 29, *, elr: bool = False) -> World:
    """A cluster to which that many commands have happened."""
    world = World(broker_count=5, level=level, elr=elr)
    for number in (1, 2):
        name = "abc"[number - 1]
        new = NewTopic(
            name=name,
            topic_id=UUID(int=number << 80),
            partition_count=2,
            replication_factor=3,
            configs=(("min.insync.replicas", "2"),) if number == 1 else (),
        )
        world.ask(CreateTopics(topics=(new,)))
    for _ in range(steps):
        act(data, world)
    return world


def act(data: st.DataObject, world: World) -> commands.Decision:
    """One command that makes sense."""
    make = data.draw(SENSIBLE)
    return world.ask(make(data.draw, world.image))


@settings(max_examples=at_most_in_quick(60))
@given(data=st.data(), level=st.sampled_from([15, 17, 29]))
def test_the_rules_hold_whatever_brokers_and_operators_do(data: st.DataObject, level: int) -> None:
    a_busy_cluster(data, steps=data.draw(st.integers(5, 25)), level=level)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60))
@given(data=st.data())
def test_with_eligible_leader_replicas_they_hold_as_well(data: st.DataObject) -> None:
    """KIP-966: `reference_checks` has the rules of ELR, ISR and last known leader."""
    steps = data.draw(st.integers(5, 25))
    a_busy_cluster(data, steps, data.draw(st.sampled_from([23, 29])), elr=True)


def test_every_command_there_is_is_tried_with_what_may_be_wrong_with_it() -> None:
    assert GARBAGE_BY_KIND.keys() == COMMANDS


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(150))
@given(data=st.data(), command=GARBAGE)
def test_decide_answers_anything(data: st.DataObject, command: Command) -> None:
    world = a_busy_cluster(data, steps=data.draw(st.integers(0, 3)), elr=data.draw(st.booleans()))
    decision = world.ask(command)
    assert decision.answer is not None


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data())
def test_a_rewind_gives_the_image_of_then(data: st.DataObject) -> None:
    world = a_busy_cluster(data, steps=3, elr=data.draw(st.booleans()))
    image = world.image
    image.begin_undo_log(image.end_offset)
    states = {image.end_offset: contents(image)}
    for _ in range(data.draw(st.integers(1, 8))):
        act(data, world)
        states[image.end_offset] = contents(image)
    committed = data.draw(st.sampled_from(sorted(states)))
    image.committed(committed)
    for offset in sorted(states, reverse=True):
        if offset < committed:
            break
        image.rewind(offset)
        assert contents(image) == states[offset]
        check_image(image)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(30))
@given(data=st.data())
def test_two_images_of_one_log_decide_alike(data: st.DataObject) -> None:
    """Equal results for any history of a process, of keys in its bitmaps and of ids in its sets."""
    world = a_busy_cluster(data, steps=8, elr=data.draw(st.booleans()))
    image = world.image
    # The same state without the history, as from a snapshot; topics in the other order.
    twin = Image()
    for name, level in image.features.items():
        replay(twin, kafka_records.FeatureLevel(name=name, level=level), image.end_offset - 1)
    for topic in reversed(image.topics.values()):
        replay(
            twin,
            kafka_records.Topic(name=topic.name, topic_id=topic.topic_id),
            image.end_offset - 1,
        )
        for number, p in topic.existing():
            fields = {name: getattr(p, name) for name in p.__struct_fields__ if name != "stage"}
            fields |= {name: getattr(p.stage, name) for name in p.stage.__struct_fields__}
            record = kafka_records.Partition(partition_id=number, topic_id=topic.topic_id, **fields)
            replay(twin, record, image.end_offset - 1)
    for table in ("brokers", "configs", "quotas", "moves", "keys", "owned", "singles"):
        getattr(twin, table).update(reversed(getattr(image, table).items()))
    make = data.draw(SENSIBLE)
    command = make(data.draw, image)
    # Keys do follow from the history: what is decided is the records and the answer.
    ours, theirs = (replace(decide(each, command), decided={}) for each in (image, twin))
    assert ours == theirs
