"""Files of this machine and of an object store: one contract, and sentences about what is wrong."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source import files
from lag.source.files import BLOCK_BYTES, files_of, join, name_of, opened, parent_of, read_up_to
from tests.support.s3_server import CREDENTIALS, HOST, NEEDS_MOTO, S3Server, free_port

STORE = pytest.param("s3", marks=[pytest.mark.process, NEEDS_MOTO])
HDFS = os.environ.get("METAQUORUM_TEST_HDFS")
OF_HADOOP = pytest.param(
    "hdfs",
    marks=pytest.mark.skipif(
        HDFS is None, reason="METAQUORUM_TEST_HDFS names no HDFS, such as hdfs://127.0.0.1:8020"
    ),
)

Write = Callable[[str, bytes], str]
"""Writes a file of this name, and returns its path."""


@pytest.fixture(params=["local", STORE, OF_HADOOP])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path of a folder that does not exist yet."""
    if request.param == "local":
        return str(tmp_path / "logs")
    if request.param == "hdfs":
        return f"{HDFS}{tmp_path}/logs"
    server: S3Server = request.getfixturevalue("server")
    bucket = f"b{abs(hash(str(tmp_path)))}"
    server.make_bucket(bucket)
    return f"s3://{bucket}/logs"


@pytest.fixture
def write(request: pytest.FixtureRequest, folder: str) -> Write:
    def write_local(name: str, content: bytes) -> str:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def write_hdfs(name: str, content: bytes) -> str:
        from pyarrow.fs import FileSystem

        path = f"{folder}/{name}"
        at, inside = FileSystem.from_uri(path)
        with at.open_output_stream(inside) as stream:
            stream.write(content)
        return path

    def put(name: str, content: bytes) -> str:
        server: S3Server = request.getfixturevalue("server")
        server.put(f"{folder.removeprefix('s3://')}/{name}", content)
        return f"{folder}/{name}"

    writers = {"local": write_local, "s3": put, "hdfs": write_hdfs}
    return writers[request.node.callspec.params["folder"]]


def test_what_is_in_a_folder_is_told_by_name(folder: str, write: Write) -> None:
    path = write("b.log", b"12345")
    write("a/deep.log", b"1")
    at = files_of(folder)
    found = at.entries(folder)
    assert [(each.name, each.is_folder()) for each in found] == [("a", True), ("b.log", False)]
    assert found[1].size_bytes() == at.size(path) == 5
    assert (at.is_folder(folder), at.exists(folder)) == (True, True)
    assert (at.is_folder(path), at.exists(path)) == (False, True)


def test_what_is_not_there_is_not_found(folder: str, write: Write) -> None:
    write("a/deep.log", b"1")
    at, path = files_of(folder), join(folder, "nothing.log")
    assert (at.is_folder(path), at.exists(path)) == (False, False)
    for call in (at.entries, at.size, at.open):
        with pytest.raises(FileNotFoundError):
            call(path)
    assert files.size_or_0(path) == 0


def test_any_part_of_a_file_is_read(folder: str, write: Write) -> None:
    content = bytes(range(256)) * (3 * BLOCK_BYTES // 256) + b"end"
    with opened(write("x.log", content)) as file:
        assert file.size() == len(content)
        for position, size in (
            (0, 61),
            (BLOCK_BYTES - 5, 10),
            (BLOCK_BYTES - 5, 10),
            (7, 2 * BLOCK_BYTES),
            (len(content) - 3, 100),
            (len(content) - BLOCK_BYTES, 2 * BLOCK_BYTES),
            (len(content), 10),
            (len(content) + 10, 2 * BLOCK_BYTES),
        ):
            assert read_up_to(file, size, position) == content[position : position + size]


def test_a_file_that_is_replaced_by_a_longer_one_has_grown(folder: str, write: Write) -> None:
    """As a log in a store that is copied again and again."""
    path = write("x.log", b"begin")
    with opened(path) as file:
        assert read_up_to(file, 10, 0) == b"begin"
        write("x.log", b"begin and end")
        assert file.size() == 13
        assert read_up_to(file, 20, 0) == b"begin and end"
    assert files.read_file(path) == b"begin and end"


@pytest.mark.parametrize("root", ["/data", "s3://bucket/data", "hdfs://name:8020/data"])
def test_paths_are_put_together_and_taken_apart(root: str) -> None:
    path = join(join(root, "node"), "x.log")
    assert path == f"{root}/node/x.log"
    assert (name_of(path), parent_of(path)) == ("x.log", f"{root}/node")
    assert parent_of("s3://bucket") == "s3://bucket"


@pytest.mark.process
@NEEDS_MOTO
def test_a_store_that_refuses_is_told_with_what_would_be_right(server: S3Server) -> None:
    server.make_bucket("refused")
    at = files_of("s3://refused")
    with server.strict():
        for call in (at.exists, at.entries, at.open):
            with pytest.raises(OSError, match="the store refuses the credentials") as error:
                call("s3://refused/logs")
            assert error.value.filename == "s3://refused/logs"
            assert str(error.value.strerror).endswith("bucket, on every machine that reads")
            assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those" in str(error.value)


@pytest.mark.process
@NEEDS_MOTO
def test_a_bucket_that_is_not_there_is_named(server: S3Server) -> None:
    with pytest.raises(OSError, match="there is no bucket nowhere: write s3://bucket/folder"):
        files_of("s3://nowhere").entries("s3://nowhere/logs")


@pytest.mark.thorough
def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow gives up after six seconds."""
    address = f"http://{HOST}:{free_port()}"
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OSError, match="the store does not answer") as error:
        files_of("s3://silent").exists("s3://silent/logs")
    assert "set AWS_ENDPOINT_URL to its address" in str(error.value)


def test_hdfs_without_its_libraries_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OSError, match="HDFS does not serve it") as error:
        files_of("hdfs://nobody:1/logs")
    assert "HADOOP_HOME, JAVA_HOME and CLASSPATH" in str(error.value)


def test_without_pyarrow_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(OSError, match=r"need pyarrow, which is not installed: .* pip install 'pya"):
        files_of("s3://without-pyarrow/logs")
