"""Snapshots over HTTP: those of the node that is asked are listed, and one is taken now."""

import json
import logging
from pathlib import Path

import pytest

from admin.capabilities.snapshots import TakeSnapshot
from admin.client.admin_client import AdminClient
from quorum.core.vocabulary import Snapshot
from quorum.log.checkpoint import checkpoint_name
from quorum.ports import StateSnapshot
from tests.admin.http.test_http_api import check_problem, http_door
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import a_controller, active, controllers

SNAPSHOTS = "/v1/snapshots"


async def test_a_snapshot_is_taken_on_the_node_that_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, 101)
        await asked(leader.controller, topic("t", 101))
        for node in nodes.values():
            if node is leader:
                continue
            assert leader.opened.quorum.replica.snapshots == ()
            async with http_door(node) as http:
                before = (await http.get(SNAPSHOTS)).body
                assert (before["node_id"], before["snapshots"]) == (node.node_id, [])
                taken = await http.post(SNAPSHOTS)
                assert (taken.status, taken.body["node_id"]) == (200, node.node_id)
                after = (await http.get(SNAPSHOTS)).body
                assert 0 < taken.body["end_offset"] <= after["log_end_offset"]
                assert [each | {"node_id": node.node_id} for each in after["snapshots"]] == [
                    taken.body
                ]
                # It has all that is committed, or the next one ends later.
                again = await http.post(SNAPSHOTS)
                assert again.body["end_offset"] >= taken.body["end_offset"]
            newest = node.opened.quorum.replica.snapshots[-1]
            assert newest.size_bytes == size_of_file(tmp_path / f"node-{node.node_id}", newest)
    lines = [json.loads(each) for each in caplog.messages if '"snapshots.take"' in each]
    details = [each["actions"][0]["detail"] for each in lines]
    followers = sorted({*nodes} - {leader.node_id})
    assert details == [f"take a snapshot of node {each}" for each in followers for _ in range(2)]
    assert {each["outcome"] for each in lines} == {"NONE"}


def size_of_file(folder: Path, snapshot: Snapshot) -> int:
    (found,) = folder.glob(f"**/{checkpoint_name(snapshot.id)}")
    return found.stat().st_size


async def test_a_client_takes_one_on_the_node_that_it_asks(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        async with AdminClient([follower.address], is_controller=True) as client:
            taken = await client.ask(TakeSnapshot())
        assert taken.node_id == follower.node_id


async def test_a_node_without_a_snapshot_to_give_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:

        def none() -> StateSnapshot | None:
            return None

        # As in a metadata transaction of another controller.
        monkeypatch.setattr(node.controller, "snapshot", none)
        check_problem(await http.post(SNAPSHOTS), 409, "no snapshot can be taken", "transaction")
        check_problem(await http.post(f"{SNAPSHOTS}?stale=true"), 400, "'stale' is not known")


async def test_a_snapshot_that_takes_longer_than_the_client_waits_goes_on(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node, wait_seconds=0.0) as http:
        late = await http.post(SNAPSHOTS)
        check_problem(late, 504, "GET /v1/snapshots lists it when done")
        assert late.body["kafka_error"] == "REQUEST_TIMED_OUT"
