"""Topics by pages, partitions at risk, and what is left to copy."""

from pathlib import Path

from statemachine.commands import FenceBrokers
from tests.admin.http.raw_http import listening
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import a_controller


async def test_topics_are_listed_by_name_and_page(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, 101, 102)
        for name in ("b2", "a", "b1", "b3"):
            await asked(node.controller, topic(name, 101, 102, partitions=3))
        first = (await http.ask("GET", "/v1/topics?prefix=b&page_size=2")).data
        assert [each["name"] for each in first["topics"]] == ["b1", "b2"]
        assert first["topics"][0] == {"name": "b1", "partitions": 3, "replication_factor": 2}
        assert (first["total"], first["next_after"]) == (3, "b2")
        last = (await http.ask("GET", "/v1/topics?prefix=b&page_size=2&after=b2")).data
        assert [each["name"] for each in last["topics"]] == ["b3"]
        assert last["next_after"] is None
        assert (await http.ask("GET", "/v1/topics?page_size=0")).status == 400


async def test_partitions_at_risk_are_counted_and_named(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        controller = node.controller
        await join(controller, 101, 102, 103)
        strict = (("min.insync.replicas", "2"),)
        await asked(controller, topic("strict", 101, 102, partitions=2, configs=strict))
        await asked(controller, topic("lax", 101, 102))
        await asked(controller, topic("alone", 103))
        found = (await http.ask("GET", "/v1/partitions/health")).data
        assert found["partitions"] == 4
        assert (found["under_replicated"], found["at_risk"]) == (0, [])
        await asked(controller, isr(controller, "strict", (101,), (1,)))
        await asked(controller, isr(controller, "lax", (101,)))
        await asked(controller, FenceBrokers(broker_ids=(103,)))
        found = (await http.ask("GET", "/v1/partitions/health?stale=true")).data
        assert found["as_of_offset"] == controller.committed
        assert (found["without_leader"], found["under_min_isr"]) == (1, 1)
        assert found["under_replicated"] == 3
        assert [(each["topic"], each["partition"], each["risk"]) for each in found["at_risk"]] == [
            ("alone", 0, "no-leader"),
            ("strict", 1, "under-min-isr"),
        ]


async def test_running_moves_tell_what_is_left_to_copy_and_what_they_wait_for(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        await asked(node.controller, move("a", 102))
        found = (await http.ask("GET", "/v1/reassignments:progress?ids=1,2")).data
        (left,) = found["moves"]
        # Its broker has reported nothing.
        assert (left["move_id"], left["bytes_left"], left["partitions_bytes_unknown"]) == (
            1,
            None,
            1,
        )
        example = left["example"]
        assert (example["topic"], example["partition"], example["step"]) == ("a", 0, 1)
        assert example["reason"] == "catching-up"
        many = ",".join(map(str, range(1, 12)))
        assert (await http.ask("GET", f"/v1/reassignments:progress?ids={many}")).status == 400
        assert (await http.ask("GET", "/v1/reassignments:progress")).status == 400
