"""A log on disk against a list of batches, under random operations."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.records.batch import outlines
from tests.contracts.batches import FIRST_MS, batch, outline
from tests.contracts.log_worlds import begun_at
from tests.support.parameters import at_most_in_quick

NO_LIMIT = 1 << 30


class LogAndList(RuleBasedStateMachine):
    """The list holds the batches; `written` says how many of them a crash cannot take."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.batches: list[bytes] = []
        self.written = 0
        self.epoch = 1

    @initialize(
        start=st.sampled_from([0, 1, 10_000_000_000]),
        segment_bytes_max=st.sampled_from([1, 250, 1_000, NO_LIMIT]),
        tail_bytes_max=st.sampled_from([0, 300, 2_000, NO_LIMIT]),
        synced=st.booleans(),
    )
    def open(self, start: int, segment_bytes_max: int, tail_bytes_max: int, synced: bool) -> None:
        self.start = Offset(start)
        self.segment_bytes_max = segment_bytes_max
        self.tail_bytes_max = tail_bytes_max
        self.synced = synced
        self.log = self.opened()

    def opened(self) -> SegmentedLog:
        log = SegmentedLog(
            self.folder / "log",
            segment_bytes_max=self.segment_bytes_max,
            tail_bytes_max=self.tail_bytes_max,
            synced=self.synced,
            check_all=True,
            lock=False,
        )
        return begun_at(self.start, log)

    def boundaries(self) -> list[int]:
        ends = [each.end for data in self.batches for each in outlines(data)]
        return [self.start, *ends]

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        new_epoch=st.booleans(),
        size=st.sampled_from([0, 20, 200, 5_000]),
        later_ms=st.integers(-50, 50),
    )
    def append(self, counts: list[int], new_epoch: bool, size: int, later_ms: int) -> None:
        self.epoch += new_epoch
        expected = []
        added = []
        base = self.boundaries()[-1]
        for count in counts:
            added.append(
                batch(base, count, epoch=self.epoch, size=size, timestamp_ms=FIRST_MS + later_ms)
            )
            expected.append(outline(base, base + count, self.epoch))
            base += count
        assert list(self.log.append(b"".join(added))) == expected
        self.batches += added

    @rule(sync=st.booleans())
    def commit(self, sync: bool) -> None:
        assert self.log.commit(sync=sync) == self.log.end
        self.written = len(self.batches)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        kept = data.draw(st.integers(0, len(self.batches)))
        self.log.truncate_to(Offset(self.boundaries()[kept]))
        del self.batches[kept:]
        self.written = min(self.written, kept)

    @rule()
    def crash(self) -> None:
        """The process dies: what was written is with the operating system."""
        self.log = self.opened()
        del self.batches[self.written :]
        assert self.log.cut is None

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.log = self.opened()
        self.written = len(self.batches)

    @precondition(lambda self: self.written > 0)
    @rule(data=st.data())
    def lose_the_end_of_the_last_write(self, data: st.DataObject) -> None:
        """The machine dies: some bytes of the newest file never arrived."""
        self.crash()
        file = max((self.folder / "log").glob("*.log"))
        size = file.stat().st_size
        lost = data.draw(st.integers(0, min(size, len(self.batches[-1]))))
        with file.open("r+b") as stream:
            stream.truncate(size - lost)
        self.log = self.opened()
        if lost:
            del self.batches[-1]
            self.written = len(self.batches)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        boundaries = self.boundaries()
        start = data.draw(st.integers(boundaries[0], boundaries[-1]))
        end = data.draw(st.integers(start, boundaries[-1] + 2))
        max_bytes = data.draw(st.sampled_from([0, 100, 500, 6_000, NO_LIMIT]))
        expected = b""
        if start < end:
            for each, base, stop in zip(self.batches, boundaries, boundaries[1:], strict=False):
                if start >= stop:
                    continue
                if stop > end or (expected and len(expected) + len(each) > max_bytes):
                    break
                assert base < stop
                expected += each
        assert self.log.read(Offset(start), Offset(end), max_bytes) == expected

    @rule(later_ms=st.integers(-60, 60))
    def find_by_time(self, later_ms: int) -> None:
        asked = FIRST_MS + later_ms
        found = None
        for data, base in zip(self.batches, self.boundaries(), strict=False):
            timestamp_ms = int.from_bytes(data[27:35], "big")
            if timestamp_ms >= asked:
                found = (base, timestamp_ms)
                break
        assert self.log.offset_for_timestamp(asked) == found

    @invariant()
    def the_two_agree(self) -> None:
        epochs: list[tuple[int, int]] = []
        for data in self.batches:
            (each,) = outlines(data)
            if not epochs or epochs[-1][0] != each.epoch:
                epochs.append((each.epoch, each.base))
        assert list(self.log.epochs) == epochs
        assert self.log.end.offset == self.boundaries()[-1]
        assert self.log.end.epoch == (epochs[-1][0] if epochs else 0)
        assert self.log.size_bytes == sum(map(len, self.batches))
        whole = self.log.read(self.start, self.log.end.offset, NO_LIMIT)
        assert whole == b"".join(self.batches)

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=at_most_in_quick(30), stateful_step_count=25)
