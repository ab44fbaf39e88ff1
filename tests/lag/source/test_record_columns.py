"""Records as rows: those of a real cluster as Kafka's tool prints them, ours, compressed ones."""

import gzip
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import real_cluster

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import numpy as np
import pyarrow as pa

from lag.source.append_time_index import read_index
from quorum.core.vocabulary import uuid_to_text
from quorum.log.append_times import append_times, encode_entry, encode_header
from quorum.records.batch import HEADER, HEADER_BYTES, Codec, header_at
from quorum.records.encode import encode
from statemachine.records import codec as serde
from statemachine.records import kafka_records, own_records
from tests.lag import handmade_logs
from tests.support.parameters import at_most_in_quick

TOPIC: UUID = UUID(int=0x77)
LEVEL = 29


def kafkas_name(row: dict[str, Any]) -> str:
    """The name that Kafka's tool prints for the type of a row."""
    words = "".join(f"_{c}" if c.isupper() else c for c in row["type"])
    return row["type"] if row["control"] else words[1:].upper()


@pytest.mark.parametrize("node", [1, 3, 4])
def test_a_real_log_is_told_as_kafkas_tool_prints_it(node: int) -> None:
    folder = real_cluster.controller(node) / real_cluster.METADATA
    (path,) = folder.glob("*.log")
    dumped = list(real_cluster.dumped(real_cluster.dump_beside(path)))
    rows = handmade_logs.rows(folder, "records", source="log", json="true", partition_bytes=4_000)
    assert len(rows) == len(dumped)
    for row, said in zip(rows, dumped, strict=True):
        place = (row["offset"], row["epoch"], row["append_ms"], kafkas_name(row))
        assert place == (said.offset, said.epoch, said.timestamp_ms, said.type)
        if said.version != real_cluster.NOT_DECODED:
            assert row["version"] == said.version
        if said.type == "PARTITION_CHANGE_RECORD":
            assert (row["partition"], row["topic_id"]) == (
                said.data["partitionId"],
                said.data["topicId"],
            )
            for column, field in (("isr", "isr"), ("adding", "addingReplicas")):
                assert row[column] == said.data.get(field)
        if not row["control"]:
            assert json.loads(row["json"]) == said.data


def write(folder: Path, *values: bytes) -> Path:
    handmade_logs.write_segment(folder, 0, [handmade_logs.batch(0, values)])
    return folder


def test_our_moves_are_typed(tmp_path: Path) -> None:
    said: list[kafka_records.Record] = [
        kafka_records.PartitionChange(
            partition_id=4, topic_id=TOPIC, target=(1, 2), move=7, step=2
        ),
        own_records.MoveChanged(id=7, state=3, since_ms=99),
        own_records.MoveEnded(
            id=7, outcome=1, at_ms=120, completed=1, cancelled=0, superseded=0, gone=0
        ),
    ]
    write(tmp_path, *(serde.encode(each, LEVEL) for each in said))
    change, changed, ended = handmade_logs.rows(tmp_path, "records", json="few")
    assert (change["type"], change["partition"], change["topic_id"], change["json"]) == (
        "PartitionChangeRecord",
        4,
        uuid_to_text(TOPIC),
        None,
    )
    assert (change["target"], change["move_id"], change["step"]) == ([1, 2], 7, 2)
    assert (changed["type"], changed["move_id"], changed["state"]) == ("MoveChanged", 7, 3)
    assert json.loads(changed["json"])["moveChanged"]["sinceMs"] == 99
    assert (ended["type"], ended["state"], ended["since_ms"]) == ("MoveEnded", 1, 120)


def test_unknown_records_are_named_and_broken_ones_are_problems(tmp_path: Path) -> None:
    change = serde.encode(
        kafka_records.PartitionChange(partition_id=4, topic_id=TOPIC, isr=(1,)), LEVEL
    )
    unknown = serde.encode(kafka_records.Unknown(type_id=77, version=0, body=b"?"), LEVEL)
    write(tmp_path, unknown, change[:-2], b"\x09", change, change[:5], b"")
    rows = handmade_logs.rows(tmp_path, "records")
    malformed = ["Malformed"] * 2
    assert [row["type"] for row in rows] == [
        "Unknown(77)",
        *malformed,
        "PartitionChangeRecord",
        *malformed,
    ]
    assert handmade_logs.rows(tmp_path, "problems") == []
    problems = handmade_logs.rows(tmp_path, "problems", deep="true")
    assert [(row["kind"], row["offset"]) for row in problems] == [
        ("record", at) for at in (1, 2, 4, 5)
    ]
    assert "the record at offset 2 is not understood: frame version 9" in problems[1]["reason"]


def compressed(values: list[bytes], codec: Codec) -> bytes:
    """A batch as a client of Kafka would compress it."""
    plain = bytes(encode(values, timestamp_ms=handmade_logs.BEGIN_MS))
    body = plain[HEADER_BYTES:]
    match codec:
        case Codec.GZIP:
            packed = gzip.compress(body)
        case Codec.SNAPPY:
            block = pa.Codec("snappy").compress(body, asbytes=True)
            head = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
            packed = head + len(block).to_bytes(4, "big") + block
        case _:
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, str(codec)) as stream:
                stream.write(body)
            packed = sink.getvalue().to_pybytes()
    header = header_at(plain)._replace(length=HEADER_BYTES - 12 + len(packed), attributes=codec)
    return sealed(HEADER.pack(*header) + packed)


def sealed(batch: bytes) -> bytes:
    """With its checksum set right."""
    from crc32c import crc32c

    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_are_read(tmp_path: Path, codec: Codec) -> None:
    values = [
        serde.encode(
            kafka_records.PartitionChange(partition_id=at, topic_id=TOPIC, leader=at), LEVEL
        )
        for at in range(50)
    ]
    handmade_logs.write_segment(tmp_path, 0, [compressed(values, codec)])
    assert [row["leader"] for row in handmade_logs.rows(tmp_path, "records")] == list(range(50))
    (batch,) = handmade_logs.rows(tmp_path, "batches")
    assert (batch["codec"], batch["records"]) == (str(codec), 50)
    assert handmade_logs.rows(tmp_path, "problems") == []


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_records_that_cannot_be_decompressed_are_problems(tmp_path: Path, codec: int) -> None:
    made = bytearray(handmade_logs.batch(0, [b"these are no compressed bytes at all"]))
    made[22] |= codec
    handmade_logs.write_segment(tmp_path, 0, [sealed(bytes(made))])
    assert handmade_logs.rows(tmp_path, "records") == []
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert problem["kind"] == "record"
    assert "its records cannot be expanded as" in problem["reason"]


@settings(max_examples=at_most_in_quick(60))
@given(
    st.lists(st.tuples(st.integers(-1, 10**13), st.integers(1, 9)), max_size=30),
    st.lists(st.tuples(st.integers(0, 800), st.integers(1, 255)), max_size=2),
    st.integers(0, 30),
)
def test_an_index_by_columns_says_what_it_says_entry_by_entry(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    flips: list[tuple[int, int]],
    cut: int,
) -> None:
    end, entries = 0, []
    for time_ms, step in steps:
        end += step
        entries.append(encode_entry(time_ms, end, -1 if time_ms < 0 else 3))
    content = bytearray(encode_header() + b"".join(entries))
    for at, bits in flips:
        if 8 <= at < len(content):
            content[at] ^= bits
    path = tmp_path_factory.mktemp("index") / f"{0:020}.appendtime"
    path.write_bytes(bytes(content[: max(8, len(content) - cut)]))
    times = read_index(str(path), 0, 0, end + 1)
    slow = list(append_times(path))
    offsets = np.arange(end + 2)
    found, known = times.at(offsets)
    expected = [
        next((each.time_ms for each in slow if each.base <= at < each.end), None)
        for at in range(end + 2)
    ]
    assert [int(t) if k else None for t, k in zip(found, known, strict=True)] == expected
