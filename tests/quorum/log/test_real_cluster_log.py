"""The log of a real Apache Kafka 4.2.0 cluster, read as our own and compared with Kafka's dump of
it, batch by batch and record by record."""

import gzip
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from quorum.core.vocabulary import ReplicaId, uuid_from_text
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.records.batch import Header, check, headers
from quorum.records.control import ControlType, LeaderChange, control_type
from quorum.records.decode import Record, decode
from tests.quorum.log.damaged_folders import everything
from tests.support import tree

IN_TREE: Final = tree.ROOT / "tests" / "data" / "kraft-4.2.0"
TESTDATA: Final = Path(
    os.environ.get("METAQUORUM_TESTDATA", tree.ROOT.parent / "shared" / "testdata")
)
CLUSTER: Final = TESTDATA / "kraft-4.2.0"
LOGS: Final = [
    IN_TREE / "00000000000000000000.log",
    *(
        CLUSTER / f"controller-{node}" / "__cluster_metadata-0" / f"{base:020}.log"
        for node, base in [(1, 0), (2, 0), (3, 0), (4, 373)]
    ),
]

BATCH: Final = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* partitionLeaderEpoch: (\d+) .* "
    r"isControl: (\w+) .* position: (\d+) CreateTime: (\d+) size: (\d+) magic: 2 .* crc: (\d+) "
    r"isvalid: true"
)
RECORD: Final = re.compile(
    r"\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -1 "
    r"headerKeys: \[\] (.*)"
)


@dataclass(frozen=True)
class Dump:
    """The output of Kafka's tool, in our terms."""

    batches: list[tuple[object, ...]]
    records: list[tuple[int, int, int, int]]
    texts: list[str]


def available(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path} is absent; METAQUORUM_TESTDATA names the folder of the test data")
    return path


def dump_of(log: Path) -> Dump:
    plain, packed = (log.with_name(f"{log.name}.dump.txt{suffix}") for suffix in ("", ".gz"))
    text = plain.read_text() if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    batches = [
        (*map(int, (b[1], b[2], b[3], b[4])), b[5] == "true", *map(int, (b[6], b[7], b[8], b[9])))
        for b in BATCH.finditer(text)
    ]
    found = list(RECORD.finditer(text))
    records = [(int(r[1]), int(r[2]), int(r[3]), int(r[4])) for r in found]
    assert len(batches) > 40
    assert len(records) > 100
    return Dump(batches, records, [r[5] for r in found])


def in_dumps_words(position: int, header: Header) -> tuple[object, ...]:
    return (
        header.base_offset,
        header.end_offset - 1,
        header.record_count,
        header.epoch,
        header.is_control,
        position,
        header.max_timestamp_ms,
        header.size_bytes,
        header.crc,
    )


def size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


@pytest.fixture(params=LOGS, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def log_file(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return available(request.param)


@pytest.fixture
def log(log_file: Path, tmp_path: Path) -> Iterator[SegmentedLog]:
    shutil.copy(log_file, tmp_path)
    log = SegmentedLog(tmp_path)
    yield log
    log.close()


def test_every_batch_is_sound_and_what_the_dump_says(log: SegmentedLog, log_file: Path) -> None:
    assert log.cut is None
    data = everything(log)
    assert data == log_file.read_bytes()
    assert log.start == int(log_file.stem)
    check(data, log.start)
    dumped = dump_of(log_file)
    assert [in_dumps_words(*each) for each in headers(data)] == dumped.batches
    assert log.end.offset == dumped.records[-1][0] + 1


def test_every_record_is_what_the_dump_says(log: SegmentedLog, log_file: Path) -> None:
    records = list(decode(everything(log)))
    assert [
        (record.offset, record.timestamp_ms, size(record.key), size(record.value))
        for record in records
    ] == dump_of(log_file).records
    assert not any(record.headers for record in records)


def test_control_records_are_told_by_their_names(log: SegmentedLog, log_file: Path) -> None:
    in_dump = {
        ControlType.LEADER_CHANGE: "LeaderChange:",
        ControlType.KRAFT_VERSION: "KRaftVersion ",
        ControlType.KRAFT_VOTERS: "KRaftVoters ",
    }
    dumped = dump_of(log_file)
    for record, text in zip(decode(everything(log)), dumped.texts, strict=True):
        if record.control:
            assert text.startswith(in_dump[ControlType(control_type(record.key))])
            _check_leader_change(record, text)


def _check_leader_change(record: Record, text: str) -> None:
    if control_type(record.key) != ControlType.LEADER_CHANGE:
        return
    change = LeaderChange.decode(record.value)
    leader, *others = map(int, re.findall(r"[iI]d\":(\d+)", text))
    assert (change.leader, [*change.voters, *change.granting]) == (leader, others)
    assert change.encode() == record.value


def test_epochs_begin_where_kafkas_checkpoint_says(log: SegmentedLog, log_file: Path) -> None:
    checkpoint = available(log_file.with_name("leader-epoch-checkpoint"))
    _, _, *lines = checkpoint.read_text().splitlines()
    assert [f"{epoch} {offset}" for epoch, offset in log.epochs] == lines


@pytest.mark.parametrize(
    ("node", "epoch", "voted_for", "leader"),
    [(1, 3, None, 3), (2, 3, 3, 3), (3, 3, None, 3), (4, 3, None, 3)],
)
def test_the_election_of_each_controller_is_read(
    node: int, epoch: int, voted_for: int | None, leader: int
) -> None:
    folder = available(CLUSTER / f"controller-{node}" / "__cluster_metadata-0")
    election = QuorumStateFile(folder).read()
    voted = None if election.voted_for is None else election.voted_for.id
    assert (election.epoch, voted, election.leader) == (epoch, voted_for, leader)


@pytest.mark.parametrize(
    ("node", "directory"), [(1, "Hb0r3ZQ2T0mW2bIYvQmZ1A"), (2, "k5C0uO1nQ8yJqQm8XH2mBg")]
)
def test_the_identity_of_a_controller_is_read_and_left_as_it_is(
    node: int, directory: str, tmp_path: Path
) -> None:
    import random

    source = available(CLUSTER / f"controller-{node}" / "meta.properties")
    shutil.copy(source, tmp_path)
    meta = load_or_create(tmp_path, None, ReplicaId(node), rng=random.Random(0))
    assert meta.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert meta.directory_id == uuid_from_text(directory)
    assert (tmp_path / "meta.properties").read_bytes() == source.read_bytes()
