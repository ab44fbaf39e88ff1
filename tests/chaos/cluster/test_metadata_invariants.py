"""The checkers' model agrees with random logs that the product decides."""

from uuid import UUID

import pytest

from tests.chaos.cluster.random_logs import Decided, a_log


@pytest.mark.parametrize("seed", range(40))
def test_decisions_of_the_product_satisfy_the_rules(seed: int) -> None:
    world = a_log(seed)
    assert_same(world)


def assert_same(world: Decided) -> None:
    """The model has folded the records to what the product has replayed them to."""
    found = {
        (topic.topic_id.hex, number): partition
        for topic in world.image.topics.values()
        for number, partition in topic.existing()
    }
    assert found.keys() == world.model.parts.keys()
    for key, part in world.model.parts.items():
        told = {"base": found[key].stage.base}
        told |= {n: getattr(found[key], n) for n in part._fields if n != "base"}
        assert part._asdict() == told
    for broker_id, broker in world.image.brokers.items():
        model = world.model.brokers[broker_id]
        assert (model.epoch, UUID(hex=model.incarnation)) == (
            broker.broker_epoch,
            broker.incarnation_id,
        )
        assert world.model.live(broker_id) is broker.live
