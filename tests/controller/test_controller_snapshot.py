"""The snapshot of a controller has committed records only."""

from pathlib import Path

from statemachine.image.snapshot import load
from tests.controller.controller_commands import asked, busy, join, topic
from tests.statemachine.support.reference_checks import contents
from tests.support.controllers import a_controller, controllers


async def test_the_active_controller_leaves_out_what_is_not_committed(tmp_path: Path) -> None:
    """It replays at append, so its image is ahead of what a snapshot may say."""
    async with a_controller(tmp_path) as node:
        controller = node.controller
        await join(controller, 101)
        await asked(controller, topic("a", 101))
        then, committed = contents(controller.image), controller.committed
        async with busy(node.opened.disk):
            answer = asked(controller, topic("b", 101))
            assert "b" in controller.image.topic_ids
            snapshot = controller.snapshot()
            assert snapshot is not None
            assert snapshot.end == committed
            first = next(snapshot.groups)
            later = asked(controller, topic("c", 101))
        await answer
        await later
        image = load([*first, *(value for group in snapshot.groups for value in group)], committed)
        assert contents(image) == then
        assert controller.image.topic_ids.keys() == {"a", "b", "c"}


async def test_a_controller_that_has_heard_of_no_commit_has_none(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, voters=(2, 3)) as nodes:
        assert nodes[1].controller.snapshot() is None
