"""The history of partitions, by packs and columns, against a slow reference."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra spark is not installed")
pytest.importorskip("pyspark", reason="the extra spark is not installed")

import pyarrow as pa

from lag.reports import partition_history
from lag.reports.partition_history import Histories, Range
from lag.reports.scope import Scope
from lag.source.record_packs import from_bytes, packed_rows, unpacked
from lag.source.schemas import PACKS, RECORDS
from tests.lag import handmade_logs
from tests.support import real_cluster

SCOPE = Scope(1_000, 2_000, 10)
SCHEMA = RECORDS.in_ms.nullable().arrow()
LISTS = ("replicas", "isr", "adding", "removing", "target")
Row = dict[str, Any]

brokers = st.one_of(st.none(), st.sampled_from([[], [1], [1, 2], [2, 1], [2, 3], [1, 2, 3]]))
record = st.fixed_dictionaries(
    {
        "topic_id": st.sampled_from(["A", "B"]),
        "partition": st.integers(0, 1),
        "type": st.sampled_from(["PartitionRecord", *["PartitionChangeRecord"] * 5, "TopicRecord"]),
        **dict.fromkeys(LISTS, brokers),
        "move_id": st.sampled_from([None, None, 0, 7]),
    }
)


def counted(
    counts: dict[tuple[int, int, str], int], window: int, old: list[int], now: list[int]
) -> None:
    """Count who came into this ISR and who left it."""
    for what, brokers_ in (
        ("isr_expands", set(now) - set(old)),
        ("isr_shrinks", set(old) - set(now)),
    ):
        for broker in brokers_:
            counts[broker, window, what] = counts.get((broker, window, what), 0) + 1


def what_is_said(each: Row) -> Row:
    said = {name: each[name] for name in (*LISTS, "move_id") if each[name] is not None}
    if "target" not in said and said.keys() & {"adding", "removing"}:
        said["target"] = []
    if said.get("target") == []:
        said["move_id"] = 0
    return said


def slowly(records: list[Row]) -> tuple[list[Row], dict[tuple[int, int, str], int]]:
    """The rows of reassignments, and how often each broker did what in which window."""
    found: list[Row] = []
    counts: dict[tuple[int, int, str], int] = {}
    known: dict[tuple[str, int], Row] = {}
    for each in records:
        if each["type"] == "TopicRecord":
            continue
        key = each["topic_id"], each["partition"]
        old = known.get(key)
        now: Row = dict(old) if old else {**dict.fromkeys(LISTS), "move_id": None, "number": 0}
        now |= what_is_said(each)
        adding, removing, target = (now[name] or [] for name in ("adding", "removing", "target"))
        now["moving"] = bool(adding or removing or target)
        kept = (
            None if now["replicas"] is None else [b for b in now["replicas"] if b not in removing]
        )
        now["planned"] = target or kept
        was_moving = old is not None and old["moving"]

        def differs(name: str, now: Row = now, old: Row | None = old) -> bool:
            return old is not None and None not in (old[name], now[name]) and old[name] != now[name]

        if now["moving"]:
            begins = not was_moving or differs("planned")
        else:
            begins = not was_moving and differs("replicas")
        is_created = each["type"] == "PartitionRecord"
        begins = begins and (not is_created or now["moving"])
        now["number"] += begins
        known[key] = now
        if (begins or was_moving) and now["number"]:
            found.append({**now, "offset": each["offset"], "begins": begins})
        if differs("isr") and not is_created:
            assert old is not None
            counted(counts, SCOPE.window_at(each["append_ms"]), old["isr"], now["isr"])
    return found, counts


def packed(records: list[Row], sizes: list[int]) -> list[Row]:
    """The packs of these records, so many records in each."""
    found: list[Row] = []
    at = 0
    while at < len(records):
        size = sizes[len(found) % len(sizes)]
        rows = pa.RecordBatch.from_pylist(records[at : at + size], SCHEMA)
        found += packed_rows(rows, PACKS, 1).to_pylist()
        at += size
    return [pack for pack in found if pack["share"] is not None]


@given(
    said=st.lists(record, min_size=1, max_size=40),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    at_once=st.integers(1, 9),
)
def test_packs_tell_what_the_definition_says_however_they_are_cut(
    said: list[Row], sizes: list[int], at_once: int
) -> None:
    records = [
        {**each, "replica": "1", "path": "log", "source": "log", "offset": at, "append_ms": at_ms}
        for at, (each, at_ms) in enumerate(zip(said, range(1_000, 2_000, 3), strict=False))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_history, "ROWS_AT_ONCE", at_once)
        told = Histories(SCOPE, [Range("1", None)]).process(packed(records, sizes)).to_pylist()
    wanted, counts = slowly(records)
    rows = sorted((row for row in told if row["number"] is not None), key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == [row["offset"] for row in wanted]
    for row, right in zip(rows, wanted, strict=True):
        for name in ("number", "begins", "moving", "replicas", "isr", "planned"):
            assert row[name] == right[name], (name, row, right)
        for name in ("adding", "removing"):
            assert row[name] == (right[name] or []), (name, row, right)
        assert row["move_id"] == (right["move_id"] or None)
    found: dict[tuple[int, int, str], int] = {}
    for row in told:
        if row["broker_id"] is not None:
            key = (row["broker_id"], row["window"], row["what"])
            found[key] = found.get(key, 0) + row["times"]
    assert found == counts


def test_a_partition_is_of_one_share_and_what_is_of_none_is_apart() -> None:
    rows = [
        {"replica": "1", "path": "p", "source": "log", "offset": at, "topic_id": "A", **each}
        for at, each in enumerate(
            [{"type": "PartitionRecord", "partition": at % 5} for at in range(20)]
            + [{"type": "TopicRecord"}]
        )
    ]
    packs = packed_rows(pa.RecordBatch.from_pylist(rows, SCHEMA), PACKS, 3).to_pylist()
    assert sorted(str(pack["share"]) for pack in packs) == ["0", "1", "2", "None"]
    assert {pack["share"]: pack["low"] for pack in packs}[None] == 20


def test_packs_hold_what_the_records_of_a_real_log_say() -> None:
    folder = real_cluster.controller(1) / real_cluster.METADATA
    rows = handmade_logs.rows(folder, "records", source="log", json="few")
    packs = handmade_logs.rows(folder, "packs", source="log", json="few", shares="3")
    found = []
    for pack in packs:
        if pack["share"] is None:
            found += unpacked(pack, RECORDS.in_ms).to_pylist()
            continue
        said = from_bytes(pack["said"]).to_pylist()
        for row in from_bytes(pack["rows"]).to_pylist():
            type_ = "PartitionRecord" if said[row["code"]]["created"] else "PartitionChangeRecord"
            found.append({**row, **said[row.pop("code")], "type": type_})
    found.sort(key=lambda row: row["offset"])
    assert [row["offset"] for row in found] == [row["offset"] for row in rows]
    for row, right in zip(found, rows, strict=True):
        assert {name: row[name] for name in row if name in right} == {
            name: right[name] for name in row if name in right
        }


def test_records_outside_a_range_are_left_out() -> None:
    """Records of a log count if they are in the range, those of a snapshot all, before them."""
    grown = {"type": "PartitionChangeRecord", "topic_id": "A", "partition": 0, "adding": [3]}
    made = {"type": "PartitionRecord", "topic_id": "A", "partition": 0, "replicas": [1, 2]}
    state = {"replica": "1", "path": "x/9.checkpoint", "source": "snapshot", "append_ms": 1_001}
    log = {"replica": "2", "path": "log", "source": "log", "append_ms": 1_002}
    packs = [
        *packed([{**made, **state, "offset": 3}], [1]),
        *packed([{**grown, **log, "offset": at} for at in (8, 10, 12)], [3]),
    ]
    ranges = [Range("1", "9.checkpoint", stands_at=9), Range("2", None, 10, 12)]
    told = Histories(SCOPE, ranges).process(packs).to_pylist()
    (row,) = (each for each in told if each["number"] is not None)
    assert (row["offset"], row["replicas"], row["planned"]) == (10, [1, 2], [1, 2])
