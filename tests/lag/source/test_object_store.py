"""Logs in an object store: the same rows as of the files of this machine, in every table."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.invalid_input import InvalidInput
from lag.source.stream_offsets import Follower, tasks_between
from tests.lag import handmade_logs
from tests.lag.copied_logs import CUT_BYTES, KRAFT, copy_of
from tests.support.s3_server import NEEDS_MOTO, S3Server

pytestmark = [pytest.mark.process, NEEDS_MOTO]

TABLES = ("batches", "records", "epochs", "assignments", "replicas", "problems", "walk")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of all kinds: whole, torn, damaged, with snapshots, with an index, with other files."""
    folder = tmp_path_factory.mktemp("logs")
    copy_of(folder, 1)
    copy_of(folder, 2, without_bytes=CUT_BYTES // 2)
    own = folder / "controller-3" / "data" / "__cluster_metadata-0"
    own.mkdir(parents=True)
    for path in KRAFT.iterdir():
        if path.suffix in (".log", ".checkpoint"):
            shutil.copyfile(path, own / path.name)
    content = bytearray((own / f"{0:020}.log").read_bytes())
    content[2_000] ^= 1
    (own / f"{0:020}.log").write_bytes(content)
    shortened = sorted(own.glob("*.checkpoint"))[0]
    shortened.write_bytes(shortened.read_bytes()[:-40])
    (own / "notes.txt").write_text("nothing")
    (own / "quorum-state").write_text('{"leaderId": 3, "leaderEpoch": 3, "data_version": 1}')
    (own.parent / "meta.properties").write_text("no properties")
    return folder


def test_every_table_is_the_same_as_of_local_files(server: S3Server, logs: Path) -> None:
    server.make_bucket("same")
    server.put_folder("same/deep/logs", logs)
    for table in TABLES:
        for partition_bytes in (4_000, 1 << 20):
            asked: dict[str, Any] = {
                "table": table,
                "partition_bytes": partition_bytes,
                "json": "true",
            }
            right = handmade_logs.rows(logs, **asked)
            found = handmade_logs.rows("s3://same/deep/logs", **asked)
            assert right
            assert plain(found, "s3://same/deep/logs") == plain(right, str(logs)), table


def plain(rows: list[dict[str, Any]], place: str) -> list[str]:
    """The rows as text, without the place of the files."""
    return sorted(str(row).replace(place, "HERE") for row in rows)


def test_append_times_are_read_from_the_store(server: S3Server, tmp_path: Path) -> None:
    count = 30_000
    made = [handmade_logs.batch(base, [b"x"]) for base in range(count)]
    segment = handmade_logs.write_segment(tmp_path / "node", 0, made)
    begin = handmade_logs.BEGIN_MS
    handmade_logs.write_index(segment, ((begin + at + 3, at + 1, 1) for at in range(count)))
    server.make_bucket("times")
    server.put_folder("times", tmp_path)
    rows = handmade_logs.rows("s3://times", "batches", partition_bytes=100_000)
    assert len(rows) == count
    assert all(row["local_append_ms"] - row["leader_append_ms"] == 3 for row in rows)
    bounds = {"since": begin + 20_000, "until": begin + 20_002, "clock_slack_ms": 0}
    found = handmade_logs.rows("s3://times/node", "batches", **bounds)
    assert [row["base_offset"] for row in found] == [20_000, 20_001]


def test_a_stream_follows_a_log_that_is_copied_again(server: S3Server, tmp_path: Path) -> None:
    made = handmade_logs.batches([3, 2, 5])
    server.make_bucket("stream")
    options = handmade_logs.asked("s3://stream/node")
    offset: dict[str, Any] = {}
    seen = []
    for count in (1, 2, 3):
        server.put(f"stream/node/{0:020}.log", b"".join(made[:count]))
        latest = Follower(options).latest(offset)
        seen.append(
            [
                row["base_offset"]
                for row in handmade_logs.rows_of(options, tasks_between(offset, latest, options))
            ]
        )
        offset = latest
    assert seen == [[0], [3], [5]]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("s3://nowhere/logs", "there is no bucket nowhere: write s3://bucket/folder, hdfs://"),
        ("s3://wrong/nothing", "it does not exist: name the folder of a log, such as .../__cl"),
        ("s3://wrong/file.txt", "it is a file: name its folder, s3://wrong"),
        ("s3://wrong/other", "no segment (*.log) is in it, nor in its __cluster_metadata-0"),
    ],
)
def test_a_wrong_path_is_named_with_what_would_be_right(
    server: S3Server, path: str, why: str
) -> None:
    server.make_bucket("wrong")
    server.put("wrong/file.txt", b"text")
    server.put("wrong/other/file.txt", b"text")
    with pytest.raises(InvalidInput) as error:
        handmade_logs.rows(path, "batches")
    assert str(error.value).startswith(f"{path}: {why}")


def test_refused_credentials_are_an_error_or_a_problem(server: S3Server, logs: Path) -> None:
    server.make_bucket("closed")
    server.put_folder("closed", logs / "controller-1")
    asked = handmade_logs.asked("s3://closed", table="problems")
    tasks = handmade_logs.opened(asked)
    assert handmade_logs.rows_of(asked, tasks) == []
    with server.strict():
        with pytest.raises(InvalidInput) as error:
            handmade_logs.rows("s3://closed", "batches")
        # A worker may have other credentials than the driver.
        (problem,) = handmade_logs.rows_of(asked, tasks)
    assert str(error.value).startswith(
        "s3://closed: it cannot be read: the store refuses the credentials (ACCESS_DENIED): "
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    assert (problem["kind"], problem["path"].rpartition("/")[2]) == ("unreadable", f"{0:020}.log")
    assert "the store refuses the credentials" in problem["reason"]
