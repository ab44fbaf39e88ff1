"""Operators who ask at once, who ask again because no answer came, and for what is gone meanwhile.

All are processes: the commands as a user types them, brokers and controllers. Moves are paused
while it matters that none is over too early.
"""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from quorum.protocol.apis import ApiKey
from tests.process.local_process import Done, LocalProcess, local, metaquorum
from tests.process.lossy_proxy import lossy_proxy

pytestmark = pytest.mark.process

PARTITIONS: Final = 3
LINES: Final = 300
Layout = Mapping[int, tuple[int, ...]]
ANN: Final[Layout] = dict.fromkeys(range(PARTITIONS), (101, 102, 103))
BOB: Final[Layout] = dict.fromkeys(range(PARTITIONS), (104, 103, 102))
DAN: Final[Layout] = dict.fromkeys(range(PARTITIONS), (103, 101, 104))
ELSEWHERE: Final[Layout] = dict.fromkeys(range(PARTITIONS), (102, 104, 101))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcess]:
    folder = tmp_path_factory.mktemp("operators") / "local"
    with local(folder, "--brokers", "4", "--base-port", "0") as running:
        yield running


def ask(cluster: LocalProcess, *arguments: str | Path, server: str = "") -> Done:
    return metaquorum(*arguments, "--bootstrap-server", server or cluster.servers)


def done(cluster: LocalProcess, *arguments: str | Path) -> Done:
    """A command that is a success."""
    found = ask(cluster, *arguments)
    assert found.code == 0, found.out + found.err
    return found


def topic(cluster: LocalProcess, name: str) -> None:
    """A topic with some lines in it, on brokers that the cluster has chosen, two for each."""
    sizes = ("--partitions", str(PARTITIONS), "--replication-factor", "2")
    done(cluster, "topics", "create", name, *sizes)
    text = "".join(f"{number}\n" for number in range(LINES)).encode()
    servers = ("--bootstrap-server", cluster.servers)
    assert metaquorum("produce", name, *servers, stdin=text).code == 0


def plan(folder: Path, name: str, wanted: Layout) -> Path:
    """The file of a plan."""
    partitions = [
        {"topic": name, "partition": number, "replicas": list(replicas)}
        for number, replicas in wanted.items()
    ]
    path = folder / f"{name}-{wanted[0][0]}.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    return path


def layout(cluster: LocalProcess, name: str) -> Layout:
    (found,) = json.loads(done(cluster, "topics", "describe", name, "-o", "json").out)["topics"]
    return {each["partition"]: tuple(each["replicas"]) for each in found["partitions"]}


def moves(cluster: LocalProcess) -> dict[int, Any]:
    found = json.loads(done(cluster, "moves", "list", "-o", "json").out)["moves"]
    return {each["move_id"]: each for each in found}


def at_once(cluster: LocalProcess, *files: Path) -> list[int]:
    """Each plan is executed by somebody, through a broker of his own; the moves that they are."""
    brokers = [broker["kafka"] for broker in cluster.cluster["brokers"]]
    execute = ("reassign-partitions", "--execute", "--additional", "--reassignment-json-file")
    with ThreadPoolExecutor() as operators:
        begun = [
            operators.submit(ask, cluster, *execute, file, server=broker)
            for file, broker in zip(files, brokers, strict=False)
        ]
    for each in begun:
        assert each.result().code == 0, each.result().err
    return [move_of(each.result()) for each in begun]


def move_of(found: Done) -> int:
    (id,) = re.findall(r"^Move id: (\d+)$", found.out, re.MULTILINE)
    return int(id)


def read(cluster: LocalProcess, name: str) -> list[int]:
    text = done(cluster, "consume", name, "--from-beginning").out
    return sorted(map(int, text.splitlines()))


def test_of_two_contradicting_operators_the_later_one_wins(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    topic(cluster, "contested")
    wishes = (ANN, BOB)
    files = [plan(tmp_path, "contested", wanted) for wanted in wishes]
    done(cluster, "moves", "pause", "--all")
    asked = at_once(cluster, *files)
    later, earlier = max(asked), min(asked)
    done(cluster, "moves", "resume", "--all")
    assert ask(cluster, "moves", "wait", str(later)).code == 0
    found = moves(cluster)
    assert (found[earlier]["state"], found[earlier]["superseded"]) == ("superseded", PARTITIONS)
    assert (found[later]["state"], found[later]["completed"]) == ("completed", PARTITIONS)
    assert layout(cluster, "contested") == wishes[asked.index(later)]

    # Once more, to where nobody has been, and nobody holds anything up: of the earlier one there is
    # done what there is time for.
    wishes = (ELSEWHERE, DAN)
    asked = at_once(cluster, *[plan(tmp_path, "contested", wanted) for wanted in wishes])
    later = max(asked)
    assert ask(cluster, "moves", "wait", str(later)).code == 0
    assert layout(cluster, "contested") == wishes[asked.index(later)]
    assert done(cluster, "reassign-partitions", "--list").out.startswith("No partition reass")
    assert read(cluster, "contested") == list(range(LINES))


def test_a_request_repeated_with_its_key_after_a_lost_answer_is_one_move(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    topic(cluster, "unheard")
    file = plan(tmp_path, "unheard", ELSEWHERE)
    execute = ("reassign-partitions", "--execute", "--reassignment-json-file", file)
    before = moves(cluster)
    server = cluster.cluster["brokers"][0]["kafka"]
    with lossy_proxy(server, ApiKey.ALTER_PARTITION_REASSIGNMENTS) as proxy:
        lost = ask(cluster, *execute, "--timeout", "8s", server=proxy.address)
        assert proxy.has_lost.is_set()
    assert (lost.code, "Move id" in lost.out) == (1, False), lost.err
    (key,) = re.findall(r"To retry safely, add: --key (\S+)", lost.err)

    again = done(cluster, *execute, "--key", key)
    assert "This key was used before" in again.err
    assert moves(cluster).keys() - before.keys() == {move_of(again)}
    done(cluster, "moves", "wait", str(move_of(again)))
    assert layout(cluster, "unheard") == ELSEWHERE

    # Somebody moves it on. Who is late with that key is told the same, and moves nothing back.
    (on,) = at_once(cluster, plan(tmp_path, "unheard", ANN))
    done(cluster, "moves", "wait", str(on))
    late = done(cluster, *execute, "--key", key)
    assert move_of(late) == move_of(again)
    assert layout(cluster, "unheard") == ANN


def test_a_plan_of_a_topic_that_is_deleted_meanwhile_goes_on_with_the_others(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    topic(cluster, "kept")
    topic(cluster, "gone")
    partitions = [
        each
        for name in ("kept", "gone")
        for each in json.loads(plan(tmp_path, name, ELSEWHERE).read_text())["partitions"]
    ]
    file = tmp_path / "both.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    done(cluster, "moves", "pause", "--all")
    (move,) = at_once(cluster, file)
    done(cluster, "topics", "delete", "gone", "--yes")
    done(cluster, "moves", "resume", "--all")
    done(cluster, "moves", "wait", str(move))
    found = moves(cluster)[move]
    assert (found["state"], found["gone"]) == ("completed", PARTITIONS)
    assert layout(cluster, "kept") == ELSEWHERE

    # Asked for once more, it is refused whole, by the names of what is not there.
    refused = ask(cluster, "reassign-partitions", "--execute", "--reassignment-json-file", file)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "Error: Topic gone not found. The plan names gone-0, gone-1, gone-2\n"
    # The way back leaves out what there is no more, and says so.
    back = ask(cluster, "moves", "rollback", str(move))
    assert back.code == 1
    assert back.err.count("no topic has the id") == PARTITIONS
    assert f"Move {move + 1} rolls back move {move}" in back.out
