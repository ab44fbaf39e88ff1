"""A report made by hand: what every kind of row looks like, for tests of the outputs.

Ten minutes of a quorum of three: controller 2 stood still for half a minute, controller 1 was
killed, controller 4 leaves no append times; a topic moved, and one of its moves was cancelled.
"""

from typing import Any, Final

from lag.reports.schemas import RESULTS
from lag.results import Results

BEGIN_MS: Final = 1_795_236_000_000
WINDOW_MS: Final = 5_000
WINDOWS: Final = 120
END_MS: Final = BEGIN_MS + WINDOWS * WINDOW_MS
HOSTILE: Final = '<script>alert("x")</script>&\'"'
"""A name as an enemy would choose it."""
KILLED_AT: Final = 60
PAUSED: Final = range(20, 27)

Values = dict[str, Any]


def sample(*, topic: str = HOSTILE, replica: str = "4") -> Results:
    """The report; `topic` and `replica` are names that a log could hold."""
    tables: dict[str, list[Values]] = {
        "replication_lag": [*_windows("1"), *_windows("2"), *_windows("3"), *_windows(replica)],
        "replica_lag": [_total(name) for name in ("1", "2", "3", replica)],
        "status": _status(replica),
        "leadership": _epochs(),
        "commits": _commits(),
        "voters": _voters(),
        "moves": _moves(topic),
        "move_steps": _steps(topic),
        "move_replicas": [],
        "operations": _operations(),
        "topics": _topics(topic),
        "topic_events": _topic_events(topic),
        "brokers": _brokers(),
        "broker_activity": _activity(),
        "broker_events": _events(),
        "clocks": _clocks(),
        "holes": [],
        "problems": _problems(),
        "replicas": _replicas(replica),
    }
    for result in RESULTS:
        assert result.name in tables
        for row in tables[result.name]:
            assert set(row) <= set(result.names), (result.name, set(row) - set(result.names))
            row.update({name: row.get(name) for name in result.names})
    return Results(
        paths=("/logs/c1", "/logs/c2", "/logs/c3", f"/logs/{replica}"),
        since_ms=BEGIN_MS,
        until_ms=END_MS,
        window_ms=WINDOW_MS,
        tables=tables,
    )


def _at(window: float) -> int:
    return int(BEGIN_MS + window * WINDOW_MS)


def _windows(replica: str) -> list[Values]:
    return [_window(replica, place) for place in range(WINDOWS)]


def _window(replica: str, place: int) -> Values:
    ms: int | None = 3 + (place * 7 + int(replica in "23")) % 9
    behind = place % 3
    if replica == "2" and place in PAUSED:
        ms, behind = (place - PAUSED.start + 1) * WINDOW_MS, (place - PAUSED.start + 1) * 40
    if replica == "1" and place >= KILLED_AT:
        ms, behind = (place - KILLED_AT + 1) * WINDOW_MS // 4, (place - KILLED_AT) * 4
    if replica not in ("1", "2", "3"):
        ms = None
    return {
        "replica": replica,
        "window_start_ms": _at(place),
        "window_end_ms": _at(place + 1),
        "log_end": place * 10,
        "records_behind": behind,
        "records_behind_max": behind,
        "lag_ms": ms,
        "max_ms": ms,
        "p50_ms": ms,
        "p95_ms": ms,
        "p99_ms": ms,
    }


def _total(replica: str) -> Values:
    windows = _windows(replica)
    most = max((row["max_ms"] for row in windows if row["max_ms"] is not None), default=None)
    return {
        "replica": replica,
        "log_start": 0,
        "log_end": 1_200,
        "last_epoch": 3,
        "records_behind": windows[-1]["records_behind"],
        "lag_ms": windows[-1]["lag_ms"],
        "p50_ms": None if most is None else 5,
        "p95_ms": None if most is None else 12,
        "p99_ms": None if most is None else most // 2,
        "max_ms": most,
        "worst_at_ms": None if most is None else _at(70),
        "last_append_ms": None if most is None else _at(119),
        "has_append_times": most is not None,
    }


def _status(replica: str) -> list[Values]:
    rows: list[tuple[str, str | None, str, str, str, int, int | None]] = [
        ("1", "voter", "STOPPED", "no append at all", "appended nothing for 5 min", 240, 75_000),
        ("2", "voter", "WARN", "lag fluctuates", "was up to 35 s behind, and caught up", 1, 9),
        ("3", "voter", "OK", "keeps up", "leads", 0, 0),
        (replica, None, "OK", "offset alone", "a record behind at the end", 1, None),
    ]
    names = ("replica", "role", "status", "rule", "facts", "records_behind", "lag_ms")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _epochs() -> list[Values]:
    first: Values = {
        "epoch": 1, "leader": 1, "start_offset": 0, "end_offset": 600, "elected_at_ms": _at(0),
        "last_append_ms": _at(60), "tenure_ms": 60 * WINDOW_MS, "elections_lost": 0,
        "gap_ms": None, "voters": [1, 2, 3], "ended": "silent",
        "facts": "wrote nothing after offset 599",
    }  # fmt: skip
    second: Values = {
        "epoch": 3, "leader": 3, "start_offset": 600, "end_offset": 1_200,
        "elected_at_ms": _at(60.4), "last_append_ms": _at(119.8), "tenure_ms": 59 * WINDOW_MS,
        "elections_lost": 1, "gap_ms": 2_000, "voters": [1, 2, 3], "ended": "leading",
        "facts": "wrote last at the end of the log",
    }  # fmt: skip
    return [first, second]


def _commits() -> list[Values]:
    return [
        {
            "window_start_ms": _at(place),
            "window_end_ms": _at(place + 1),
            "batches": 10 + place % 7,
            "records": 40 + place % 13,
            "bytes": 4_000,
            "records_per_s": (40 + place % 13) / 5,
            "batches_per_s": (10 + place % 7) / 5,
            "majority_p50_ms": 3,
            "majority_p99_ms": 9 + place % 5,
            "majority_max_ms": 2_300 if place == KILLED_AT else 20,
        }
        for place in range(WINDOWS)
    ]


def _voters() -> list[Values]:
    of_three = ["1@Hb0r3ZQ2T0mW2bIYvQmZ1A", "2@k5C0uO1nQ8yJqQm8XH2mBg", "3@5n0Q2mJ7RyS1xWw1eEo3Kw"]
    of_four = [*of_three, "4@r2YayKXfSImQNLiUjajxqQ"]
    return [
        {
            "offset": offset, "epoch": 1, "at_ms": _at(start), "until_ms": _at(end),
            "duration_ms": _at(end) - _at(start), "current": current, "target": target,
            "kind": "change", "tolerates": 1, "survived_2_ms": 0, "survived_1_ms": 200_000,
            "survived_0_ms": 35_000, "no_majority_ms": 0, "unknown_ms": 0,
        }
        for offset, start, end, current, target in (
            (0, 0, 90, of_three, None),
            (900, 90, 100, of_four, ["2", "3", "4"]),
            (1_000, 100, 120, of_four[1:], None),
        )
    ]  # fmt: skip


def _moves(topic: str) -> list[Values]:
    rows = []
    for partition in range(6):
        cancelled, running = partition == 4, partition == 5
        end = None if running else _at(34 + partition * 2)
        planned = [103, 104, 101]
        rows.append(
            {
                "topic_id": "qtJ3b-_9Q_CUqIGUVcS4lw", "topic": topic, "partition": partition,
                "number": 1, "move_id": 1, "started_ms": _at(30), "ended_ms": end,
                "duration_ms": (end or END_MS) - _at(30),
                "outcome": "cancelled" if cancelled else "stuck" if running else "completed",
                "from_replicas": [101, 102, 103], "planned": planned,
                "actual": [101, 102, 103] if cancelled else planned,
                "as_planned": not cancelled and not running, "steps_planned": 1,
                "steps": 1 + partition % 2, "added": [104], "removed": [102], "slowest": 104,
                "slowest_ms": 4_000 + 700 * partition, "last_progress_ms": _at(36),
            }
        )  # fmt: skip
    return rows


def _steps(topic: str) -> list[Values]:
    rows = []
    for move in _moves(topic):
        middle, end, steps = move["started_ms"] + 9_000, move["ended_ms"], move["steps"]
        for step in range(1, steps + 1):
            ends = end if step == steps else middle
            starts = move["started_ms"] if step == 1 else middle
            caught = None if ends is None else starts + (ends - starts) * 3 // 4
            rows.append(
                {
                    "topic_id": move["topic_id"], "topic": topic, "partition": move["partition"],
                    "number": 1, "step": step, "started_ms": starts, "ended_ms": ends,
                    "duration_ms": (ends or END_MS) - starts, "adding": [104], "removing": [102],
                    "caught_up_ms": caught,
                    "catch_up_ms": None if caught is None else caught - starts,
                }
            )  # fmt: skip
    return rows


def _operations() -> list[Values]:
    return [
        {
            "move_id": 1, "kind": "reassign", "name": "rebalance <b>", "who": "anna",
            "asked_ms": _at(30), "ended_ms": None, "duration_ms": END_MS - _at(30),
            "outcome": "stuck", "partitions_planned": 6, "partitions_refused": 1,
            "partitions_completed": 4, "partitions_cancelled": 1, "partitions_superseded": 0,
            "partitions_gone": 0, "paused_ms": 0, "slowest_partition_ms": 9_000,
        }
    ]  # fmt: skip


def _topics(topic: str) -> list[Values]:
    return [
        {
            "topic_id": "qtJ3b-_9Q_CUqIGUVcS4lw", "topic": topic, "created_ms": _at(5),
            "deleted_ms": None, "partitions": 6, "partitions_at_first": 4, "grown": 1,
            "config_changes": 2, "last_change_ms": _at(31),
        },
        {
            "topic_id": "Zx0f0JvXQ8uM5p5m4y9y1w", "topic": "old", "created_ms": None,
            "deleted_ms": _at(50), "partitions": 3, "partitions_at_first": None, "grown": 0,
            "config_changes": 0, "last_change_ms": _at(50),
        },
    ]  # fmt: skip


def _topic_events(topic: str) -> list[Values]:
    ours: Values = {"topic_id": "qtJ3b-_9Q_CUqIGUVcS4lw", "topic": topic}
    old: Values = {"topic_id": "Zx0f0JvXQ8uM5p5m4y9y1w", "topic": "old"}
    throttle = "leader.replication.throttled.replicas"
    return [
        {**ours, "offset": 20, "at_ms": _at(5), "event": "created", "partitions": 4},
        {**ours, "offset": 60, "at_ms": _at(8), "event": "grown", "partitions": 6},
        {**ours, "offset": 70, "at_ms": _at(9), "event": "config_set", "config": "retention.ms",
         "value": "60000"},
        {**ours, "offset": 299, "at_ms": _at(31), "event": "config_set", "config": throttle,
         "move_id": 1, "who": "anna"},
        {**old, "offset": 500, "at_ms": _at(50), "event": "deleted", "partitions": 3},
    ]  # fmt: skip


def _brokers() -> list[Values]:
    return [
        {
            "broker_id": id_, "state": "unfenced", "state_since_ms": _at(2 if id_ < 104 else 80),
            "registrations": 1 + id_ // 104, "fencings": id_ // 104, "unfencings": 1,
            "shutdowns": 0, "fenced_ms": 1_200 if id_ < 104 else 51_000, "isr_shrinks": id_ - 101,
            "isr_expands": 6, "moves_in": 6 * (id_ // 104), "moves_out": 0,
        }
        for id_ in range(101, 105)
    ]  # fmt: skip


def _activity() -> list[Values]:
    return [
        {
            "broker_id": id_, "window_start_ms": _at(place), "window_end_ms": _at(place + 1),
            "registrations": int(place == 1), "fencings": int(id_ == 104 and place == 70),
            "unfencings": int(place == 2), "isr_shrinks": place % 3, "isr_expands": place % 4,
            "moves_in": 6 * int(id_ == 104 and place == 30), "moves_out": 0,
        }
        for id_ in range(101, 105)
        for place in (1, 2, 30, 31, 34, 36, 38, 40, 44, 70, 79)
    ]  # fmt: skip


def _events() -> list[Values]:
    rows = []
    for id_ in range(101, 105):
        events = [(1, "registered"), (2, "unfenced")]
        if id_ == 104:
            events += [(70, "fenced"), (79, "registered"), (80, "unfenced")]
        ends = [*(at for at, _ in events[1:]), WINDOWS]
        rows += [
            {"broker_id": id_, "at_ms": _at(at), "event": event, "until_ms": _at(end)}
            for (at, event), end in zip(events, ends, strict=True)
        ]
    return rows


def _clocks() -> list[Values]:
    return [
        {"replica": "2", "relative_to": "1", "at_least_ms": -2, "at_most_ms": 3, "estimate_ms": 0,
         "error_ms": 3, "batches": 600, "verdict": "agree"},
        {"replica": "3", "relative_to": "1", "at_least_ms": 490, "at_most_ms": 510,
         "estimate_ms": 500, "error_ms": 10, "batches": 580, "verdict": "ahead"},
    ]  # fmt: skip


def _problems() -> list[Values]:
    return [
        {"replica": "2", "path": "/logs/c2/00000000000000000000.log", "position": 8_192,
         "offset": 77, "kind": "bad_crc",
         "reason": "the batch says checksum 0x1234, and its bytes have 0x4321"},
        {"replica": "2", "path": "/logs/c2/<b>notes.txt", "position": None, "offset": None,
         "kind": "foreign_file", "reason": "is no file of a log"},
    ]  # fmt: skip


def _replicas(replica: str) -> list[Values]:
    return [
        {"replica": name, "path": f"/logs/{name}", "node_id": None, "directory_id": None,
         "cluster_id": None, "log_start": 0, "log_end": 1_200, "last_epoch": 3, "voted_epoch": 3,
         "leader": 3, "has_append_times": name in "123", "snapshots": ["a", "b"], "bytes": 40_342,
         "segments": 1}
        for name in ("1", "2", "3", replica)
    ]  # fmt: skip
