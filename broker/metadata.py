"""The metadata log as this broker knows it: read behind the high watermark, replayed, handed on.

A broker observes the quorum. Whenever the high watermark rises, what was committed is read from
the local copy of the log, decoded and replayed into the image, in strides, so that a long log does
not hold up the event loop. Records that are not committed never get here.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import StateSnapshot
from quorum.records.batch import headers
from quorum.records.decode import decode
from statemachine import serde
from statemachine.image import Image, Touched
from statemachine.replay import replay
from statemachine.snapshot import begin, load

logger = logging.getLogger("broker.metadata")

STRIDE_BYTES: Final = 256 * 1024
"""Records that are replayed before anyone else gets a turn."""


class CommittedLog(Protocol):
    """What the quorum lets be read."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        ...


class MetadataFollower:
    """A `quorum.ports.StateMachine` that keeps an image up to date and never proposes anything."""

    def __init__(self, image: Image) -> None:
        self.image = image
        image.watch()
        self.on_change: Callable[[Touched], None] | None = None
        """Told what has changed after each stride; to be set before `run`."""
        self._log: CommittedLog | None = None
        self._high_watermark = Offset(0)
        self._risen = asyncio.Event()
        self._loaded = False

    def read_from(self, log: CommittedLog) -> None:
        """Where committed records are read; once, before `run`."""
        self._log = log

    # What the quorum tells.

    def snapshot(self) -> StateSnapshot | None:
        # What is replayed may lag behind what is committed, and always ends where a batch does.
        if not self.image.end_offset:
            return None
        found = begin(self.image, self.image.end_offset)
        return None if found is None else StateSnapshot(Offset(found.end), found, found.close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        image = Image()
        load(image, records, end)
        self.image.become(image)
        # What was loaded stays: looking through it for garbage would stop everything for seconds.
        gc.freeze()
        self._high_watermark = max(self._high_watermark, end)
        self._loaded = True
        self._risen.set()

    def on_commit(self, high_watermark: Offset) -> None:
        self._high_watermark = high_watermark
        self._risen.set()

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        raise AssertionError(f"an observer leads epoch {epoch}")

    def on_control(self, end: Offset) -> None:
        raise AssertionError(f"an observer appends a record that ends at {end}")

    def on_stop_leading(self, epoch: Epoch) -> None:
        raise AssertionError(f"an observer led epoch {epoch}")

    def on_truncate(self, end: Offset) -> None:
        assert end >= self.image.end_offset, "what was committed is gone"

    # The task.

    async def run(self) -> None:
        """Replay what is committed until cancelled."""
        assert self._log is not None
        assert self.on_change is not None
        while True:
            await self._risen.wait()
            self._risen.clear()
            if self._loaded:  # What a snapshot said.
                self._loaded = False
                self.on_change(self.image.drain())
            while self.image.end_offset < self._high_watermark:
                self._replay(self._log.read_committed(Offset(self.image.end_offset), STRIDE_BYTES))
                self.on_change(self.image.drain())
                await asyncio.sleep(0)

    def _replay(self, batches: bytes) -> None:
        view = memoryview(batches)
        assert batches, "the high watermark is ahead of what can be read"
        for position, header in headers(batches):
            if not header.is_control:
                batch = view[position : position + header.size_bytes]
                for record in decode(batch):
                    if record.offset >= self.image.end_offset:
                        assert record.value is not None, f"no value at offset {record.offset}"
                        replay(self.image, serde.decode(record.value), record.offset)
            self.image.advance(max(self.image.end_offset, header.end_offset))
