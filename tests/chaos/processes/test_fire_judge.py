"""The verdict of a run on what its clients were told, and its time line."""

import asyncio
from typing import Any

from chaos.linearizability.checker import Operation
from chaos.linearizability.models import Absent, AddUser, Done, Get, RemoveUser, Set, Value
from chaos.processes.judge import judge
from chaos.processes.load import Commit, Load, Register
from chaos.processes.timeline import longest_stall_ms, windows
from quorum.transport.address import Address

REGISTER = ("config", "fire-1")
USER = ("user", "fire-user-1")


def told(key: Any, asked: Any, answer: Any, called: int, returned: int | None) -> Operation:
    return Operation(key=key, asked=asked, called=called, returned=returned, answer=answer)


def test_a_history_in_order_is_linearizable() -> None:
    found = judge(
        [
            told(REGISTER, Set("n1"), Done(), 1, 2),
            told(REGISTER, Get(), Value("n1"), 3, 4),
            told(USER, AddUser(), Done(), 1, 2),
            told(USER, RemoveUser(), Done(), 3, 4),
            told(USER, RemoveUser(), Absent(), 5, 6),
        ]
    )
    assert (found.changes, found.with_reads) == ("linearizable", "linearizable")
    assert (found.operations, found.reads, found.objects) == (5, 1, 2)


def test_an_old_read_is_judged_apart_from_the_changes() -> None:
    found = judge(
        [
            told(REGISTER, Set("n1"), Done(), 1, 2),
            told(REGISTER, Set("n2"), Done(), 3, 4),
            told(REGISTER, Get(), Value("n1"), 5, 6),
        ]
    )
    assert (found.changes, found.with_reads) == ("linearizable", "not linearizable")
    assert "was told Value(value='n1')" in found.findings[0]


def test_a_user_that_is_lost_shows_in_the_answers_to_changes() -> None:
    found = judge([told(USER, AddUser(), Done(), 1, 2), told(USER, RemoveUser(), Absent(), 3, 4)])
    assert found.changes == "not linearizable"


def test_a_change_without_an_answer_may_take_effect_later_or_never() -> None:
    unanswered = told(USER, RemoveUser(), None, 1, None)
    added = told(USER, AddUser(), Done(), 2, 3)
    for answer in (Done(), Absent()):
        found = judge([unanswered, added, told(USER, RemoveUser(), answer, 4, 5)])
        assert found.changes == "linearizable"


def test_a_register_is_replaced_when_too_many_of_its_writes_have_no_answer() -> None:
    assert not Register("a", asked=6, acknowledged=[1]).is_worn
    assert Register("a", asked=6).is_worn
    assert Register("a", asked=400, acknowledged=list(range(1, 401))).is_worn


async def test_requests_under_way_at_the_end_are_in_the_history_without_an_answer() -> None:
    """A server accepts and never answers: what was sent to it may take effect."""
    heard = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            heard.set()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        load = Load({1: Address(*server.sockets[0].getsockname())})
        running = asyncio.get_running_loop().create_task(load.run())
        await heard.wait()
        running.cancel()
        await asyncio.wait({running})
    assert all(each.returned is None for each in load.history)
    assert ("config", load.registers[0].name) in {each.key for each in load.history}


def test_the_windows_of_a_run_count_commits_and_their_latency() -> None:
    commits = [Commit(10.0, 10.01), Commit(10.0, 10.05), Commit(10.2, 10.29)]
    found = windows(commits, 10.0, 10.3)
    assert found.commits[:3] == [2, 0, 1]
    assert found.p99_ms[:3] == [50.0, None, 90.0]


def test_the_longest_stall_includes_the_ends_of_the_stretch() -> None:
    commits = [Commit(1.0, 1.1), Commit(1.1, 1.2), Commit(3.0, 3.2)]
    assert round(longest_stall_ms(commits, 1.0, 3.5)) == 2_000
    assert round(longest_stall_ms(commits, 0.0, 1.3)) == 1_100
    assert round(longest_stall_ms([], 0.0, 1.0)) == 1_000
