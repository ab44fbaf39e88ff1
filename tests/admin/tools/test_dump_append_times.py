"""`metaquorum dump-log` of append-time indexes."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from admin.cli.metadata_logs import dump_log as command
from quorum.log.append_times import UNKNOWN, encode_entry, encode_header


def dump(*arguments: object) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)


def an_index(folder: Path, *entries: bytes) -> Path:
    path = folder / f"{7:020}.appendtime"
    path.write_bytes(b"".join([encode_header(), *entries]))
    return path


def test_a_line_says_which_records_were_appended_when(tmp_path: Path) -> None:
    path = an_index(
        tmp_path,
        encode_entry(1_795_236_537_164, 12, 3),
        encode_entry(UNKNOWN, 20, UNKNOWN),
        encode_entry(2**62, 21, 4),
    )
    result = dump(path)
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "  OFFSET       END  EPOCH  APPENDED",
            "       7        12      3  2026-11-21T04:48:57.164Z",
            "      12        20      -  -",
            "      20        21      4  4611686018427387904 ms",
        ],
    )


def test_json_has_null_for_what_nobody_knows(tmp_path: Path) -> None:
    path = an_index(tmp_path, encode_entry(5, 12, 3), encode_entry(UNKNOWN, 20, UNKNOWN))
    assert [json.loads(line) for line in dump(path, "-o", "json").stdout.splitlines()] == [
        {"file": str(path), "offset": 7, "endOffset": 12, "epoch": 3, "appendTimeMs": 5},
        {"file": str(path), "offset": 12, "endOffset": 20, "epoch": None, "appendTimeMs": None},
    ]


def test_a_file_that_is_no_index_is_refused_by_name(tmp_path: Path) -> None:
    path = an_index(tmp_path)
    path.write_bytes(b"whatever")
    result = dump(path)
    assert result.exit_code == 1
    assert f"Error: {path}: not an index of append times. " in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = an_index(tmp_path)
    path.unlink()
    result = dump(path)
    assert result.exit_code == 2
    assert f"Error: {path} cannot be read: it is not there" in result.stderr
