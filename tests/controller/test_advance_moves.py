"""The active controller continues moves that one decision has not finished."""

from pathlib import Path
from uuid import UUID

from controller.quorum_controller import ADVANCE_INTERVAL_MS, QuorumController
from statemachine import commands
from statemachine.limits import PARTITIONS_FREED_BY_CONFIGS_MAX, STEPS_BEGUN_MAX
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, NO_LEADER
from tests.controller.controller_commands import asked, heartbeat, join
from tests.support.controllers import a_controller

COUNT = STEPS_BEGUN_MAX + 20


async def limit(controller: QuorumController, partitions: int) -> None:
    """Limit the number of partitions with a step in progress."""
    await configure(controller, PARALLEL_PARTITIONS, str(partitions))


async def configure(controller: QuorumController, name: str, value: str) -> None:
    """All brokers share this configuration."""
    set_it = commands.ConfigOp(name=name, operation=commands.ConfigOperation.SET, value=value)
    change = commands.ConfigChange(
        resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, ops=(set_it,)
    )
    await asked(controller, commands.IncrementalAlterConfigs(changes=(change,)))


async def test_elections_that_one_decision_leaves_over_follow(tmp_path: Path) -> None:
    count = PARTITIONS_FREED_BY_CONFIGS_MAX + 20
    async with a_controller(tmp_path) as node:
        controller = node.controller
        for broker_id in (101, 102):
            await join(controller, broker_id)
        new = commands.NewTopic(
            name="t",
            topic_id=UUID(int=5 << 80),
            assignments=tuple((number, (101, 102)) for number in range(count)),
        )
        await asked(controller, commands.CreateTopics(topics=(new,)))
        for broker_id in (102, 101):
            await asked(controller, commands.FenceBrokers(broker_ids=(broker_id,)))
        await asked(controller, heartbeat(controller, 102))
        leaderless = controller.image.index.leader_of[NO_LEADER]
        assert len(leaderless) == count
        await configure(controller, "unclean.leader.election.enable", "true")
        assert len(leaderless) == 20
        controller.advance_moves()
        assert not leaderless
        controller.advance_moves()
        end = controller.image.end_offset
        controller.advance_moves()
        assert controller.image.end_offset == end


async def test_steps_that_one_decision_does_not_begin_begin_a_moment_later(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        new = commands.NewTopic(
            name="t", topic_id=UUID(int=5 << 80), partition_count=COUNT, replication_factor=1
        )
        await asked(controller, commands.CreateTopics(topics=(new,)))
        await join(controller, 102)
        await limit(controller, 1)
        moves = commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="t", partition=number, replicas=(102,))
                for number in range(COUNT)
            )
        )
        await asked(controller, moves)
        index = controller.image.index
        assert (len(index.stepping), len(index.waiting)) == (1, COUNT - 1)
        await limit(controller, COUNT)
        assert len(index.stepping) == STEPS_BEGUN_MAX + 1
        assert controller.advance_moves() == ADVANCE_INTERVAL_MS
        assert (len(index.stepping), len(index.waiting)) == (COUNT, 0)
        end = controller.image.end_offset
        controller.advance_moves()
        assert controller.image.end_offset == end
