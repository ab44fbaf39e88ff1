"""Errors of whole requests about reassignments: the top-level error alone."""

from datetime import timedelta
from pathlib import Path

from quorum.protocol.apis import ApiKey
from tests.controller.apis.samples import alter_reassignments
from tests.controller.apis.test_kafka_forwarding import a_scene, caught_up, held_up
from tests.support.broker_requests import creation
from tests.support.controllers import controllers
from tests.support.kafka_client import Form, kafka_client

CREATE = Form(ApiKey.CREATE_TOPICS, 7)
ALTER = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
LIST = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
NOT_CONTROLLER, REQUEST_TIMED_OUT = 41, 7
SOON = timedelta(milliseconds=30)


async def test_without_an_active_controller_nothing_is_moved_or_listed(tmp_path: Path) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        wanted = alter_reassignments(ALTER, ("t", 0, (101,)))
        altered = await client.send(ALTER, ALTER.request(topics=wanted.topics, timeout=SOON))
        assert (altered.error_code.value, altered.responses) == (NOT_CONTROLLER, ())
        listed = await client.send(LIST, LIST.request(topics=None, timeout=SOON))
        assert (listed.error_code.value, listed.topics) == (NOT_CONTROLLER, ())


async def test_a_request_that_is_not_committed_in_time_is_neither_done_nor_refused(
    tmp_path: Path,
) -> None:
    """Nobody knows yet: not whether the move has begun, nor whether it is to be listed."""
    async with a_scene(tmp_path) as scene:
        await scene.at_leader.send(CREATE, creation(CREATE, "t", (101,)))
        for follower in scene.followers:
            await caught_up(follower, scene.leader)
        wanted = alter_reassignments(ALTER, ("t", 0, (102,)))
        async with held_up(scene):
            hasty = ALTER.request(topics=wanted.topics, timeout=SOON)
            altered = await scene.at_follower.send(ALTER, hasty)
            assert (altered.error_code.value, altered.responses) == (REQUEST_TIMED_OUT, ())
            assert f"node {scene.leader.node_id} leads" in altered.error_message
            listed = await scene.at_follower.send(LIST, LIST.request(topics=None, timeout=SOON))
            assert (listed.error_code.value, listed.topics) == (REQUEST_TIMED_OUT, ())
        listed = await scene.at_follower.send(LIST, LIST.request(topics=None))
        (topic,) = listed.topics
        assert topic.name == "t"
