"""Lists over HTTP: their pages, totals and filters; and the progress of moves."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from admin.capabilities.paging import Paged
from admin.capabilities.registry import CAPABILITIES
from statemachine.commands import (
    AlterReassignments,
    CordonBrokers,
    FenceBrokers,
    PauseMoves,
    Reassignment,
)
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.http.raw_http import listening
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller
from tests.support.described_http import operation_of


@dataclass(frozen=True)
class Listed:
    """A list: its path, the field of its items, and what they are called."""

    path: str
    items: str
    name: Callable[[Any], Any]


def partition(each: Any) -> tuple[str, int]:
    return each["topic"], each["partition"]


LISTS = {
    "brokers.list": Listed("/v1/brokers", "brokers", itemgetter("broker_id")),
    "moves.list": Listed("/v1/reassignments", "moves", itemgetter("move_id")),
    "reassignments.list": Listed("/v1/reassignments/partitions", "partitions", partition),
    "moves.partitions": Listed("/v1/reassignments/1/partitions", "partitions", partition),
    "topics.list": Listed("/v1/topics", "topics", itemgetter("name")),
    "topics.describe": Listed("/v1/topics/strict", "partitions", itemgetter("partition")),
    "partitions.list": Listed("/v1/partitions", "partitions", partition),
    "users.list": Listed("/v1/users", "users", itemgetter("name")),
    "quotas.list": Listed("/v1/quotas", "entities", lambda each: each["entity"]["user"]),
    "acls.list": Listed("/v1/acls", "acls", itemgetter("resource_name")),
    "operations.list": Listed("/v1/operations", "operations", itemgetter("operation_id")),
    "quorum.replicas": Listed("/v1/quorum/replicas", "replicas", itemgetter("replica_id")),
}
EVERYTHING = [("alone", 0), ("lax", 0), ("still", 0), ("strict", 0), ("strict", 1)]
FILTERED = {
    "/v1/brokers?state=fenced": [103],
    "/v1/brokers?state=fenced,alive&cordoned=true": [102],
    "/v1/brokers?cordoned=false": [101, 103],
    "/v1/reassignments?state=paused": [1],
    "/v1/reassignments?state=running": [2],
    "/v1/reassignments?state=completed,cancelled,gone": [],
    "/v1/reassignments/partitions": [("lax", 0), ("strict", 0), ("strict", 1)],
    "/v1/reassignments/partitions?topic=lax": [("lax", 0)],
    "/v1/reassignments/partitions?topic=unknown": [],
    "/v1/reassignments/partitions?state=growing": [("lax", 0)],
    "/v1/reassignments/partitions?state=waiting": [],
    "/v1/reassignments/partitions?state=waiting,paused": [("strict", 0), ("strict", 1)],
    "/v1/reassignments/1/partitions?state=growing,waiting": [],
    "/v1/reassignments/1/partitions?state=paused": [("strict", 0), ("strict", 1)],
    "/v1/reassignments/1/partitions?state=catching-up": [],
    "/v1/topics?prefix=s": ["still", "strict"],
    "/v1/topics?state=without-leader": ["alone"],
    "/v1/topics?state=reassigning&prefix=s": ["strict"],
    "/v1/topics/strict?state=under-min-isr": [1],
    "/v1/partitions": EVERYTHING,
    "/v1/partitions?state=without-leader": [("alone", 0)],
    # The last replica of "alone" is fenced: nobody is in sync.
    "/v1/partitions?state=under-min-isr": [("alone", 0), ("strict", 1)],
    "/v1/partitions?state=under-replicated": [("alone", 0), ("lax", 0), ("strict", 1)],
    "/v1/partitions?state=without-leader,under-min-isr": [("alone", 0), ("strict", 1)],
    "/v1/partitions?state=reassigning&topic=strict": [("strict", 0), ("strict", 1)],
    "/v1/partitions?broker_id=101&topic=still": [("still", 0)],
    "/v1/partitions?broker_id=103": [("alone", 0), ("lax", 0), ("strict", 0), ("strict", 1)],
    "/v1/quorum/replicas?status=leader": [1],
    "/v1/quorum/replicas?status=observer,follower": [],
}


@asynccontextmanager
async def with_lists(folder: Path) -> AsyncIterator[tuple[Node, Http]]:
    """A cluster with items of every kind and state, and its HTTP listener."""
    authorizer = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}), allow_if_no_acl=True)
    async with a_controller(folder, authorizer=authorizer) as node, http_door(node) as http:
        controller = node.controller
        await join(controller, 101, 102, 103)
        strict = (("min.insync.replicas", "2"),)
        await asked(controller, topic("strict", 101, 102, partitions=2, configs=strict))
        await asked(controller, topic("lax", 101, 102))
        await asked(controller, topic("still", 101, 102))
        await asked(controller, topic("alone", 103))
        moves = [
            Reassignment(topic="strict", partition=each, replicas=(101, 103)) for each in (0, 1)
        ]
        await asked(controller, AlterReassignments(reassignments=tuple(moves)))
        await asked(controller, move("lax", 101, 103))
        await asked(controller, PauseMoves(moves=(1,), who="User:a"))
        await asked(controller, isr(controller, "strict", (101,), (1,)))
        await asked(controller, isr(controller, "lax", (101,)))
        await asked(controller, FenceBrokers(broker_ids=(103,)))
        await asked(controller, CordonBrokers(broker_ids=(102,), cordoned=True))
        for name in ("ann", "bob"):
            rule = {"resource_type": "TOPIC", "resource_name": name, "principal": f"User:{name}"}
            await http.post("/v1/acls", {"acls": [{**rule, "operation": "READ"}]})
            await http._send("PUT", f"/v1/users/{name}", json={"password": "a long password"})
            quota = {"entity": {"user": name}, "set": {"producer_byte_rate": 1_000}}
            await http._send("PATCH", "/v1/quotas", json=quota)
        yield node, http


async def test_every_list_has_pages_and_its_filters_are_described(tmp_path: Path) -> None:
    pages = {
        name: kind for name, kind in CAPABILITIES.items() if issubclass(kind, Paged) and kind.ROUTES
    }
    assert pages.keys() == LISTS.keys()
    async with with_lists(tmp_path) as (_, http):
        for name, kind in pages.items():
            listed = LISTS[name]
            whole = (await http.get(listed.path)).body
            names = [listed.name(each) for each in whole[listed.items]]
            assert names == sorted(names), name
            assert names, name
            assert (whole["total"], whole["next_page_token"]) == (len(names), None)
            shown, path = [], f"{listed.path}?page_size=1"
            for _ in names:
                page = (await http.get(path)).body
                assert page["total"] == len(names)
                shown += [listed.name(each) for each in page[listed.items]]
                path = f"{listed.path}?page_size=1&page_token={page['next_page_token']}"
            assert (shown, page["next_page_token"]) == (names, None)
            operation = operation_of("GET", listed.path)
            assert operation is not None
            described = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
            assert described - {"stale"} == {*kind.parameters(kind.ROUTES[0])}
            for wrong, right in (
                ("page_size=0", "page_size: expected `int` >= 1"),
                ("page_size=1001", "page_size: expected `int` <= "),
                ("page_token=x", "page_token 'x' is invalid; take next_page_token from"),
                ("size=1", "'size' is not known; there is "),
            ):
                check_problem(await http.get(f"{listed.path}?{wrong}"), 400, right)
            for field in {"state", "status"} & described:
                answer = await http.get(f"{listed.path}?{field}=x")
                check_problem(answer, 400, f"{field}[0]: invalid enum value 'x'; there are ")


async def test_filters_keep_the_items_in_any_of_the_states(tmp_path: Path) -> None:
    names = {each.path: each for each in LISTS.values()}
    async with with_lists(tmp_path) as (node, http):
        for path, wanted in FILTERED.items():
            listed = names[path.partition("?")[0]]
            found = (await http.get(path)).body
            assert [listed.name(each) for each in found[listed.items]] == wanted, path
            assert found["total"] == len(wanted)
            assert found["as_of_offset"] == node.controller.committed or "quorum" in path
        rows = (await http.get("/v1/partitions?topic=strict")).body["partitions"]
        assert [each["state"] for each in rows] == [
            ["reassigning"],
            ["under-min-isr", "under-replicated", "reassigning"],
        ]
        assert rows[0]["min_isr"] == 2


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
