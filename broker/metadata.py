"""Follow the metadata log: replay committed records into the broker's image and report changes.

Committed records are read from the local copy of the log and replayed in slices, between which the
quorum has its turns. Uncommitted records never get here.
"""

from collections.abc import Callable, Iterable

from quorum.core.vocabulary import Epoch, Offset
from quorum.metadata_loader import CommittedLog, MetadataLoader
from quorum.ports import StateSnapshot
from statemachine.features.features import unsupported_reason
from statemachine.image.bulk_replay import replay_values
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.image.snapshot import Loading, begin


class MetadataFollower:
    """A `quorum.ports.StateMachine` that keeps an image up to date and proposes nothing."""

    def __init__(self, image: Image) -> None:
        self.image = image
        image.watch()
        self.on_change: Callable[[MetadataDelta], None] | None = None
        """Called with the delta of each slice; without it nobody is told."""
        self._log: CommittedLog | None = None
        self._loader = MetadataLoader(
            image,
            replay=replay_values,
            load_snapshot=Loading,
            refusal=lambda image: unsupported_reason(image.features),
        )

    def read_from(self, log: CommittedLog) -> None:
        """Set the source of committed records; once, before the quorum runs."""
        self._log = log

    def snapshot(self) -> StateSnapshot | None:
        # The image may lag behind the high watermark; it always ends at the end of a batch.
        if not self._loader.is_ready or not self.image.end_offset:
            return None
        found = begin(self.image, self.image.end_offset)
        return None if found is None else StateSnapshot(Offset(found.end), found, found.close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self._loader.load(records, end)

    def on_commit(self, high_watermark: Offset) -> None:
        was_behind = self.is_behind
        self._loader.raise_to(high_watermark)
        if not was_behind:
            self.catch_up()

    @property
    def is_ready(self) -> bool:
        """True once the image has everything that was committed when this node started."""
        return self._loader.is_ready

    @property
    def is_behind(self) -> bool:
        return self._loader.is_behind

    def catch_up(self) -> None:
        """Replay for a few milliseconds and report the changes."""
        assert self._log is not None
        end = self.image.end_offset
        self._loader.go_on(self._log)
        if self.image.end_offset > end:
            changes = self.image.drain()
            if self.on_change is not None:
                self.on_change(changes)

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        raise AssertionError(f"an observer leads epoch {epoch}")

    def on_control(self, end: Offset) -> None:
        raise AssertionError(f"an observer appends a record that ends at {end}")

    def on_stop_leading(self, epoch: Epoch) -> None:
        raise AssertionError(f"an observer led epoch {epoch}")
