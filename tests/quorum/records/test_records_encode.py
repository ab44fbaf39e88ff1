from hypothesis import example, given
from hypothesis import strategies as st

from quorum.core.limits import BATCH_RECORDS_MAX
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.batch import check, header_at
from quorum.records.decode import Record, decode
from quorum.records.encode import ClientRecord, encode, encode_client, stamp
from tests.quorum.records.kio_batches import read_by_kio, written_by_kio

SECOND_MS = 1_795_236_537_000

values = st.binary(max_size=200) | st.sampled_from([bytes(1023), bytes(1024), bytes(5000)])
seconds_ms = st.integers(0, 2**31).map(lambda seconds: seconds * 1000)
optional = st.none() | st.binary(max_size=80)
client_records = st.builds(
    ClientRecord,
    seconds_ms,
    optional,
    optional,
    st.lists(st.tuples(st.text(max_size=8), optional), max_size=3),
)


@given(
    st.lists(values, min_size=1, max_size=100),
    st.integers(0, 2**40).map(Offset),
    st.integers(0, 2**31 - 1).map(Epoch),
)
@example([b"x"] * 64, Offset(0), Epoch(1))
@example([b"x"] * 65, Offset(0), Epoch(1))
@example([b"x" * 100] * 8193, Offset(7), Epoch(1))
@example([b"x"] * (BATCH_RECORDS_MAX + 1), Offset(7), Epoch(1))
@example([b"x"] * 70 + [bytes(1024)], Offset(7), Epoch(1))
def test_a_plain_batch_is_byte_for_byte_what_kio_writes(
    contents: list[bytes], base: Offset, epoch: Epoch
) -> None:
    ours = encode(contents, timestamp_ms=SECOND_MS, base_offset=base, epoch=epoch)
    records = [ClientRecord(SECOND_MS, None, value) for value in contents]
    assert ours == written_by_kio(records, base_offset=base, partition_leader_epoch=epoch)


@given(st.lists(st.tuples(st.binary(max_size=9), values), min_size=1, max_size=5))
def test_a_control_batch_is_byte_for_byte_what_kio_writes(pairs: list[tuple[bytes, bytes]]) -> None:
    keys, contents = [key for key, _ in pairs], [value for _, value in pairs]
    ours = encode(contents, timestamp_ms=SECOND_MS, control_keys=keys)
    records = [ClientRecord(SECOND_MS, key, value) for key, value in pairs]
    assert ours == written_by_kio(records, attributes=0x20)
    assert header_at(ours).is_control


@given(
    st.lists(client_records, min_size=1, max_size=20),
    st.integers(-1, 2**62),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
)
def test_a_client_batch_is_byte_for_byte_what_kio_writes(
    records: list[ClientRecord], producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    producer = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
    }
    ours = encode_client(records, **producer)
    assert ours == written_by_kio(records, partition_leader_epoch=-1, **producer)


@given(st.lists(client_records, min_size=1, max_size=20), st.integers(-999, 999))
def test_client_timestamps_survive_to_the_millisecond(
    records: list[ClientRecord], shift_ms: int
) -> None:
    records = [
        r._replace(timestamp_ms=r.timestamp_ms + shift_ms * i) for i, r in enumerate(records)
    ]
    assert list(decode(encode_client(records))) == [
        Record(offset, r.timestamp_ms, r.key, r.value, tuple(r.headers), False)
        for offset, r in enumerate(records)
    ]


@given(
    st.lists(values, min_size=1, max_size=100),
    st.integers(0, 2**62).map(Offset),
    st.integers(0, 2**31 - 1).map(Epoch),
)
def test_stamping_leaves_the_checksum_right(
    contents: list[bytes], base: Offset, epoch: Epoch
) -> None:
    batch = encode(contents, timestamp_ms=SECOND_MS + 164)
    crc = header_at(batch).crc
    stamp(batch, base, epoch)
    (outline,) = check(batch, base)
    assert (outline.base, outline.end, outline.epoch) == (base, base + len(contents), epoch)
    assert header_at(batch).crc == crc
    assert batch == encode(contents, timestamp_ms=SECOND_MS + 164, base_offset=base, epoch=epoch)


def test_kio_reads_what_was_stamped() -> None:
    batch = encode([b"a", b"b"], timestamp_ms=SECOND_MS)
    stamp(batch, Offset(70_000), Epoch(9))
    read = read_by_kio(batch)
    assert read.partition_leader_epoch == 9
    assert [(record.offset, record.value) for record in read.records] == [
        (70_000, b"a"),
        (70_001, b"b"),
    ]
