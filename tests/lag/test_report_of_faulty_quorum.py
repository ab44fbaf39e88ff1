"""A report of a run that hurt: it names who was paused, killed and had a wrong clock, and when.

What is right is known from the run itself, by bounds that were written down as it went on, so that
a slow machine makes the bounds wider, and no test red.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from lag.output.page import page
from lag.output.summary import summary
from lag.progress import Steps
from lag.request import ReportRequest
from lag.results import Results, Row
from lag.units import show_clock
from tests.lag.faulty_quorum import (
    AHEAD,
    AHEAD_MS,
    KILLED,
    LEADER,
    PAUSE_MS,
    PAUSED,
    VOTERS,
    WITHIN_MS,
    Between,
    Look,
    Story,
    run,
)

pytestmark = pytest.mark.process

WINDOW_MS: Final = 100
ROUNDING_MS: Final = 2
"""The leader keeps the times of fetches by its other clock."""
LIBRARY: Final = "faketime/libfaketimeMT.so.1"


def libfaketime() -> Path:
    """The library that gives a process another clock; without it the test is skipped."""
    for folder in (Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")):
        for found in (*folder.glob(LIBRARY), *folder.glob(f"*/{LIBRARY}")):
            return found
    pytest.skip("libfaketime is not installed, which sets the clock of one process alone")


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The run; `spark` is requested first, because without it nothing is done."""
    return asyncio.run(run(tmp_path_factory.mktemp("hurt"), libfaketime()))


@pytest.fixture(scope="module")
def made(plain: Any, story: Story) -> Results:
    """The report, of the time from when all had begun: how long one took to start is no matter."""
    from lag.runner import collect
    from lag.source.data_source import QuorumLogSource

    plain.dataSource.register(QuorumLogSource)
    since_ms = story.commits[0].from_ms
    asked = ReportRequest(paths=(str(story.folder),), since_ms=since_ms, window_ms=WINDOW_MS)
    return collect(plain, asked, Steps(None))


def of(made: Results, table: str, node: int) -> Row:
    """The row of this node in a table that has one of each."""
    (row,) = (row for row in made.rows(table) if row["replica"] == str(node))
    return row


def test_everything_could_be_read(made: Results) -> None:
    assert made.rows("problems") == []
    assert [row["replica"] for row in made.rows("status")] == [str(node) for node in VOTERS]


def test_the_one_that_was_killed_has_stopped_and_since_when(made: Results, story: Story) -> None:
    status, lag = of(made, "status", KILLED), of(made, "replica_lag", KILLED)
    assert (status["status"], status["rule"]) == ("STOPPED", "silent")
    # It was level when it was killed: what it waits for is what was committed next.
    assert story.first_commit_after(story.killed).holds(status["since_ms"])
    last = story.last_commit_before(story.killed)
    assert Between(last.from_ms, story.killed.to_ms).holds(lag["last_append_ms"])
    assert [row["replica"] for row in made.not_ok] == [str(KILLED)]


def test_the_one_that_was_paused_lagged_for_so_long_and_caught_up(
    made: Results, story: Story
) -> None:
    status, lag = of(made, "status", PAUSED), of(made, "replica_lag", PAUSED)
    missed, came = story.first_commit_after(story.stopped), story.caught_up
    assert (status["status"], lag["records_behind"]) == ("OK", 0)
    assert came.holds(lag["worst_at_ms"])
    assert Between(came.from_ms - missed.to_ms, came.to_ms - missed.from_ms).holds(lag["max_ms"])
    # By the windows as well: it stands still, and waits for the same record ever longer.
    still = [
        row
        for row in made.rows("replication_lag")
        if row["replica"] == str(PAUSED)
        and missed.to_ms < row["window_end_ms"] < story.resumed.from_ms
    ]
    assert len(still) > (PAUSE_MS - (missed.to_ms - missed.from_ms)) // WINDOW_MS - 2
    for row in still:
        end_ms = row["window_end_ms"]
        assert Between(end_ms - missed.to_ms, end_ms - missed.from_ms).holds(row["lag_ms"])


def test_nobody_else_lagged_meanwhile(made: Results, story: Story) -> None:
    """Without the two of them nothing was committed that the other three did not have."""
    meanwhile = [
        each
        for each in story.commits
        if story.stopped.to_ms <= each.from_ms and each.to_ms <= story.resumed.from_ms
    ]
    slowest_ms = max(each.to_ms - each.from_ms for each in meanwhile)
    for row in made.rows("replication_lag"):
        if row["replica"] in {str(PAUSED), str(KILLED)}:
            continue
        begins_ms, ends_ms = row["window_start_ms"], row["window_end_ms"]
        if meanwhile[0].from_ms < begins_ms and ends_ms < meanwhile[-1].to_ms:
            # What the clock that is ahead adds was taken out, as far as the logs prove it.
            unproven_ms = WITHIN_MS if row["replica"] == str(AHEAD) else 0
            assert row["max_ms"] <= slowest_ms + unproven_ms, row


def test_the_clock_that_is_ahead_is_named_and_by_how_much(made: Results) -> None:
    clocks = {(row["replica"], row["relative_to"]): row for row in made.rows("clocks")}
    row = clocks[(str(AHEAD), str(LEADER))]
    assert row["verdict"] == "ahead"
    assert row["at_least_ms"] <= AHEAD_MS <= row["at_most_ms"]
    # In both directions something had come as fast as that.
    assert abs(row["estimate_ms"] - AHEAD_MS) <= WITHIN_MS
    assert row["error_ms"] <= WITHIN_MS
    assert clocks[(str(LEADER), str(AHEAD))]["verdict"] == "behind"
    others = [row for pair, row in clocks.items() if str(AHEAD) not in pair]
    assert {row["verdict"] for row in others} <= {"agree", "one-sided"}
    assert of(made, "replica_lag", AHEAD)["clock_ms"] == row["at_least_ms"]


def test_each_of_them_is_named_to_whoever_reads(made: Results) -> None:
    said = summary(made).splitlines()
    (dead,) = (line for line in said if line.startswith(f"{KILLED} "))
    assert dead.split()[1:3] == ["voter", "STOPPED"]
    (paused,) = (line for line in said if line.startswith(f"{PAUSED} "))
    assert show_clock(of(made, "replica_lag", PAUSED)["worst_at_ms"]) in paused
    (clocks,) = (line for line in said if line.startswith("Clocks: "))
    assert clocks.startswith(f"Clocks: {AHEAD}'s is ")
    assert clocks.endswith(f" ms ahead of that of {LEADER}.")
    shown = page(made)
    assert str(of(made, "status", KILLED)["facts"]) in shown
    assert show_clock(of(made, "replica_lag", PAUSED)["worst_at_ms"]) in shown


def test_it_agrees_with_what_the_leader_said_at_the_end(made: Results, story: Story) -> None:
    last = story.looks[-1]
    for node in VOTERS:
        row, told = of(made, "replica_lag", node), last.of(node)
        assert row["log_end"] == told.log_end_offset, row
        assert row["records_behind"] == last.end(LEADER) - told.log_end_offset, row
    epoch = made.rows("leadership")[-1]
    assert (epoch["epoch"], epoch["leader"]) == (last.quorum.leader_epoch, last.quorum.leader_id)
    assert (epoch["leader"], epoch["ended"]) == (LEADER, "leading")
    # It was level when it was killed: so it had fetched since it appended what it has.
    killed, told = of(made, "replica_lag", KILLED), last.of(KILLED)
    assert killed["last_append_ms"] <= told.last_fetch_ms + ROUNDING_MS
    # A fetch that was under way when it died is received by when the next commit is through.
    after = story.first_commit_after(story.killed)
    assert told.last_fetch_ms <= after.to_ms + ROUNDING_MS
    assert told.last_caught_up_ms <= killed["waits_since_ms"] + ROUNDING_MS


def test_it_agrees_with_what_the_leader_said_while_it_ran(made: Results, story: Story) -> None:
    compared = 0
    for row in made.rows("replication_lag"):
        node = int(row["replica"])
        late_ms = WITHIN_MS if node == AHEAD else 0
        for before, after in around(story, row["window_end_ms"], late_ms):
            compared += 1
            # What the leader knew a replica to have, it had; it can have had more, but not
            # more than the leader.
            assert before.end(node) <= row["log_end"] <= after.end(LEADER), row
            leads_to = row["log_end"] + row["records_behind"]
            assert before.end(LEADER) <= leads_to <= after.end(LEADER), row
    assert compared > PAUSE_MS // WINDOW_MS


def test_while_one_was_paused_the_leader_said_the_same_of_it(made: Results, story: Story) -> None:
    missed = story.first_commit_after(story.stopped)
    looks = [
        look
        for look in story.looks
        if missed.to_ms <= look.at.from_ms and look.at.to_ms <= story.resumed.from_ms
    ]
    (had,) = {look.end(PAUSED) for look in looks}
    rows = [
        row
        for row in made.rows("replication_lag")
        if row["replica"] == str(PAUSED)
        and story.stopped.to_ms <= row["window_end_ms"] <= story.resumed.from_ms
    ]
    assert {row["log_end"] for row in rows} == {had}
    # Level since its last fetch, and until the commit that the report lets it wait for.
    level = Between(story.last_commit_before(story.stopped).from_ms, missed.to_ms)
    for look in looks:
        assert level.holds(look.of(PAUSED).last_caught_up_ms, within_ms=ROUNDING_MS), look


def around(story: Story, at_ms: int, late_ms: int) -> Iterator[tuple[Look, Look]]:
    """The last look that was over so long before this moment, and the first that began after it."""
    before = [look for look in story.looks if look.at.to_ms + late_ms <= at_ms]
    after = [look for look in story.looks if look.at.from_ms >= at_ms]
    if before and after:
        yield before[-1], after[0]
