"""Reading checkpoints: those of a real cluster, and the errors in damaged ones."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import checkpoint_id, read_checkpoint
from quorum.log.errors import FileDamaged, FormatUnknown
from quorum.records.batch import CorruptBatch, headers
from quorum.records.control import (
    ControlType,
    control_key,
    encode_snapshot_footer,
    encode_snapshot_header,
)
from quorum.records.encode import encode, stamp
from tests.support.real_cluster import CLUSTER, IN_TREE, available, dump_beside, dumped

SNAPSHOT = IN_TREE / "00000000000000000105-0000000001.checkpoint"
SHARED = [
    (1, "00000000000000000503-0000000003", {2, 3, 4}),
    (3, "00000000000000000493-0000000003", {1, 2, 3}),
    (4, "00000000000000000494-0000000003", {1, 2, 3, 4}),
    (2, "00000000000000000000-0000000000", {1, 2, 3}),
]


def id_(epoch: int, offset: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(epoch), Offset(offset))


def test_the_name_of_a_checkpoint_says_where_it_ends() -> None:
    assert checkpoint_id(SNAPSHOT.name) == id_(1, 105)
    for other in (
        f"{SNAPSHOT.name}.deleted",
        f"{SNAPSHOT.name}.part",
        "105-1.checkpoint",
        "00000000000000000105.log",
        "leader-epoch-checkpoint",
    ):
        assert checkpoint_id(other) is None


def test_a_checkpoint_of_kafka_is_read() -> None:
    checkpoint = read_checkpoint(SNAPSHOT)
    assert checkpoint.id == id_(1, 105)
    assert checkpoint.kraft_version == 1
    assert checkpoint.voters is not None
    assert [voter.id for voter in checkpoint.voters.current] == [1, 2, 3]
    assert [each.port for voter in checkpoint.voters.current for each in voter.endpoints] == [
        *(19001, 19002, 19003)
    ]
    assert len(list(checkpoint.records())) > 20
    assert list(checkpoint.records()) == list(checkpoint.records())


@pytest.mark.parametrize(("node", "name", "voters"), SHARED)
def test_checkpoints_of_every_controller_are_read(node: int, name: str, voters: set[int]) -> None:
    path = available(CLUSTER / f"controller-{node}" / "__cluster_metadata-0" / f"{name}.checkpoint")
    checkpoint = read_checkpoint(path)
    assert checkpoint.voters is not None
    assert {voter.id for voter in checkpoint.voters.current} == voters
    told = list(dumped(dump_beside(path)))
    assert len(list(checkpoint.records())) == sum(each.type.isupper() for each in told)
    assert checkpoint.last_timestamp_ms == told[0].data["lastContainedLogTimestamp"]


def a_checkpoint(folder: Path, *batches: bytearray, epoch: int = 3, offset: int = 40) -> Path:
    """A checkpoint file of these batches, each stamped behind the one before."""
    path = folder / f"{offset:020}-{epoch:010}.checkpoint"
    base, data = 0, b""
    for batch in batches:
        stamp(batch, Offset(base), Epoch(epoch))
        ((_, header),) = headers(batch)
        base, data = header.end_offset, data + bytes(batch)
    path.write_bytes(data)
    return path


def control(*records: tuple[ControlType, bytes]) -> bytearray:
    values, keys = [value for _, value in records], [control_key(type_) for type_, _ in records]
    return encode(values, timestamp_ms=1, control_keys=keys)


def header() -> bytearray:
    return control((ControlType.SNAPSHOT_HEADER, encode_snapshot_header(77)))


def footer() -> bytearray:
    """As Kafka writes it, without a checksum."""
    return control((ControlType.SNAPSHOT_FOOTER, bytes(3)))


def data(*values: bytes) -> bytearray:
    return encode(list(values), timestamp_ms=1)


def test_a_checkpoint_needs_no_voters(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(a_checkpoint(tmp_path, header(), data(b"a", b"b"), footer()))
    assert (checkpoint.voters, checkpoint.kraft_version) == (None, 0)
    assert checkpoint.last_timestamp_ms == 77
    assert list(checkpoint.records()) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        ([], "it is empty"),
        ([header(), data(b"a")], "it has no footer, so it was never finished"),
        ([data(b"a"), footer()], "damaged at byte 0: its records precede the header"),
        ([header(), footer(), data(b"a")], "it follows the footer"),
        ([header(), header(), footer()], "a snapshot header comes first, and only there"),
        ([footer()], "a snapshot header comes first, and only there"),
        (
            [header(), control((ControlType.LEADER_CHANGE, b"")), footer()],
            "a leader change record does not belong here",
        ),
        (
            [control((ControlType.SNAPSHOT_HEADER, b"\x00")), footer()],
            "not a snapshot header record",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(
    batches: Sequence[bytearray], reason: str, tmp_path: Path
) -> None:
    path = a_checkpoint(tmp_path, *map(bytearray, batches))
    with pytest.raises(FileDamaged) as caught:
        read_checkpoint(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)


def no_record() -> bytearray:
    """A batch with a sound checksum, whose one record is none."""
    batch = data(b"a")
    batch[-1] = 2  # Headers, which would follow.
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def test_records_for_which_nobody_vouches_are_all_looked_at(tmp_path: Path) -> None:
    path = a_checkpoint(tmp_path, header(), data(b"a"), no_record(), footer())
    with pytest.raises(FileDamaged, match=r"damaged at byte \d+: record 0 of 1"):
        read_checkpoint(path)


def test_records_that_their_writer_vouches_for_are_looked_at_when_they_are_read(
    tmp_path: Path,
) -> None:
    """Ours does, in the footer; it has written them as they are read."""
    path = a_checkpoint(tmp_path, header(), no_record())
    checksum = encode_snapshot_footer(crc32c(path.read_bytes()))
    whole = control((ControlType.SNAPSHOT_FOOTER, checksum))
    checkpoint = read_checkpoint(a_checkpoint(tmp_path, header(), no_record(), whole))
    assert checkpoint.has_checksum
    with pytest.raises(CorruptBatch, match="record 0 of 1"):
        list(checkpoint.records())


@pytest.mark.parametrize(
    ("batches", "what"),
    [
        (
            [control((ControlType.SNAPSHOT_HEADER, b"\x00\x02" + bytes(9))), footer()],
            "a snapshot header record of version 2, known is 0",
        ),
        (
            [header(), control((ControlType.KRAFT_VERSION, b"\x00\x01\x00\x01\x00")), footer()],
            "a kraft version record of version 1, known is 0",
        ),
        (
            [header(), control((ControlType.SNAPSHOT_FOOTER, b"\x00\x01\x00"))],
            "a snapshot footer record of version 1, known is 0",
        ),
    ],
)
def test_a_newer_checkpoint_is_refused_by_name_and_is_not_called_damaged(
    batches: Sequence[bytearray], what: str, tmp_path: Path
) -> None:
    path = a_checkpoint(tmp_path, *map(bytearray, batches))
    with pytest.raises(FormatUnknown, match=f"{path}: {what}. Nothing has been changed. Start"):
        read_checkpoint(path)


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    """But for the length of a batch and its magic, which are found by other checks."""
    whole = SNAPSHOT.read_bytes()
    for position in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path = tmp_path / SNAPSHOT.name
        path.write_bytes(damaged)
        with pytest.raises(FileDamaged, match=r"damaged at byte \d+|no footer"):
            read_checkpoint(path)


def test_a_checkpoint_is_of_the_epoch_in_its_name(tmp_path: Path) -> None:
    other = tmp_path / SNAPSHOT.name.replace("-0000000001", "-0000000002")
    shutil.copy(SNAPSHOT, other)
    with pytest.raises(FileDamaged, match="its epoch is 1, that of the checkpoint 2"):
        read_checkpoint(other)
