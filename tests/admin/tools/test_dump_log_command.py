"""`metaquorum dump-log`: its output, and its errors for unreadable files."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from admin.cli.metadata_logs import dump_log as command
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.control import ControlType, control_key
from quorum.records.encode import encode, stamp
from statemachine.records import codec, kafka_records
from tests.support.real_cluster import IN_TREE

LOG = IN_TREE / "00000000000000000000.log"


def dump(*arguments: object) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)


def a_log(folder: Path, *values: bytes, base: int = 0) -> Path:
    """A log of one batch with these records."""
    batch = encode(list(values), timestamp_ms=5)
    stamp(batch, Offset(base), Epoch(7))
    path = folder / f"{base:020}.log"
    path.write_bytes(batch)
    return path


def test_a_table_has_a_title_and_a_line_for_each_record() -> None:
    result = dump(LOG)
    assert result.exit_code == 0
    title, first, *_ = result.stdout.splitlines()
    assert title.split() == ["OFFSET", "EPOCH", "TYPE", "V", "DATA"]
    assert first.startswith("       0      1  LeaderChange                         0  {")
    line = next(each for each in result.stdout.splitlines() if " TOPIC_RECORD " in each)
    assert line.endswith('  0  {"name":"orders","topicId":"qtJ3b-_9Q_CUqIGUVcS4lw"}')


def test_json_is_one_object_a_line_that_names_its_file() -> None:
    result = dump(LOG, "-o", "json")
    first = json.loads(result.stdout.splitlines()[0])
    assert list(first) == [
        *("file", "offset", "epoch", "timestampMs", "control", "type", "version", "data")
    ]
    assert first["file"] == str(LOG)
    assert first["control"] is True


def test_several_files_are_told_apart(tmp_path: Path) -> None:
    other = a_log(tmp_path, codec.encode(kafka_records.NoOp(), 29))
    result = dump(other, LOG)
    lines = result.stdout.splitlines()
    assert lines[0] == str(other)
    assert lines[3] == str(LOG)


def test_our_additions_stand_beside_kafkas_fields(tmp_path: Path) -> None:
    change = kafka_records.PartitionChange(partition_id=0, topic_id=UUID(int=9), target=(1, 2))
    result = dump(a_log(tmp_path, codec.encode(change, 29)), "-o", "json")
    shown = json.loads(result.stdout)
    assert shown["data"] == {"partitionId": 0, "topicId": "AAAAAAAAAAAAAAAAAAAACQ"}
    assert shown["extra"] == {"target": [1, 2]}


def test_a_record_of_an_unknown_type_is_shown_by_its_number_and_bytes(tmp_path: Path) -> None:
    result = dump(a_log(tmp_path, bytes((1, 99, 3, 0xAB, 0xCD))), "-o", "json")
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert (shown["type"], shown["version"], shown["data"]) == ("type 99", 3, {"bytes": "abcd"})


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (
            bytes((1, 2, 9)),
            "TOPIC_RECORD",
            "version 9 of record type 2 (Topic) is not known, only 0 to 0",
        ),
        (bytes((1, 2, 0, 40)), "TOPIC_RECORD", "39 bytes are announced at byte 4, 0 are left"),
        (b"\x07hello", "no metadata record", "frame version 7 is not known, only 1"),
        (b"", "no metadata record", "the record ends early, after 0 bytes"),
    ],
)
def test_a_record_that_is_not_understood_is_shown_as_bytes_and_the_rest_too(
    value: bytes, kind: str, why: str, tmp_path: Path
) -> None:
    log = a_log(tmp_path, value, codec.encode(kafka_records.NoOp(), 29))
    result = dump(log, "-o", "json")
    assert result.exit_code == 1
    bad, good = map(json.loads, result.stdout.splitlines())
    assert (bad["type"], bad["data"], bad["problem"]) == (kind, {"bytes": value.hex()}, why)
    assert good["type"] == "NO_OP_RECORD"
    assert result.stderr == f"{log}: the record at offset 0 is shown as bytes: {why}\n"


def test_a_damaged_batch_ends_the_file_after_what_stands_before_it(tmp_path: Path) -> None:
    data = bytearray(LOG.read_bytes())
    data[700] ^= 0xFF  # In the third batch, which begins at byte 622 with offset 12.
    log = tmp_path / LOG.name
    log.write_bytes(data)
    result = dump(log)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].split()[0] == "11"
    assert result.stderr.startswith(f"Error: {log} is damaged at byte 622: its checksum is ")


def test_a_batch_that_is_not_whole_is_named_with_its_place(tmp_path: Path) -> None:
    log = tmp_path / LOG.name
    log.write_bytes(LOG.read_bytes()[:640])
    result = dump(log)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {log} is damaged at byte 622: only 18 of the 61 bytes of its header\n"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"hello", "only 5 of the 61 bytes of its header"),
        (b"a text file that is long enough to hold a header, if it were a log of Kafka's", "magic"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_sentence(
    content: bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    result = dump(path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {path} is neither a metadata log segment nor a check")
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_not_there_or_a_folder_is_said_in_one_sentence(tmp_path: Path) -> None:
    missing = dump(tmp_path / "missing.log")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr.endswith("missing.log cannot be read: it is not there\n")
    folder = dump(tmp_path)
    assert (folder.exit_code, folder.stdout) == (2, "")
    assert folder.stderr.endswith(f"{tmp_path} cannot be read: it is a folder\n")


def test_an_empty_segment_has_no_records_and_is_sound(tmp_path: Path) -> None:
    path = tmp_path / f"{7:020}.log"
    path.touch()
    result = dump(path, "-o", "json")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (control_key(ControlType.ABORT), "control type 0"),
        (b"\x00\x00\x00\x63", "control type 99"),
        (b"\x00", "control record"),
    ],
)
def test_a_control_record_that_does_not_belong_there_is_shown_as_bytes(
    key: bytes, kind: str, tmp_path: Path
) -> None:
    batch = encode([b"\x01\x02"], timestamp_ms=5, control_keys=[key])
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batch)
    result = dump(path, "-o", "json")
    assert result.exit_code == 1
    shown = json.loads(result.stdout)
    assert (shown["type"], shown["data"]) == (kind, {"bytes": "0102"})
