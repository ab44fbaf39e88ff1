"""Logs of several clusters: refused by name, or one chosen by its id."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.invalid_input import InvalidInput
from lag.source.problems import HARMLESS
from lag.source.stream_offsets import Follower
from tests.lag import handmade_logs

ONE, OTHER = "4L6g3nShT-eMCtK--X86sw", "0kUSEHmpTxOsjIQ2VJ7y9A"


def node(folder: Path, cluster: str | None, *, leader: int, base: int = 0) -> Path:
    """A node's folder, with a log in which this leader begins epoch 1 at this offset."""
    log = folder / "__cluster_metadata-0"
    at_ms = handmade_logs.BEGIN_MS + leader
    begins = handmade_logs.leader_change(base, epoch=1, leader=leader, at_ms=at_ms)
    handmade_logs.write_segment(log, base, [begins])
    if cluster is not None:
        lines = ("version=1", "node.id=1", f"cluster.id={cluster}")
        (folder / "meta.properties").write_text("\n".join(lines) + "\n")
    return folder


def replicas(folder: Path, **options: Any) -> list[tuple[str, str | None]]:
    """Of each log that is read its name and its cluster."""
    rows = handmade_logs.rows(folder, "replicas", **options)
    return [(row["replica"], row["cluster_id"]) for row in rows]


def test_logs_of_two_clusters_are_refused_by_the_names_of_both(tmp_path: Path) -> None:
    node(tmp_path / "a", ONE, leader=1)
    node(tmp_path / "b", OTHER, leader=2)
    for table in ("batches", "replicas", "problems"):
        with pytest.raises(InvalidInput, match="the logs of 2 clusters, which are never") as error:
            handmade_logs.rows(tmp_path, table)
        for name, folder in ((ONE, "a"), (OTHER, "b")):
            assert f"{name} ({tmp_path / folder}/__cluster_metadata-0)" in str(error.value)
    with pytest.raises(InvalidInput, match="the logs of 2 clusters"):
        Follower(handmade_logs.asked(tmp_path)).latest({})


def test_one_of_them_is_read_if_it_is_named(tmp_path: Path) -> None:
    node(tmp_path / "a", ONE, leader=1)
    node(tmp_path / "b", OTHER, leader=2)
    (tmp_path / "b" / "__cluster_metadata-0" / "notes.txt").write_text("not of the one asked for")
    assert replicas(tmp_path, cluster=ONE) == [("1", ONE)]
    # Both are the only node 1 of their cluster.
    assert replicas(tmp_path, cluster=OTHER) == [("1", OTHER)]
    assert handmade_logs.rows(tmp_path, "problems", cluster=ONE) == []
    with pytest.raises(InvalidInput, match=f"no log is of the cluster nowhere; .*{ONE} .*{OTHER} "):
        replicas(tmp_path, cluster="nowhere")


def test_a_log_without_an_id_is_of_the_cluster_whose_log_begins_alike(tmp_path: Path) -> None:
    node(tmp_path / "a", ONE, leader=1)
    node(tmp_path / "copy", None, leader=1)
    assert replicas(tmp_path) == [("1", ONE), ("copy", None)]
    node(tmp_path / "b", OTHER, leader=2)
    assert replicas(tmp_path, cluster=ONE) == [("1", ONE), ("copy", None)]
    assert replicas(tmp_path, cluster=OTHER) == [("1", OTHER)]


def test_logs_that_begin_differently_are_of_two_clusters_without_an_id_too(tmp_path: Path) -> None:
    node(tmp_path / "a", None, leader=1)
    node(tmp_path / "b", None, leader=2)
    with pytest.raises(InvalidInput, match="the logs of 2 clusters") as error:
        handmade_logs.rows(tmp_path, "batches")
    assert f"a cluster without an id ({tmp_path}/b/__cluster_metadata-0)" in str(error.value)


def test_a_damaged_beginning_proves_no_other_cluster(tmp_path: Path) -> None:
    node(tmp_path / "a", ONE, leader=1)
    node(tmp_path / "damaged", None, leader=1)
    segment = next((tmp_path / "damaged").rglob("*.log"))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(bytes(content))
    assert replicas(tmp_path) == [("1", ONE), ("damaged", None)]


def test_a_log_that_may_be_of_either_is_left_out_and_told(tmp_path: Path) -> None:
    """It begins later than the others, so that nothing in it can be compared with their begin."""
    node(tmp_path / "a", ONE, leader=1)
    node(tmp_path / "b", OTHER, leader=2)
    late = node(tmp_path / "late", None, leader=3, base=40)
    assert replicas(tmp_path, cluster=ONE) == [("1", ONE)]
    (problem,) = handmade_logs.rows(tmp_path, "problems", cluster=ONE)
    assert (problem["kind"], problem["path"]) == ("cluster", f"{late}/__cluster_metadata-0")
    assert problem["reason"].startswith(f"nothing says whether it is of the cluster {ONE}")


@pytest.mark.parametrize("named", [None, ONE])
def test_where_one_cluster_is_known_a_log_is_assumed_to_be_of_it_and_that_is_told(
    tmp_path: Path, named: str | None
) -> None:
    node(tmp_path / "a", ONE, leader=1)
    late = node(tmp_path / "late", None, leader=3, base=40)
    chosen = {} if named is None else {"cluster": named}
    assert replicas(tmp_path, **chosen) == [("1", ONE), ("late", None)]
    told = handmade_logs.rows(tmp_path, "problems", **chosen)
    (problem,) = (row for row in told if row["kind"] == "assumed_cluster")
    assert (problem["replica"], problem["path"]) == ("late", f"{late}/__cluster_metadata-0")
    assert problem["reason"].startswith(f"nothing says whether it is of the cluster {ONE}")
    # It changes no exit code.
    assert "assumed_cluster" in HARMLESS
