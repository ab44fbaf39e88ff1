import random
import re
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, uuid_from_text, uuid_to_text
from quorum.log.errors import FileDamaged, FolderForeign, FolderUnusable, FormatUnknown
from quorum.log.meta_properties import (
    FILE_NAME,
    MetaProperties,
    is_reserved,
    load_or_create,
    look,
    new_directory_id,
)

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY = "k5C0uO1nQ8yJqQm8XH2mBg"
KAFKAS = f"""#
#Sat Nov 21 04:48:54 UTC 2026
node.id=2
directory.id={DIRECTORY}
version=1
cluster.id={CLUSTER}
"""
TWO = ReplicaId(2)


def load(folder: Path, cluster_id: str | None = CLUSTER, node: ReplicaId = TWO) -> MetaProperties:
    return load_or_create(folder, cluster_id, node, rng=random.Random(7))


def test_a_folder_that_kafka_formatted_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(KAFKAS)
    assert (
        load(tmp_path)
        == load(tmp_path, None)
        == MetaProperties(node_id=TWO, directory_id=uuid_from_text(DIRECTORY), cluster_id=CLUSTER)
    )
    assert path.read_text() == KAFKAS


def test_a_new_folder_becomes_this_nodes_with_a_directory_id_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "node-2"
    meta = load(folder)
    assert (meta.node_id, meta.cluster_id) == (2, CLUSTER)
    assert meta.directory_id.version == 4
    assert load(folder) == meta
    assert (folder / "meta.properties").read_text() == (
        f"version=1\ncluster.id={CLUSTER}\nnode.id=2\n"
        f"directory.id={uuid_to_text(meta.directory_id)}\n"
    )


def test_a_cluster_that_is_learned_later_is_added_and_then_kept(tmp_path: Path) -> None:
    unknown = load(tmp_path, None)
    assert unknown.cluster_id is None
    known = load(tmp_path, CLUSTER)
    assert (known.cluster_id, known.directory_id) == (CLUSTER, unknown.directory_id)
    assert load(tmp_path, None) == known


def test_a_directory_id_that_an_old_kafka_did_not_write_is_added(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(KAFKAS.replace(f"directory.id={DIRECTORY}\n", "some.thing=a\\:b\\u00e9\n"))
    meta = load(tmp_path)
    assert meta.others == (("some.thing", "a:bé"),)
    assert load(tmp_path) == meta
    assert "some.thing=a\\:b\\u00e9\n" in path.read_text()


def test_the_folder_of_another_node_is_refused_and_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(KAFKAS)
    with pytest.raises(
        FolderForeign,
        match=r"meta.properties: this folder belongs to node 2, but this is node 3\. "
        "Correct the configuration, or give this node an empty folder",
    ):
        load(tmp_path, node=ReplicaId(3))


def test_the_folder_of_another_cluster_is_refused_and_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(KAFKAS)
    with pytest.raises(FolderForeign, match=rf"cluster {CLUSTER}, but this node is of cluster x"):
        load(tmp_path, "x")


@pytest.mark.parametrize("version", ["0", "2", "one"])
def test_another_version_is_refused_by_name_and_left_alone(tmp_path: Path, version: str) -> None:
    path = tmp_path / "meta.properties"
    content = KAFKAS.replace("version=1", f"version={version}")
    path.write_text(content)
    with pytest.raises(FormatUnknown, match=f"{path}: version {version}, only version 1 is known"):
        load(tmp_path)
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no version, only version 1 is known"),
        (KAFKAS.replace("node.id=2", "broker.id=2"), "no node.id"),
        (KAFKAS.replace("node.id=2", "node.id=two"), "node.id is 'two', expected a number"),
        (KAFKAS.replace("node.id=2", "node.id=-1"), "node.id is '-1', expected a number"),
        (KAFKAS.replace(DIRECTORY, "short"), "directory.id: 'short' has 5 characters"),
        (KAFKAS.replace(DIRECTORY, "A" * 21 + "*"), "is not base64url"),
        (KAFKAS.replace(DIRECTORY, "A" * 22), "is a reserved one"),
        (KAFKAS + "rubbish\n", "line 7 is not of the form key=value"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason_and_left_alone(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(content)
    with pytest.raises(FileDamaged, match=re.escape(reason)) as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)
    assert path.read_text() == content


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(FolderUnusable, match=r"data: File exists"):
        load(tmp_path / "data")
    with pytest.raises(FolderUnusable, match=r"Not a directory"):
        load(tmp_path / "data" / "node-2")
    with pytest.raises(FolderUnusable, match=r"nowhere.*: No such file or directory"):
        load(tmp_path / "nowhere" / "node-2")


@given(st.uuids())
def test_a_uuid_and_its_text_are_the_same(uuid: UUID) -> None:
    assert uuid_from_text(uuid_to_text(uuid)) == uuid
    assert len(uuid_to_text(uuid)) == 22


def test_the_text_of_a_uuid_is_kafkas() -> None:
    assert uuid_to_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(UUID("939" + "0b4b8ed6743cc89a909bc5c7da606")) == DIRECTORY


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "é"])
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match=r"characters|base64url"):
        uuid_from_text(text)


@given(st.integers(0, 2**64 - 1))
def test_ids_are_reserved_where_the_upper_half_is_0_and_the_lower_below_100(lower: int) -> None:
    assert is_reserved(UUID(int=lower)) == (lower < 100 or lower >= 2**63)
    assert not is_reserved(UUID(int=lower | 1 << 64))


def test_new_directory_ids_differ_and_look_like_no_option() -> None:
    rng = random.Random(1)
    ids = [new_directory_id(rng) for _ in range(500)]
    assert len(set(ids)) == 500
    assert not any(uuid_to_text(each).startswith("-") for each in ids)


def test_looking_at_a_folder_writes_nothing(tmp_path: Path) -> None:
    assert look(tmp_path) is None
    assert not list(tmp_path.iterdir())
    made = load(tmp_path)
    # The time of access is none of it: to read a file changes that.
    before = (tmp_path / FILE_NAME).stat()
    assert look(tmp_path) == made
    after = (tmp_path / FILE_NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (after.st_ctime_ns, after.st_size) == (before.st_ctime_ns, before.st_size)


def test_looking_takes_what_names_no_directory_where_none_is_needed(tmp_path: Path) -> None:
    """As Kafka wrote it before 3.7."""
    (tmp_path / FILE_NAME).write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n")
    with pytest.raises(FileDamaged, match=r"it has no directory\.id"):
        look(tmp_path)
    found = look(tmp_path, needs_directory=False)
    assert found == MetaProperties(
        node_id=ReplicaId(1), directory_id=NO_DIRECTORY, cluster_id=CLUSTER
    )
