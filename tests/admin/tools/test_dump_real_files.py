"""Our reader of metadata logs against the files of a real cluster and Kafka's own dump of each."""

import json
from pathlib import Path

import pytest

from admin.tools.dump import Entry, entries
from tests.support.real_cluster import CLUSTER, IN_TREE, Dumped, available, dump_beside, dumped

FILES = [
    IN_TREE / "00000000000000000000.log",
    *(
        CLUSTER / f"controller-{node}" / "__cluster_metadata-0" / name
        for node, names in {
            1: (
                "00000000000000000000.log",
                "00000000000000000000-0000000000.checkpoint",
                "00000000000000000105-0000000001.checkpoint",
                "00000000000000000261-0000000003.checkpoint",
                "00000000000000000388-0000000003.checkpoint",
                "00000000000000000503-0000000003.checkpoint",
            ),
            2: (
                "00000000000000000000.log",
                "00000000000000000000-0000000000.checkpoint",
                "00000000000000000105-0000000001.checkpoint",
                "00000000000000000232-0000000003.checkpoint",
                "00000000000000000359-0000000003.checkpoint",
                "00000000000000000479-0000000003.checkpoint",
            ),
            3: (
                "00000000000000000000.log",
                "00000000000000000000-0000000000.checkpoint",
                "00000000000000000121-0000000001.checkpoint",
                "00000000000000000246-0000000003.checkpoint",
                "00000000000000000373-0000000003.checkpoint",
                "00000000000000000493-0000000003.checkpoint",
            ),
            4: (
                "00000000000000000373.log",
                "00000000000000000373-0000000003.checkpoint",
                "00000000000000000494-0000000003.checkpoint",
            ),
        }.items()
        for name in names
    ),
]


def as_dumped(entry: Entry) -> Dumped:
    """An entry, through the JSON that we print, in the words of the test."""
    assert entry.problem is None
    shown = json.loads(entry.as_json(Path("file")))
    assert "extra" not in shown
    assert shown["version"] is not None
    return Dumped(
        shown["offset"],
        shown["epoch"],
        shown["timestampMs"],
        shown["type"],
        shown["version"],
        shown["data"],
    )


def test_every_file_of_the_shared_cluster_is_listed_here() -> None:
    found = [
        path
        for path in available(CLUSTER).glob("*/__cluster_metadata-0/*")
        if path.suffix in (".log", ".checkpoint") and path.parents[1].name != "broker-104"
    ]
    assert sorted(found) == sorted(path for path in FILES if CLUSTER in path.parents)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_every_record_is_told_as_kafka_tells_it(path: Path) -> None:
    wanted = list(dumped(dump_beside(available(path))))
    assert len(wanted) > 3
    assert [as_dumped(entry) for entry in entries(path)] == wanted


def test_the_log_of_a_broker_is_read_like_that_of_a_controller() -> None:
    """It has no dump beside it; what was committed is the same as in the log of controller 3."""
    broker = available(CLUSTER / "broker-104" / "__cluster_metadata-0" / "00000000000000000000.log")
    leader = available(CLUSTER / "controller-3" / "__cluster_metadata-0") / broker.name
    copied = list(entries(broker))
    assert len(copied) > 500
    assert copied == list(entries(leader))[: len(copied)]
