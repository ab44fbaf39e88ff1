"""Reading a log in strides gives all records once, in order, up to the right end."""

from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import Epoch, Offset
from quorum.metadata_loader import STRIDE_BYTES, RecordRun, next_records
from quorum.records.batch import outlines
from quorum.records.decode import decode
from quorum.records.encode import ClientRecord, encode, encode_client, stamp
from tests.support.memory_storage import MemoryLog


class Log(MemoryLog):
    """A log all of which is committed."""

    def put(self, batch: bytearray) -> None:
        stamp(batch, self.end.offset, Epoch(1))
        self.append(batch)

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        return self.read(start, self.end.offset, max_bytes)

    def said(self) -> list[tuple[int, bytes | None, bool]]:
        """Offset and value of each record, and whether it is a control record."""
        found = decode(self.read(self.start, self.end.offset, 1 << 30))
        return [(each.offset, each.value, each.control) for each in found]


def told(runs: list[RecordRun]) -> list[tuple[int, bytes | None, bool]]:
    found: list[tuple[int, bytes | None, bool]] = []
    for run in runs:
        assert bool(run.values) != bool(run.control)
        assert run.end == run.offset + len(run.values) + len(run.control)
        found += [(offset, value, False) for offset, value in enumerate(run.values, run.offset)]
        found += [(each.offset, each.value, True) for each in run.control]
    return found


PLAIN = st.lists(st.binary(max_size=9), min_size=1, max_size=30).map(
    lambda values: encode(values, timestamp_ms=5)
)
CONTROL = st.binary(min_size=1, max_size=9).map(
    lambda key: encode([b"c"], timestamp_ms=5, control_keys=[key])
)
FOREIGN = st.lists(st.binary(max_size=9), min_size=1, max_size=5).map(
    lambda values: encode_client([ClientRecord(5, b"key", each, []) for each in values])
)


@given(
    batches=st.lists(st.one_of(PLAIN, CONTROL, FOREIGN), min_size=1, max_size=12),
    start=st.integers(0, 50),
    records_max=st.one_of(st.none(), st.integers(1, 40)),
)
def test_all_records_are_told_once_and_in_order(
    batches: list[bytearray], start: int, records_max: int | None
) -> None:
    log = Log()
    for batch in batches:
        log.put(batch)
    at = Offset(min(start, log.end.offset - 1))
    expected = [each for each in log.said() if each[0] >= at]
    runs: list[RecordRun] = []
    while at < log.end.offset:
        found = list(next_records(log, at, records_max=records_max))
        count = len(told(found))
        assert 0 < count <= (records_max or count)
        runs += found
        at = Offset(found[-1].end)
    assert told(runs) == expected


def test_a_stride_is_bounded_and_ends_where_a_batch_does() -> None:
    log = Log()
    for _ in range(20):
        log.put(encode([b"x" * 100] * 500, timestamp_ms=5))
    ends = {each.end for each in outlines(log.read(log.start, log.end.offset, 1 << 30))}
    at, count = log.start, 0
    while at < log.end.offset:
        (run,) = next_records(log, at)
        assert sum(map(len, run.values)) <= STRIDE_BYTES
        assert run.end in ends
        at, count = Offset(run.end), count + 1
    assert count == 5


def test_a_batch_that_is_larger_than_a_stride_is_one() -> None:
    log = Log()
    log.put(encode([b"x" * 1_000] * 2 * (STRIDE_BYTES // 1_000), timestamp_ms=5))
    (run,) = next_records(log, log.start)
    assert run.end == log.end.offset
