"""Requests about many partitions: patched bytes, and reported figures."""

from datetime import timedelta
from pathlib import Path
from struct import Struct
from typing import Any
from uuid import UUID

import pytest

from bench import frames
from bench.bulk import VERSIONS, check
from bench.changing import IsrRequests
from bench.faults import RunFailed
from bench.partition_figures import FIGURES, SIDES
from bench.partition_steps import STEPS
from bench.peers.figures import KAFKA, OURS, met, table
from bench.population import FACTOR, TOPIC_PARTITIONS, Population, isr_request
from bench.stops import Stop, stops_in
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import read_request_header
from tests.support.kio_values import make, make_known, nested

BROKERS = (1, 2, 3, 4, 5, 6)
EPOCHS = {each: 100 + each for each in BROKERS}
_HEAD = 4


def asked(api_key: ApiKey, frame: bytes) -> Any:
    """The request as kio decodes it."""
    version = VERSIONS[api_key]
    _, start = read_request_header(frame[_HEAD:], api_key, version)
    return codec.decode_request(api_key, version, frame[_HEAD + start :])


def test_a_population_is_spread_over_brokers_and_topics() -> None:
    population = Population.spread(2_500, BROKERS, prefix="t")
    assert {each.topic for each in population.held} == {"t-0", "t-1", "t-2"}
    assert population.held[TOPIC_PARTITIONS].number == 0
    leaders = [each.replicas[0] for each in population.held]
    assert {leaders.count(each) for each in BROKERS} <= {416, 417}
    frames = population.creations(2_000)
    sizes = [
        sum(len(topic.assignments) for topic in asked(ApiKey.CREATE_TOPICS, each).topics)
        for each in frames
    ]
    assert sizes == [2_000, 500]


def test_a_move_keeps_each_leader_and_no_follower() -> None:
    population = Population.spread(1_200, BROKERS, prefix="t")
    targets = population.others(BROKERS)
    for each, target in zip(population.held, targets, strict=True):
        assert target[0] == each.replicas[0]
        assert len(set(target)) == FACTOR
        assert not set(target[1:]) & set(each.replicas)
    (frame,) = population.moves(5_000, targets)
    request = asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS, frame)
    said = [each.replicas for topic in request.topics for each in topic.partitions]
    assert said == targets
    population.moving_to(targets)
    frames = population.isrs(150, EPOCHS)
    assert len(frames) == 2 * len(BROKERS)
    first = asked(ApiKey.ALTER_PARTITION, frames[0]).topics[0].partitions[0]
    assert [each.broker_id for each in first.new_isr_with_epochs] == [1, 2, 3, 4, 5]
    assert first.partition_epoch == 1


@pytest.mark.parametrize("epoch", [0, 1, 255, 256, 70_000])
@pytest.mark.parametrize("count", [1, 2, 1_000])
def test_patched_requests_equal_those_of_kio(count: int, epoch: int) -> None:
    population = Population.led_by(1, count, BROKERS[1:], prefix="t")
    for each in population.held:
        each.topic_id = UUID(int=7 << 64)
    patched = IsrRequests(population, 2, EPOCHS).frame(epoch)
    for each in population.held:
        each.isr, each.partition_epoch = each.replicas[:2], epoch
    assert patched == isr_request(1, population.held, EPOCHS)


def answer(error: int) -> bytes:
    """The answer to AlterPartition for one partition."""
    schema = codec.response_schema(ApiKey.ALTER_PARTITION, 3)
    partition = make(
        nested(schema, "PartitionData"),
        partition_index=5,
        error_code=codec.error_code(error),
        leader_id=1,
        leader_epoch=0,
        isr=(1,),
        leader_recovery_state=0,
        partition_epoch=1,
    )
    topic = make(nested(schema, "TopicData"), topic_id=UUID(int=1), partitions=(partition,))
    value = make_known(
        schema, error_code=codec.error_code(0), throttle_time=timedelta(0), topics=(topic,)
    )
    return frames.encode_response(ApiKey.ALTER_PARTITION, 3, 0, value)[_HEAD:]


def test_an_answer_that_is_no_success_ends_the_run() -> None:
    check(ApiKey.ALTER_PARTITION, [answer(0)])
    with pytest.raises(RunFailed, match="partition 5 was answered with"):
        check(ApiKey.ALTER_PARTITION, [answer(0), answer(107)])
    with pytest.raises(RunFailed, match="cannot be read"):
        check(ApiKey.ALTER_PARTITION, [answer(0)[:-3]])


def test_stops_are_read_back_for_the_time_in_which_they_ended(tmp_path: Path) -> None:
    file = tmp_path / "stops"
    assert list(stops_in(file, 0.0, 1e9)) == []
    noted = [Stop(10.0, 0.004, 0.003), Stop(20.0, 0.1, 0.0), Stop(30.0, 0.2, 0.2)]
    file.write_bytes(b"".join(Struct(">ddd").pack(*each) for each in noted) + b"half")
    assert list(stops_in(file, 15.0, 30.0)) == noted[1:]


def test_every_figure_has_a_step_and_every_step_a_figure() -> None:
    assert {figure.step for figure in FIGURES.values()} == set(STEPS)


def test_ours_are_judged_by_kafkas_and_where_they_have_none_by_values() -> None:
    create, changes, stop = FIGURES["create"], FIGURES["changes"], FIGURES["stop"]
    assert met(create, {OURS: [1.9], KAFKA: [10.0]}) == "aim"
    assert met(create, {OURS: [4.9], KAFKA: [10.0]}) == "must"
    assert met(create, {OURS: [5.1], KAFKA: [10.0]}) == "no"
    assert met(create, {OURS: [1.9], KAFKA: []}) == ""
    assert met(changes, {OURS: [100_000.0], KAFKA: []}) == "must"
    assert met(changes, {OURS: [99_999.0], KAFKA: [1.0]}) == "no"
    assert met(stop, {OURS: [9.0], KAFKA: []}) == "aim"
    measured = {OURS: {"create": [2.0]}, KAFKA: {"create": [8.0]}}
    lines = table(measured, figures=FIGURES, sides=SIDES, compared=(KAFKA,)).splitlines()
    assert lines[-1].endswith("| 2 | 8 | 0.25 | 2 x Kafka | 5 x Kafka | must |")
