"""The count of partitions that are not as they should be, beside one that looks at all of them."""

import random
from uuid import UUID

import pytest

from statemachine.image.image import Image
from statemachine.partitions.partition_health import (
    PartitionState,
    in_states,
    partition_health,
    states_of,
    under_replicated,
)
from statemachine.records import kafka_records
from statemachine.replay import replay
from statemachine.slices import whole
from statemachine.vocabulary import NO_LEADER, TOPIC_RESOURCE

BROKERS = 7
TOPICS = 4
PARTITIONS = 30


def an_image(rng: random.Random) -> Image:
    """Partitions in all states: with and without ISR, moving or not, min ISR set or not."""
    image, offset = Image(), 0
    for number in range(TOPICS):
        topic_id = UUID(int=number + 1)
        replay(image, kafka_records.Topic(name=f"t{number}", topic_id=topic_id), offset)
        if number:
            config = kafka_records.Config(
                resource_type=TOPIC_RESOURCE,
                resource_name=f"t{number}",
                name="min.insync.replicas",
                value=str(number),
            )
            replay(image, config, offset)
        for partition in range(PARTITIONS):
            replicas = tuple(rng.sample(range(BROKERS), 3))
            isr = tuple(each for each in replicas if rng.random() < 0.7)
            adding = replicas[2:] if rng.random() < 0.3 else ()
            record = kafka_records.Partition(
                partition_id=partition,
                topic_id=topic_id,
                replicas=replicas,
                isr=isr or replicas[:1],
                adding=adding,
                leader=isr[0] if isr else NO_LEADER,
                leader_epoch=1,
                partition_epoch=1,
                directories=(UUID(int=0x77),) * 3,
            )
            replay(image, record, offset)
    return image


@pytest.mark.parametrize("seed", range(5))
def test_the_count_agrees_with_one_that_looks_at_every_partition(seed: int) -> None:
    image = an_image(random.Random(seed))
    lacking = short = headless = 0
    for topic in image.topics.values():
        needed = max(1, int(topic.name[1:]))
        for _, each in topic.existing():
            lacking += len(each.isr) < len(each.replicas) - len(each.adding)
            short += len(each.isr) < min(needed, len(each.aimed))
            headless += each.leader == NO_LEADER
    found = whole(partition_health(image))
    assert (found.under_replicated, found.under_min_isr) == (lacking, short)
    assert found.without_leader == headless
    assert min(lacking, short, headless) > 0


def test_brokers_with_everything_in_sync_are_told_by_lengths() -> None:
    image = an_image(random.Random(9))
    index = image.index
    wanted = {
        index.at(key)
        for broker_id, keys in index.replicas_of.items()
        for key in keys
        if key not in index.isr_of.get(broker_id, ())
    }
    assert {index.at(key) for key in whole(under_replicated(index))} == wanted


@pytest.mark.parametrize("state", PartitionState)
def test_the_partitions_in_a_state_are_those_that_say_so(state: PartitionState) -> None:
    image = an_image(random.Random(3))
    wanted = {
        (topic, number)
        for topic in image.topics.values()
        for number, each in topic.existing()
        if state in states_of(image, topic, each)
    }
    found = {image.index.at(key) for key in whole(in_states(image, (state,)))}
    assert 0 < len(found) < TOPICS * PARTITIONS
    assert found == wanted
