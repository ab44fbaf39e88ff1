"""What is committed becomes the image, a few milliseconds at a time: for brokers and controllers.

A long log, or a snapshot of many partitions, takes seconds. Done at once, that would keep the whole
process from answering, and the others would take it for dead. Whoever owns this calls `go_on` while
it `is_behind`, and sees to it that everyone else has a turn in between. It decides nothing.
"""

import gc
from collections.abc import Callable, Iterable

from quorum.committed import Committed, stride
from quorum.core.vocabulary import Offset
from quorum.ports import LogFailure
from quorum.records.decode import Record
from statemachine.bulk import replay_values
from statemachine.image import Image
from statemachine.snapshot import Loading


class Replaying:
    """How far an image has come, and how far it is to come."""

    def __init__(
        self, image: Image, *, on_control: Callable[[Record], None] = lambda record: None
    ) -> None:
        """`on_control` is told of each control record of the log, in its turn."""
        self.image = image
        self._on_control = on_control
        self.end = Offset(0)
        """Everything below is committed and in the image."""
        self.target = Offset(0)
        """Everything below is known to be committed."""
        self.is_ready = False
        """Whether all has been taken in that was committed when the image began, or began anew."""
        self._loading: Loading | None = None
        self._expected = Offset(0)
        self._is_long = False
        """Whether it has taken a stride, and is not ready yet."""

    @property
    def is_behind(self) -> bool:
        """Whether there is something for `go_on` to do."""
        return self._loading is not None or self.end < self.target

    def expect(self, log_end: Offset) -> None:
        """The log ended there when it was opened: until more is known, all may be committed."""
        self._expected = log_end

    def raise_to(self, high_watermark: Offset) -> None:
        """Everything below is committed."""
        self.target, self._expected = high_watermark, Offset(0)

    def took(self, high_watermark: Offset) -> None:
        """Everything below is committed, and its owner has replayed it before."""
        assert not self.is_behind
        self.end = self.target = high_watermark

    def load(self, values: Iterable[bytes], end: Offset) -> None:
        """Begin anew with the records of a snapshot; the image stays what it is until then."""
        self._loading = Loading(Image(), values, end)
        self.is_ready = False
        self.target = max(self.target, end)

    def go_on(self, log: Committed) -> None:
        """Take in the next few milliseconds' worth. Raises `LogFailure` for what is no record."""
        if self._loading is not None:
            self._load(self._loading)
        elif self.is_behind:
            self._replay(log)
        if self.is_ready:
            return
        self.is_ready = not self.is_behind and self.end >= self._expected
        was_long, self._is_long = self._is_long, not self.is_ready
        if self._is_long is not was_long:
            # What is here stays, the program first and then the image: looking through that for
            # garbage, time and again while so much is new, would be the longest stop of all.
            gc.freeze()

    def _load(self, loading: Loading) -> None:
        try:
            is_whole = loading.go_on()
        except ValueError as error:
            raise _unreadable(f"the snapshot that ends at offset {loading.end}", error) from error
        if is_whole:
            self.image.become(loading.image)
            self.end = Offset(loading.end)
            self._loading = None

    def _replay(self, log: Committed) -> None:
        try:
            for run in stride(log, self.end):
                for record in run.control:
                    self._on_control(record)
                if run.values:
                    replay_values(self.image, run.values, run.offset)
                self.image.advance(run.end)
        except ValueError as error:
            where = f"what is committed from offset {self.image.end_offset} on"
            raise _unreadable(where, error) from error
        self.end = Offset(self.image.end_offset)


def _unreadable(what: str, error: ValueError) -> LogFailure:
    remedy = "Start the version of the program that wrote it"
    return LogFailure(f"{what} cannot be read: {error}. {remedy}")
