"""The time of a replica's last append, from which its silence is counted."""

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.clocks import EpochPart
from lag.reports.contradictions import Believed
from lag.reports.epochs import Span
from lag.reports.lag import ends, last_append_ms
from lag.reports.quorum_log import merge
from lag.reports.status import status
from lag.source.runs import Run

RUNS = (
    Run("2", 1, 0, 10, 1_400, 1_590),
    Run("1", 1, 0, 10, 1_400, 1_590),
    Run("1", 2, 10, 300, 1_100, 11_105),
    Run("3", 1, 0, 10, 1_400, 1_590),
    Run("3", 2, 10, 11, 1_100, 1_100),
)
"""2, whose clock is 500 ms ahead, led epoch 1; then 1 led epoch 2, whose clock is right."""
KNOWN = {
    ("1", 2): EpochPart("1", 2, 300, True, 0),
    ("3", 1): EpochPart("3", 1, 10, False, -497),
    ("3", 2): EpochPart("3", 2, 300, False, 0),
}
LED = Span("1", 2, 10, 300, 1_100, 11_105, 1_101, 11_106, 0, 290)
DEAD = [
    Span("3", 1, 0, 10, 1_400, 1_590, 902, 1_093, -498, 10),
    Span("3", 2, 10, 11, 1_100, 1_100, 1_102, 1_102, 2, 1),
]
"""3 was killed with the first record of epoch 2."""


def test_it_is_the_last_append_also_if_the_clock_of_an_earlier_leader_was_ahead() -> None:
    """Its last append of epoch 1 was at 1,590 ms by that leader's clock, the one after at 1,102."""
    assert last_append_ms(DEAD, KNOWN) == 1_102
    assert last_append_ms(reversed(DEAD), KNOWN) == 1_102
    assert last_append_ms(DEAD[:1], KNOWN) == 1_590


def test_without_append_times_in_the_last_epoch_the_one_before_counts() -> None:
    unknown = DEAD[1]._replace(first_here_ms=None, last_here_ms=None, timed=0)
    assert last_append_ms([DEAD[0], unknown], KNOWN) == 1_590
    assert last_append_ms([unknown], KNOWN) is None


def test_it_is_unknown_if_no_copy_has_the_last_batch_of_the_replica() -> None:
    """The header of the damaged batch says that it was there, and not when it came."""
    damaged = Run("3", 2, 11, 12, batches=0)
    behind = (*RUNS[:2], Run("1", 2, 10, 11, 1_100, 1_100), Run("1", 2, 12, 300, 1_105, 11_105))
    log = merge(Believed((*behind, *RUNS[3:]), unread=(damaged,)), [])
    assert log is not None
    row = ends([LED, *DEAD], KNOWN, log, {12: 1_105}, 11_105)["3"]
    assert (row["log_end"], row["last_append_ms"], row["lag_ms"]) == (12, None, 10_000)
    (found,) = status([{"replica": "3", "has_append_times": True, **row}], [], 11_105)
    assert found["rule"] == "damaged"
    assert found["facts"].endswith("when it appended last is unknown")


def test_a_replica_that_died_after_such_a_leader_is_silent_since_its_last_append() -> None:
    """Counted from the greatest of its times, it would not yet have been silent for 10 s."""
    log = merge(Believed(RUNS), [])
    assert log is not None
    row = ends([LED, *DEAD], KNOWN, log, {11: 1_105}, 11_105)["3"]
    assert (row["last_append_ms"], row["waits_since_ms"], row["lag_ms"]) == (1_102, 1_105, 10_000)
    (found,) = status([{"replica": "3", **row}], [], 11_105)
    assert (found["status"], found["rule"]) == ("STOPPED", "silent")
    assert found["facts"].endswith("it appended last 10.0 s before the end")
