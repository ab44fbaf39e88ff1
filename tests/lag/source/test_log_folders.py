"""Log folders of all kinds: nodes, copies, empty ones, foreign ones, and unreadable ones."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lag.unprivileged_process import barred
from tests.support import real_cluster
from tests.support.tree import ROOT

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.planner import plan
from lag.source.tasks import Slice
from tests.lag import handmade_logs


def test_a_real_cluster_is_five_replicas() -> None:
    cluster = real_cluster.available(real_cluster.CLUSTER)
    found = {row["replica"]: row for row in handmade_logs.rows(cluster, "replicas")}
    assert set(found) == {"1", "2", "3", "4", "broker-104"}
    assert [found[each]["log_end"] for each in ("2", "3")] == [546, 547]
    assert (found["4"]["log_start"], found["4"]["voted_epoch"], found["4"]["leader"]) == (373, 3, 3)
    assert found["broker-104"]["node_id"] is None
    assert {row["cluster_id"] for row in found.values()} == {real_cluster.CLUSTER_ID, None}
    assert not any(row["has_append_times"] for row in found.values())
    kinds = {
        (row["kind"], Path(row["path"]).suffix) for row in handmade_logs.rows(cluster, "problems")
    }
    # What Kafka's tool printed lies beside the files, and nothing else is amiss.
    assert kinds == {("foreign_file", ".txt")}


def test_the_same_log_is_found_from_each_folder_around_it(tmp_path: Path) -> None:
    log = tmp_path / "node" / "__cluster_metadata-0"
    handmade_logs.write_segment(log, 0, handmade_logs.batches([2]))
    for path in (tmp_path, tmp_path / "node", log):
        (found,) = handmade_logs.rows(path, "batches")
        assert (found["replica"], found["last_offset"]) == ("node", 1)
    both = handmade_logs.rows(tmp_path, "batches", paths=[str(log)])
    assert len(both) == 1


def test_nodes_with_their_data_in_a_folder_of_its_own_are_found_from_above(tmp_path: Path) -> None:
    """As `metaquorum local` lays them out."""
    for node in ("controller-1", "broker-101"):
        log = tmp_path / node / "data" / "__cluster_metadata-0"
        handmade_logs.write_segment(log, 0, handmade_logs.batches([2]))
        # Of a broker's partitions none is the log of the quorum.
        handmade_logs.write_segment(
            tmp_path / node / "data" / "orders-0", 0, handmade_logs.batches([3])
        )
    found = handmade_logs.rows(tmp_path, "batches")
    assert sorted(Path(row["path"]).parts[-4] for row in found) == ["broker-101", "controller-1"]


def test_two_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for where in ("old", "new"):
        handmade_logs.write_segment(tmp_path / where / "node-1", 0, handmade_logs.batches([2]))
    paths = [str(tmp_path / where / "node-1") for where in ("old", "new")]
    found = handmade_logs.rows(paths[0], "batches", paths=paths)
    assert [row["replica"] for row in found] == ["node-1", "node-1#2"]


def test_a_folder_that_names_its_node_and_no_directory_is_that_nodes(tmp_path: Path) -> None:
    """As brokers and controllers of Kafka before 3.7 left it."""
    handmade_logs.write_segment(
        tmp_path / "copy" / "__cluster_metadata-0", 0, handmade_logs.batches([2])
    )
    meta = f"version=1\nnode.id=7\ncluster.id={real_cluster.CLUSTER_ID}\n"
    (tmp_path / "copy" / "meta.properties").write_text(meta)
    (found,) = handmade_logs.rows(tmp_path, "replicas")
    assert (found["replica"], found["node_id"], found["directory_id"]) == ("7", 7, None)
    assert found["cluster_id"] == real_cluster.CLUSTER_ID
    assert handmade_logs.rows(tmp_path, "problems") == []


def test_a_folder_without_a_log_is_reported_as_such(tmp_path: Path) -> None:
    empty, text = tmp_path / "empty", tmp_path / "notes.txt"
    empty.mkdir()
    text.write_text("no log")
    paths = [str(empty), str(text), str(tmp_path / "nowhere")]
    found = handmade_logs.rows(paths[0], "problems", paths=paths, missing="report")
    assert [(row["path"], row["kind"]) for row in found] == [
        (str(empty), "no_log"),
        (str(text), "no_log"),
        (str(tmp_path / "nowhere"), "no_log"),
    ]
    assert handmade_logs.rows(paths[0], "batches", paths=paths, missing="report") == []


def test_files_of_others_are_told_and_those_of_logs_are_not(tmp_path: Path) -> None:
    handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([2]))
    ours = ("00000000000000000000.index", ".lock", "quorum-state.tmp")
    for name in (*ours, "notes.txt", "0.log", "old.checkpoint", "0.appendtime"):
        (tmp_path / name).write_text("")
    (tmp_path / "quorum-state").write_text("{")
    found = handmade_logs.rows(tmp_path, "problems")
    assert [(Path(row["path"]).name, row["kind"]) for row in found] == [
        ("0.appendtime", "misnamed"),
        ("0.log", "misnamed"),
        ("notes.txt", "foreign_file"),
        ("old.checkpoint", "misnamed"),
        ("quorum-state", "meta"),
    ]


def test_text_in_a_segment_is_no_batch(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_text("no batch at all\n" * 100)
    handmade_logs.write_segment(tmp_path, 10, handmade_logs.batches([2], base=10))
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert (problem["kind"], problem["position"], problem["offset"]) == ("bad_crc", 0, 0)
    assert problem["reason"].endswith("offsets 0 to 9 are lost")


@pytest.mark.thorough
def test_an_unreadable_folder_is_reported(tmp_path: Path) -> None:
    path = handmade_logs.write_segment(tmp_path / "node", 0, handmade_logs.batches([2]))
    path.chmod(0)
    (problem,) = problems_without_rights(tmp_path)
    assert (problem["kind"], problem["path"]) == ("unreadable", str(path))
    assert problem["reason"] == "it cannot be read: Permission denied"
    path.parent.chmod(0)
    found = problems_without_rights(tmp_path)
    path.parent.chmod(0o700)
    assert {row["kind"] for row in found} == {"unreadable"}
    assert str(path.parent) in {row["path"] for row in found}


def problems_without_rights(folder: Path) -> list[dict[str, Any]]:
    """The rows of problems, as a process finds them that may not read everything."""
    program = (
        "import json, sys; from tests.lag import handmade_logs; "
        "print(json.dumps(handmade_logs.rows(sys.argv[1], 'problems')))"
    )
    done = subprocess.run(
        [*barred(), sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_an_empty_folder_beside_those_of_nodes_is_told(tmp_path: Path) -> None:
    """As a copy that failed leaves it; a folder of something else is nobody's."""
    handmade_logs.write_segment(tmp_path / "node", 0, handmade_logs.batches([2]))
    for name in ("copy", "lost+found", "photos"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("")
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert (problem["kind"], problem["path"]) == ("no_log", str(tmp_path / "copy"))
    assert [row["replica"] for row in handmade_logs.rows(tmp_path, "replicas")] == ["node"]
    # Beside the files of one log they are nobody's business.
    (tmp_path / "node" / "empty").mkdir()
    assert [row["kind"] for row in handmade_logs.rows(tmp_path / "node", "problems")] == [
        "foreign_file"
    ]


def test_a_file_that_goes_before_it_is_read_is_told(tmp_path: Path) -> None:
    """As when a log is cut at its start meanwhile; root finds it unreadable as well."""
    path = handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([2]))
    options = handmade_logs.asked(tmp_path, table="problems")
    tasks = plan(options)
    ends = handmade_logs.asked(tmp_path, table="replicas")
    ends_tasks = plan(ends)
    path.unlink()
    (problem,) = handmade_logs.rows_of(options, tasks)
    assert (problem["kind"], problem["path"]) == ("unreadable", str(path))
    # Where the log ends nobody knows then, and that is not 0.
    (replica,) = handmade_logs.rows_of(ends, ends_tasks)
    assert (replica["log_end"], replica["last_epoch"]) == (None, None)


def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    controller = real_cluster.controller(4) / real_cluster.METADATA
    shutil.copytree(controller, tmp_path / "log")
    (path, *_) = sorted((tmp_path / "log").glob("*.checkpoint"))
    path.chmod(0o600)
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    found = [row for row in handmade_logs.rows(tmp_path, "problems") if row["path"] == str(path)]
    assert [row["kind"] for row in found] == ["bad_crc", "snapshot"]


def test_a_damaged_index_is_told_and_what_is_known_of_it_used(tmp_path: Path) -> None:
    segment = handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([3, 2, 2]))
    index = handmade_logs.write_index(segment, [(100, 3, 1), (120, 5, 1), (140, 7, 1)])
    content = bytearray(index.read_bytes())
    content[8 + 24 + 3] ^= 1
    index.write_bytes(bytes(content))
    # How far the damaged entry went, only it could tell: nobody knows up to where the next begins.
    assert [row["local_append_ms"] for row in handmade_logs.rows(tmp_path, "batches")] == [
        100,
        None,
        None,
    ]
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert (problem["kind"], problem["path"]) == ("append_times", str(index))


def test_segments_outside_the_offsets_and_times_asked_for_are_not_read(tmp_path: Path) -> None:
    for base in range(0, 50, 10):
        handmade_logs.write_segment(tmp_path, base, handmade_logs.batches([10], base=base))
    begin = handmade_logs.BEGIN_MS
    for options in (
        {"from_offset": 20, "to_offset": 30},
        {"since": begin + 20, "until": begin + 21, "clock_slack_ms": 0},
    ):
        asked = handmade_logs.asked(tmp_path, **options)
        tasks = handmade_logs.opened(asked)
        names = [Path(task.path).name for task in tasks if isinstance(task, Slice)]
        assert f"{20:020}.log" in names
        assert len(tasks) <= 2
        assert [row["base_offset"] for row in handmade_logs.rows_of(asked, tasks)] == [20]
