"""The positions of replicas while logs grow, from given rows and times."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lag.watch.display import cells
from lag.watch.positions import RATE_MS, REMEMBERED_MAX, Positions, status


def end(replica: str, log_end: int, at_ms: int, **more: Any) -> dict[str, Any]:
    row = {"replica": replica, "log_end": log_end, "epoch": 1, "appended_ms": at_ms}
    return {**row, "records": 0, "cut_to": None, **more}


def standings(*rows: dict[str, Any], appended: list[tuple[int, int]]) -> Positions:
    made = Positions()
    made.take(rows, now_ms=0)
    made.learn(appended)
    return made


def test_a_replica_waits_since_the_leader_had_what_it_lacks() -> None:
    """Offset 5 came to the leader at 500 ms; who ends there waits for it since then."""
    appended = [(at_ms, at_ms // 100) for at_ms in range(0, 1_000, 100)]
    made = standings(end("1", 10, 900), end("2", 5, 450), appended=appended)
    first, second = made.at(2_000)
    assert (first.behind, first.lag_ms, first.status) == (0, 0, "OK")
    assert (second.behind, second.lag_ms, second.status) == (5, 1_500, "WARN")
    assert made.at(5_000)[1].status == "STALLED"
    assert made.at(20_000)[1].status == "STOPPED"


def test_a_lag_of_batches_without_times_is_unknown() -> None:
    first, second = standings(end("1", 10, 900), end("2", 5, 450), appended=[]).at(2_000)
    assert (first.lag_ms, first.status) == (0, "OK")
    assert (second.behind, second.lag_ms, second.status) == (5, None, "UNKNOWN")
    assert cells(second)[5] == "unknown"


def test_a_replica_that_catches_up_is_well_again() -> None:
    made = standings(end("1", 10, 900), end("2", 5, 450), appended=[(0, 0), (500, 5)])
    made.take([end("2", 10, 3_000)], now_ms=3_000)
    assert [one.status for one in made.at(9_000)] == ["OK", "OK"]


def test_records_that_a_new_leader_cuts_off_no_longer_count() -> None:
    made = standings(end("1", 10, 900), end("2", 5, 450), appended=[(0, 0)])
    made.take([end("1", 7, 1_200, epoch=2, cut_to=4)], now_ms=1_300)
    first, second = made.at(1_300)
    assert (first.log_end, first.epoch) == (7, 2)
    assert second.behind == 2
    only_cut = {**end("2", 0, 0, cut_to=4), "log_end": None, "epoch": None, "appended_ms": None}
    made.take([only_cut], now_ms=1_400)
    assert made.at(1_400)[1].log_end == 4


def test_the_rate_is_of_the_last_seconds() -> None:
    made = standings(end("1", 100, 0, records=100), appended=[(0, 0)])
    assert made.at(0)[0].records_per_s == 100 * 1_000 / RATE_MS
    assert made.at(RATE_MS + 1)[0].records_per_s == 0


def test_replicas_are_in_the_order_of_their_numbers() -> None:
    made = standings(*(end(name, 1, 0) for name in ("10", "b", "9", "a")), appended=[(0, 0)])
    assert [one.replica for one in made.at(1)] == ["9", "10", "a", "b"]


def test_remembered_positions_are_bounded() -> None:
    made = standings(end("1", 5, 0), appended=[(n * 100, n) for n in range(REMEMBERED_MAX + 500)])
    assert len(made._times_ms) == REMEMBERED_MAX


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1), st.data())
def test_the_lag_agrees_with_a_look_at_every_append(
    times: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The slow way: the last time at which the leader began with no later an offset."""
    appended = sorted(dict(times).items())
    offsets = sorted(offset for _, offset in appended)
    appended = [(at, offset) for (at, _), offset in zip(appended, offsets, strict=True)]
    log_end = data.draw(st.integers(offsets[0], 500))
    made = standings(end("1", 501, 0), end("2", log_end, 0), appended=appended)
    since = max(at for at, offset in appended if offset <= log_end)
    assert made.at(10_000)[1].lag_ms == 10_000 - since


def test_the_states_are_those_of_the_report() -> None:
    assert status(0, 0, 10**9) == "OK"
    assert status(3, 999, 0) == "OK"
    assert status(3, 1_500, 100) == "WARN"
    assert status(3, 30_000, 100) == "ERR"
    assert status(3, 30_000, 3_000) == "STALLED"
    assert status(3, 30_000, 20_000) == "STOPPED"
    assert status(3, 30_000, None) == "STOPPED"
