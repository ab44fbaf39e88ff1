"""CreateTopics and DeleteTopics, and where replicas are placed."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine import commands
from statemachine.commands import NewTopic, TopicCreated
from statemachine.configs.topic_configs import GONE_WITH_KAFKA_4, TOPIC_CONFIGS, topic_value_refusal
from statemachine.errors import Error
from statemachine.limits import CREATED_PARTITIONS_MAX
from statemachine.records import kafka_records
from statemachine.topics import placement
from statemachine.topics.placement import place
from statemachine.vocabulary import TOPIC_RESOURCE
from tests.statemachine.support.world import LEVEL, World, directory


def new(name: str = "n", topic_id: int = 1, **fields: object) -> NewTopic:
    """A topic to create, with two partitions of two replicas unless `fields` say otherwise."""
    counts = {} if "assignments" in fields else {"partition_count": 2, "replication_factor": 2}
    return NewTopic(name=name, topic_id=UUID(int=topic_id << 80), **{**counts, **fields})  # type: ignore[arg-type]


def create(world: World, *topics: NewTopic, **fields: object) -> tuple[TopicCreated, ...]:
    """The result for each topic."""
    command = commands.CreateTopics(topics=topics, **fields)  # type: ignore[arg-type]
    answer = world.ask(command).answer
    assert isinstance(answer, commands.TopicsCreated)
    return answer.topics


def test_a_topic_is_created_with_its_configuration_and_its_partitions() -> None:
    world = World(broker_count=3)
    (answer,) = create(world, new(configs=(("min.insync.replicas", "2"),)))
    assert answer == TopicCreated(
        name="n", topic_id=UUID(int=1 << 80), partition_count=2, replication_factor=2
    )
    described = world.image.topic_named("n")
    assert described is not None
    assert described is world.image.topics[UUID(int=1 << 80)]
    assert world.image.configs[(TOPIC_RESOURCE, "n")] == {"min.insync.replicas": "2"}
    for _, partition in described.existing():
        assert len(partition.replicas) == 2
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == tuple(directory(b) for b in partition.replicas)
    assert world.image.topic_named("other") is None


def test_a_broker_with_several_directories_is_to_choose_and_one_with_none_has_one() -> None:
    """KIP-858: UNASSIGNED is 1 and MIGRATING is 0."""
    world = World()
    world.join(1, log_dirs=(directory(11), directory(12)))
    world.join(2)
    # Registered before the level knew of directories.
    old = kafka_records.RegisterBroker(
        broker_id=3,
        incarnation_id=UUID(int=3),
        broker_epoch=world.image.end_offset,
        endpoints=(),
        features=(),
        rack=None,
        fenced=False,
    )
    world.replay(old)
    create(world, new(assignments=((0, (1, 2, 3)),)))
    described = world.image.topic_named("n")
    assert described is not None
    unassigned, migrating = UUID(int=1), UUID(int=0)
    assert next(described.existing())[1].directories == (unassigned, directory(2), migrating)


def test_below_level_17_no_directories_are_written() -> None:
    world = World(broker_count=2, level=15)
    create(world, new())
    described = world.image.topic_named("n")
    assert described is not None
    assert next(described.existing())[1].directories == ()


def test_an_assignment_is_taken_as_it_is() -> None:
    world = World(broker_count=3)
    world.fence(3)
    create(world, new(assignments=((1, (2, 1)), (0, (3, 1)))))
    described = world.image.topic_named("n")
    assert described is not None
    assert [(p.replicas, p.isr, p.leader) for _, p in described.existing()] == [
        ((3, 1), (1,), 1),
        ((2, 1), (2, 1), 2),
    ]


def test_the_same_topic_twice_and_one_that_exists_are_refused() -> None:
    world = World(broker_count=2)
    first = create(world, new(), new(topic_id=2), new("other", 1))
    assert [answer.error for answer in first] == [
        Error.NONE,
        Error.TOPIC_ALREADY_EXISTS,
        Error.INVALID_REQUEST,
    ]
    (again,) = create(world, new(topic_id=3))
    assert again.error is Error.TOPIC_ALREADY_EXISTS


def test_validate_only_answers_alike_and_creates_nothing() -> None:
    world = World(broker_count=2)
    checked = create(world, new(), new(topic_id=2), validate_only=True)
    assert not world.image.topics
    assert create(world, new(), new(topic_id=2)) == checked


def test_counts_of_minus_one_are_the_defaults() -> None:
    world = World(broker_count=3)
    topic = NewTopic(name="n", topic_id=UUID(int=1))
    (answer,) = create(world, topic, default_partition_count=4, default_replication_factor=3)
    assert (answer.partition_count, answer.replication_factor) == (4, 3)


@pytest.mark.parametrize(
    ("topic", "error", "named"),
    [
        (new(""), Error.INVALID_TOPIC_EXCEPTION, "name"),
        (new("."), Error.INVALID_TOPIC_EXCEPTION, "'.'"),
        (new(".."), Error.INVALID_TOPIC_EXCEPTION, "'..'"),
        (new("a b"), Error.INVALID_TOPIC_EXCEPTION, "'a b'"),
        (new("a\n"), Error.INVALID_TOPIC_EXCEPTION, "ASCII"),
        (new("ä"), Error.INVALID_TOPIC_EXCEPTION, "ASCII"),
        (new("x" * 250), Error.INVALID_TOPIC_EXCEPTION, "max allowed length 249"),
        (new(partition_count=0), Error.INVALID_PARTITIONS, "0 partitions"),
        (new(partition_count=-2), Error.INVALID_PARTITIONS, "-2"),
        (new(partition_count=2**31 - 1), Error.INVALID_PARTITIONS, str(CREATED_PARTITIONS_MAX)),
        (new(replication_factor=0), Error.INVALID_REPLICATION_FACTOR, "0"),
        (
            new(replication_factor=4),
            Error.INVALID_REPLICATION_FACTOR,
            "only 3 broker(s) are registered",
        ),
        (
            NewTopic(name="n", topic_id=UUID(int=5), partition_count=1, assignments=((0, (1,)),)),
            Error.INVALID_REQUEST,
            "-1",
        ),
        (new(assignments=((0, (1,)), (0, (2,)))), Error.INVALID_REPLICA_ASSIGNMENT, "from 0"),
        (new(assignments=((1, (1,)),)), Error.INVALID_REPLICA_ASSIGNMENT, "from 0"),
        (new(assignments=((0, ()),)), Error.INVALID_REPLICA_ASSIGNMENT, "partition 0"),
        (new(assignments=((0, (1, 1)),)), Error.INVALID_REPLICA_ASSIGNMENT, "more than once: 1"),
        (new(assignments=((0, (9,)),)), Error.INVALID_REPLICA_ASSIGNMENT, "9"),
        (new(assignments=((0, (1,)), (1, (1, 2)))), Error.INVALID_REPLICA_ASSIGNMENT, "1 has 2"),
        (new(assignments=((0, (3,)),)), Error.INVALID_REPLICA_ASSIGNMENT, "fenced"),
        (new(configs=(("min.insync", "1"),)), Error.INVALID_CONFIG, "min.insync"),
        (new(configs=(("min.insync.replicas", "0"),)), Error.INVALID_CONFIG, "from 1"),
        (new(configs=(("min.insync.replicas", None),)), Error.INVALID_CONFIG, "no value"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_the_next_is_created(
    topic: NewTopic, error: Error, named: str
) -> None:
    world = World(broker_count=3)
    world.fence(3)
    bad, good = create(world, topic, new("good", 7))
    assert (bad.error, good.error) == (error, Error.NONE)
    assert named in bad.message
    assert [topic.name for topic in world.image.topics.values()] == ["good"]


def test_the_partitions_of_one_request_are_bounded_together() -> None:
    world = World(broker_count=1)
    half = CREATED_PARTITIONS_MAX // 2 + 1
    answers = create(
        world,
        new("a", 1, partition_count=half, replication_factor=1),
        new("b", 2, partition_count=half, replication_factor=1),
        new("c", 3, assignments=tuple((number, (1,)) for number in range(half))),
        validate_only=True,
    )
    assert [answer.error for answer in answers] == [
        Error.NONE,
        Error.INVALID_PARTITIONS,
        Error.INVALID_PARTITIONS,
    ]


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS.keys() - GONE_WITH_KAFKA_4))
def test_every_configuration_of_topics_says_what_it_ought_to_be(name: str) -> None:
    reason = topic_value_refusal(name, "not a value of anything", LEVEL)
    assert reason is not None
    assert "it must be" in reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact, delete"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("retention.ms", "-1"),
        ("leader.replication.throttled.replicas", "0:101,1:102"),
        ("follower.replication.throttled.replicas", "*"),
        ("unclean.leader.election.enable", "TRUE"),
        ("compression.type", "zstd"),
    ],
)
def test_values_that_kafka_takes_are_taken(name: str, value: str) -> None:
    assert topic_value_refusal(name, value, LEVEL) is None


# Deletion.


def test_topics_are_deleted_by_name_and_by_id_and_take_their_configuration_along() -> None:
    world = World(broker_count=2)
    create(world, new("a", 1, configs=(("retention.ms", "5"),)), new("b", 2), new("c", 3))
    decision = world.ask(
        commands.DeleteTopics(topics=("a", UUID(int=2 << 80), "a", "nope", UUID(int=9)))
    )
    assert isinstance(decision.answer, commands.TopicsDeleted)
    assert [(t.name, t.error) for t in decision.answer.topics] == [
        ("a", Error.NONE),
        ("b", Error.NONE),
        ("a", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (None, Error.UNKNOWN_TOPIC_ID),
    ]
    assert [topic.name for topic in world.image.topics.values()] == ["c"]
    assert not world.image.configs
    assert create(world, new("a", 4))[0].error is Error.NONE


# Placement.


def brokers(racks: list[str | None]) -> list[kafka_records.RegisterBroker]:
    """Brokers 1 to n, each in its rack."""
    return [
        kafka_records.RegisterBroker(
            broker_id=number,
            broker_epoch=0,
            incarnation_id=UUID(int=number),
            endpoints=(),
            features=(),
            rack=rack,
            log_dirs=(),
            fenced=False,
            registered_at=0,
        )
        for number, rack in enumerate(racks, start=1)
    ]


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c", "d"]), min_size=1, max_size=9),
    topic_id=st.uuids(),
    count=st.integers(1, 40),
    data=st.data(),
)
def test_replicas_are_spread_over_racks_and_brokers(
    racks: list[str | None], topic_id: UUID, count: int, data: st.DataObject
) -> None:
    cluster = brokers(racks)
    factor = data.draw(st.integers(1, len(cluster)))
    placed = list(place(cluster, topic_id, count, factor))
    assert placed == list(place(list(reversed(cluster)), topic_id, count, factor))
    rack_of = {broker.broker_id: broker.rack for broker in cluster}
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        # No rack holds a second replica while another that has a broker to spare holds none.
        used = Counter(rack_of[replica] for replica in replicas)
        assert len(used) == min(factor, len(set(racks)))
        for rack, number in used.items():
            for other, size in Counter(racks).items():
                assert number <= used[other] + 1 or used[other] == size, (rack, other)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[b.broker_id] for b in cluster) <= 1


class CountedRing(list[int]):
    """A ring that counts how often somebody is looked at in it."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("racks", [[None] * 1_000, ["a", "b"] * 500, list("abc") * 333])
def test_placing_a_replica_does_not_look_at_every_broker(
    racks: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = CountedRing(range(1, len(racks) + 1))
    monkeypatch.setattr(placement, "_ring", lambda _: ring)
    placed = list(place(brokers(racks), UUID(int=7), 100, 3))
    assert len(placed) == 100
    # The leader twice, for itself and for its rack; besides, those that come next round the ring.
    assert ring.looks <= 100 * 10


def test_followers_of_one_leader_are_spread_too() -> None:
    placed = list(place(brokers([None] * 5), UUID(int=0), 20, 2))
    of_one = {replicas[1] for replicas in placed if replicas[0] == 1}
    assert of_one == {2, 3, 4, 5}


def test_topics_of_one_partition_do_not_all_begin_at_the_same_broker() -> None:
    cluster = brokers([None] * 4)
    leaders = {next(place(cluster, UUID(int=number), 1, 2))[0] for number in range(8)}
    assert leaders == {1, 2, 3, 4}


def test_the_records_come_in_kafkas_order() -> None:
    world = World(broker_count=2)
    topic = new(configs=(("retention.ms", "5"),))
    decision = world.ask(commands.CreateTopics(topics=(topic,)))
    kinds = [type(record) for record in decision.records]
    assert kinds == [
        kafka_records.Topic,
        kafka_records.Config,
        kafka_records.Partition,
        kafka_records.Partition,
    ]
