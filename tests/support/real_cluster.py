"""The files of a real Kafka 4.2.0 cluster, and the output of Kafka's dump tool for them.

One log is in the tree; the files of all controllers lie beside the tree, or where
METAQUORUM_TESTDATA says.
"""

import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support import tree

IN_TREE: Final = tree.ROOT / "tests" / "data" / "kraft-4.2.0"
TESTDATA: Final = Path(
    os.environ.get("METAQUORUM_TESTDATA", tree.ROOT.parent / "shared" / "testdata")
)
CLUSTER: Final = TESTDATA / "kraft-4.2.0"
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
METADATA: Final = "__cluster_metadata-0"

_BATCH: Final = re.compile(r"baseOffset: .* partitionLeaderEpoch: (\d+) ")
_RECORD: Final = re.compile(
    r"\| offset: (\d+) CreateTime: (\d+) keySize: .* headerKeys: \[\] (\w+):? (.*)"
)

NOT_DECODED: Final = -1
"""In place of a version: tools before 4.0 print of most control records the type alone."""


class Dumped(NamedTuple):
    """One record as Kafka's tool prints it."""

    offset: int
    epoch: int
    timestamp_ms: int
    type: str
    version: int
    data: dict[str, Any]


def controller(node_id: int) -> Path:
    """The folder of one controller; the test is skipped where it is absent."""
    return available(CLUSTER / f"controller-{node_id}")


def available(path: Path) -> Path:
    """The path, if it is there; else the test is skipped, with the reason."""
    if not path.exists():
        pytest.skip(f"{path} is absent; METAQUORUM_TESTDATA names the folder of the test data")
    return path


def dump_beside(path: Path) -> str:
    """The output of Kafka's tool for a file; it lies beside it, plain or packed."""
    plain, packed = (path.with_name(f"{path.name}.dump.txt{end}") for end in ("", ".gz"))
    if plain.exists():
        return plain.read_text()
    return gzip.decompress(available(packed).read_bytes()).decode()


def dumped(text: str) -> Iterator[Dumped]:
    """The records that Kafka's tool printed."""
    epoch = -1
    for line in text.splitlines():
        batch = _BATCH.match(line)
        if batch is not None:
            epoch = int(batch[1])
        record = _RECORD.match(line)
        if record is None:
            assert not line.startswith("|"), line
            continue
        name, shown = record[3], record[4]
        if name == "controlType":
            data, version = {}, NOT_DECODED
        else:
            data = json.loads(shown)
            version = data["version"]
        if name == "payload":
            name, data = data["type"], data["data"]
        yield Dumped(int(record[1]), epoch, int(record[2]), name, version, data)
