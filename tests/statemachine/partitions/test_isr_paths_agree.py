"""An ISR change without side effects has the same result on the short path."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine import commands
from statemachine.configs.effective import MIN_ISR
from statemachine.decide import decide
from statemachine.partitions import change_builder
from statemachine.vocabulary import DIRECTORY_LOST
from tests.statemachine.support.world import TOPIC_ID, World, directory
from tests.support.parameters import at_most_in_quick

BROKERS = (1, 2, 3, 4)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(150), deadline=None)
@given(data=st.data(), elr=st.booleans(), needed=st.integers(1, 4))
def test_the_shorter_way_leads_to_the_same_end(data: st.DataObject, elr: bool, needed: int) -> None:
    world = World(broker_count=len(BROKERS), elr=elr)
    replicas = tuple(data.draw(st.permutations(BROKERS)))[: data.draw(st.integers(1, 4))]
    leader = replicas[0]
    others = st.lists(st.sampled_from(replicas), unique=True).map(
        lambda found: tuple(each for each in found if each != leader)
    )
    in_sync = (leader, *data.draw(others))
    eligible = tuple(each for each in data.draw(others) if each not in in_sync)
    lost = data.draw(st.booleans())
    adding = replicas[-1:] if data.draw(st.booleans()) and replicas[-1] not in in_sync else ()
    world.given(
        configs={MIN_ISR: str(needed)},
        replicas=replicas,
        isr=in_sync,
        leader=leader,
        elr=eligible if elr and len(in_sync) < needed and not adding else (),
        adding=adding,
        recovery=data.draw(st.sampled_from((0, 0, 0, 1))) if len(in_sync) == 1 else 0,
        directories=tuple(map(directory, replicas)),
    )
    if lost:
        # Its broker has not said so yet, or it would not lead any more.
        topic = world.image.topics[TOPIC_ID]
        gone = (DIRECTORY_LOST, *map(directory, replicas[1:]))
        world.image.set_partition(topic, 0, replace(world.partition(), directories=gone))
    for broker_id in data.draw(st.lists(st.sampled_from(BROKERS), max_size=1)):
        for record in decide(world.image, commands.FenceBrokers(broker_ids=(broker_id,))).records:
            world.replay(record)
    wanted = (leader, *data.draw(others))
    recovery = data.draw(st.sampled_from((0, 0, 0, 1)))
    command = commands.AlterPartition(
        broker_id=leader,
        broker_epoch=world.epoch(leader),
        proposals=(world.proposal(wanted, recovery=recovery),),
    )
    short = decide(world.image, command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_builder, "isr_alone", lambda *_: None)
        assert decide(world.image, command) == short
