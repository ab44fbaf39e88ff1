"""Open and close partition logs, with the state that a clean shutdown saves.

`partition.state` holds what the batches lack or what is costly to read from them: the high
watermark and the producer state. It is written when a log is closed cleanly and removed when it is
opened, so that it never describes a log that has changed since. Without it, or if it does not match
the log, the batches are read instead.

Everything here waits for the disk and runs in the disk thread.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from broker.limits import CLOSING_THREADS
from broker.storage.log_dir import STATE_NAME
from broker.storage.producer_state import ProducerStateManager, SavedProducer
from quorum.core.vocabulary import Offset
from quorum.log.filesystem import OS, FileSystem, read_file, usable
from quorum.log.segmented_log import SegmentedLog
from quorum.records.batch import headers

TAIL_BYTES_MAX: Final = 4 * 1024 * 1024
"""The newest bytes of each partition that stay in memory for fetches at the end of the log."""
_READ_BYTES: Final = 1024 * 1024
_FORMAT: Final = 1


class _State(msgspec.Struct, frozen=True):
    format: int
    log_end: int
    log_end_epoch: int
    high_watermark: int
    producers: list[SavedProducer]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_State)


class OpenedLog(msgspec.Struct, frozen=True, gc=False):
    """A log with the state that is saved with it."""

    log: SegmentedLog
    producers: ProducerStateManager
    high_watermark: int


def open_log(folder: Path, *, segment_bytes_max: int, fs: FileSystem = OS) -> OpenedLog:
    """Open the log in `folder` and cut a torn tail; raises `StorageError`.

    The log is not synced at every write: its promises rest on the other replicas. Recovery cuts it
    at the first invalid batch, and the rest is copied from the leader.
    """
    log = SegmentedLog(
        folder,
        segment_bytes_max=segment_bytes_max,
        tail_bytes_max=TAIL_BYTES_MAX,
        synced=False,
        lock=False,
        fs=fs,
    )
    try:
        state = _take_state(folder, log, fs)
        if state is None:
            return OpenedLog(log, producers_of(log), log.start)
    except BaseException:
        log.close()
        raise
    producers = ProducerStateManager()
    producers.restore(state.producers)
    return OpenedLog(log, producers, state.high_watermark)


def close_logs(closing: Sequence[OpenedLog]) -> None:
    """Close several logs in parallel; everything is on disk when this returns."""
    with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="closing") as threads:
        # Iterating raises the errors of the threads.
        for _ in threads.map(_close, closing):
            pass


def _close(closing: OpenedLog) -> None:
    log = closing.log
    log.close()
    state = _State(
        format=_FORMAT,
        log_end=log.end.offset,
        log_end_epoch=log.end.epoch,
        high_watermark=closing.high_watermark,
        producers=closing.producers.saved(),
    )
    # Not synced: a lost or stale state only costs a scan of the log.
    path = log.folder / STATE_NAME
    with usable(path):
        path.write_bytes(_ENCODER.encode(state))


def producers_of(log: SegmentedLog) -> ProducerStateManager:
    """Rebuild the producer state from the batches of the log."""
    producers = ProducerStateManager()
    at = log.start
    while at < log.end.offset:
        data = log.read(at, log.end.offset, _READ_BYTES)
        for _, header in headers(data):
            at = Offset(header.end_offset)
            producers.record(header)
    return producers


def _take_state(folder: Path, log: SegmentedLog, fs: FileSystem) -> _State | None:
    """Read and remove the state file; None unless it matches this log."""
    path = folder / STATE_NAME
    with usable(folder):
        data = read_file(path, fs)
        if data is None:
            return None
        fs.remove(path)
    try:
        state = _DECODER.decode(data)
    except msgspec.MsgspecError:
        return None
    end = (log.end.offset, log.end.epoch)
    fits = (state.format, state.log_end, state.log_end_epoch) == (_FORMAT, *end)
    sound = all(batches for _, _, batches in state.producers)
    return state if fits and sound and log.start <= state.high_watermark <= state.log_end else None
