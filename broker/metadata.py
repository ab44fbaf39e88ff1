"""Follow the metadata log: replay committed records into the broker's image and report changes.

Whenever the high watermark rises, committed records are read from the local copy of the log and
replayed in slices, so that a long log does not block the event loop. Uncommitted records never
get here.
"""

import asyncio
from collections.abc import Callable, Iterable

from quorum.core.vocabulary import Epoch, Offset
from quorum.metadata_loader import CommittedLog, MetadataLoader
from quorum.ports import StateSnapshot
from statemachine.image.bulk_replay import replay_values
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.image.snapshot import begin, begin_loading


class MetadataFollower:
    """A `quorum.ports.StateMachine` that keeps an image up to date and proposes nothing."""

    def __init__(self, image: Image) -> None:
        self.image = image
        image.watch()
        self.on_change: Callable[[MetadataDelta], None] | None = None
        """Called with the delta of each slice; set it before `run`."""
        self._log: CommittedLog | None = None
        self._loader = MetadataLoader(image, replay=replay_values, load_snapshot=begin_loading)
        self._advanced = asyncio.Event()

    def read_from(self, log: CommittedLog) -> None:
        """Set the source of committed records; once, before `run`."""
        self._log = log

    # --- `StateMachine` of the quorum ---------------------------------------------------------

    def snapshot(self) -> StateSnapshot | None:
        # The image may lag behind the high watermark; it always ends at the end of a batch.
        if not self._loader.is_ready or not self.image.end_offset:
            return None
        found = begin(self.image, self.image.end_offset)
        return None if found is None else StateSnapshot(Offset(found.end), found, found.close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self._loader.load(records, end)
        self._advanced.set()

    def on_commit(self, high_watermark: Offset) -> None:
        self._loader.raise_to(high_watermark)
        self._advanced.set()

    @property
    def is_behind(self) -> bool:
        return False  # `run` catches up, not the quorum.

    def catch_up(self) -> None:
        raise AssertionError("`run` catches up")

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        raise AssertionError(f"an observer leads epoch {epoch}")

    def on_control(self, end: Offset) -> None:
        raise AssertionError(f"an observer appends a record that ends at {end}")

    def on_stop_leading(self, epoch: Epoch) -> None:
        raise AssertionError(f"an observer led epoch {epoch}")

    def on_truncate(self, end: Offset) -> None:
        assert end >= self.image.end_offset, "a committed record was truncated"

    # --- replay in slices ---------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Return whether committed records wait to be replayed."""
        return self._loader.is_behind

    def go_on(self) -> None:
        """Replay for a few milliseconds and report the changes."""
        assert self._log is not None
        assert self.on_change is not None
        end = self.image.end_offset
        self._loader.go_on(self._log)
        if self.image.end_offset > end:
            self.on_change(self.image.drain())

    async def run(self) -> None:
        """Replay committed records until cancelled."""
        while True:
            await self._advanced.wait()
            self._advanced.clear()
            while self.has_more:
                self.go_on()
                await asyncio.sleep(0)
