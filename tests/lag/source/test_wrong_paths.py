"""Paths without a log: an error that names each and what would be right, or rows of `problems`."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.invalid_input import InvalidInput
from tests.lag import handmade_logs

WRITE = "write s3://bucket/folder, hdfs://host:port/folder, or the path of a folder"
NAME_A_FOLDER = "name the folder of a log, such as .../__cluster_metadata-0, of a node, or one with"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with a log."""
    folder = tmp_path / "node"
    handmade_logs.write_segment(folder, 0, handmade_logs.batches([2]))
    return folder


def refusal(*paths: str, table: str = "batches") -> str:
    """The sentence with which these paths are refused."""
    with pytest.raises(InvalidInput) as error:
        handmade_logs.rows(paths[0], table, paths=list(paths))
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nope", f"/nope: it does not exist: {NAME_A_FOLDER}"),
        (
            "HERE/no*",
            f"HERE/no*: wildcards are not expanded, and it does not exist: {NAME_A_FOLDER}",
        ),
        ("~/x", "~/x: ~ is not expanded: write /srv/anna/x"),
        (
            "s3a://logs/node-1",
            "s3a://logs/node-1: s3a is Hadoop's name for it: write s3://logs/node-1",
        ),
        (
            "gs://logs/node-1",
            f"gs://logs/node-1: no file system has the name gs: {WRITE}",
        ),
        ("s3:///node-1", f"s3:///node-1: it names no bucket: {WRITE}"),
        ("s3://", f"s3://: it names no bucket: {WRITE}"),
        (
            "s3://me:secret@logs/node-1",
            "a report names its paths, so they have no credentials and options: set AWS_ACCESS_KEY",
        ),
        ("s3://logs/node-1?region=x", "so they have no credentials and options: set AWS_ACCESS"),
        ("HERE/node/00000000000000000000.log", "0.log: it is a file: name its folder, HERE/node"),
        ("HERE/empty", "HERE/empty: no segment (*.log) is in it, nor in its __cluster_metadata-0"),
    ],
)
@pytest.mark.parametrize("table", ["batches", "problems", "replicas", "walk"])
def test_a_wrong_path_is_named_with_what_would_be_right(
    tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch, path: str, why: str, table: str
) -> None:
    monkeypatch.setenv("HOME", "/srv/anna")
    (tmp_path / "empty").mkdir()
    wrong = path.replace("HERE", str(tmp_path))
    assert why.replace("HERE", str(tmp_path)) in refusal(wrong, table=table)
    assert why.replace("HERE", str(tmp_path)) in refusal(str(node), wrong, table=table)


def test_every_wrong_path_is_named(node: Path) -> None:
    said = refusal("/nope", str(node), "/nowhere")
    assert said.startswith("/nope: ")
    assert "; /nowhere: " in said
    assert str(node) not in said


def test_wrong_paths_are_problems_if_that_is_asked_for(tmp_path: Path, node: Path) -> None:
    paths = [str(node), "/nope", "s3a://logs/node-1", "gs://logs"]
    found = handmade_logs.rows(paths[0], "problems", paths=paths, missing="report")
    assert [(row["path"], row["kind"]) for row in found] == [
        ("/nope", "no_log"),
        ("s3a://logs/node-1", "no_log"),
        ("gs://logs", "no_log"),
    ]
    rows = handmade_logs.rows(paths[0], "batches", paths=paths, missing="report")
    assert [row["last_offset"] for row in rows] == [1]


def test_paths_of_this_machine_may_be_relative_or_have_a_scheme(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node.parent)
    for path in ("node", f"file:{node}", f"file://{node}"):
        (row,) = handmade_logs.rows(path, "replicas")
        assert row["path"] == str(node)
