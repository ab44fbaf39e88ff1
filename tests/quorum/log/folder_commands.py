"""The commands of transcripts about the folder of a node, on a disk that can fail and lose power.

The files are those of a node, opened by its own code (`quorum.persistent_state`); the disk is that
of the simulation, which knows what was synced. The folder of node 1 is /1, and so on.

start 1                     a process opens the folder, and reports what it found; `in /2`: that of
                            another node, `cluster C`: for this cluster, `segments 80`: small files
stop 1                      it shuts down
kill 1                      it is killed; its writes stay
power                       power fails: all processes end, and unsynced data is lost
vote 1 epoch 3 [for 2]      it stores an epoch, and a vote
append 1 a b epoch 3        it gets a batch of two records to write
write 1                     it writes its batches without a sync
flush 1                     it writes and syncs its batches
snapshot 1 3@1              it writes a snapshot up to offset 3, whose last epoch is 1
cut 1 3                     its log begins at offset 3 from now on
clock 500                   500 ms pass by the time of day
log 1, times 1              the records, and their append times
files 1                     the files and their sizes
boot 1                      the timestamp of a boot that begins now
tear FILE 20                remove the last 20 bytes of a file
rot FILE 20                 flip one bit of byte 20 of a file
put FILE TEXT               write a file from outside
remove FILE                 remove a file from outside
fail sync                   syncs fail from now on
mend                        syncs succeed again
"""

import errno
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from quorum.core.limits import SEGMENT_BYTES_MAX
from quorum.core.raft_log import LeaderEpochCache
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.log.errors import StorageError
from quorum.log.meta_properties import next_boot
from quorum.persistent_state import (
    LOG_FOLDER,
    PersistentState,
    QuorumConfig,
    load_persistent_state,
)
from quorum.ports import LogFailure
from quorum.records.decode import decode
from quorum.records.encode import encode
from tests.quorum.core.transcript_notation import written
from tests.quorum.log.small_snapshots import parts
from tests.quorum.log.small_snapshots import written as write_snapshot
from tests.support.append_times import all_append_times

FIRST_MS = 1_000_000


class NothingMore:
    """After a loss of power only that is left which must be."""

    def randrange(self, _: int, /) -> int:
        return 0


class FolderStage:
    def __init__(self) -> None:
        self._disk = VirtualDisk()
        self._wall_ms = FIRST_MS
        self._pasts: dict[str, PersistentState] = {}
        self._rng = random.Random(1)

    def answer(self, command: str) -> str:
        """Do what the lines of `command` say; return what happened."""
        return written(command, self._obey)

    def _obey(self, line: str) -> Iterator[str]:
        verb, *words = line.split()
        scenes: dict[str, Callable[..., Iterator[str]]] = {
            "start": self._start,
            "stop": self._stop,
            "kill": self._kill,
            "power": self._power,
            "vote": self._vote,
            "append": self._append,
            "write": lambda number: self._commit(number, sync=False),
            "flush": lambda number: self._commit(number, sync=True),
            "snapshot": self._snapshot,
            "cut": self._cut,
            "clock": self._clock,
            "log": self._log,
            "times": self._times,
            "files": self._files,
            "boot": self._boot,
            "tear": self._tear,
            "rot": self._rot,
            "put": self._put,
            "remove": self._remove,
            "fail": self._fail,
            "mend": self._mend,
        }
        return scenes[verb](*words)

    # --- processes ---------------------------------------------------------------------------

    def _start(self, number: str, *words: str) -> Iterator[str]:
        said = dict(zip(words[::2], words[1::2], strict=True))
        config = QuorumConfig(
            node_id=ReplicaId(int(number)),
            cluster_id=said.get("cluster"),
            folder=Path(said.get("in", f"/{number}")),
            voters={},
            segment_bytes=int(said.get("segments", SEGMENT_BYTES_MAX)),
        )
        with warnings() as warned:
            try:
                past = load_persistent_state(
                    config, rng=self._rng, wall_clock=lambda: self._wall_ms, fs=self._disk
                )
            except StorageError as error:
                yield from (f"warning: {line}" for line in warned)
                yield f"refused: {error}"
                return
        self._pasts[number] = past
        yield from (f"warning: {line}" for line in warned)
        yield f"{past.election}; log [{past.view.start}, {past.view.end.offset}), " + (
            f"last epoch {past.view.end.epoch}"
        )

    def _stop(self, number: str) -> Iterator[str]:
        self._pasts.pop(number).log.close()
        yield from ()

    def _kill(self, number: str) -> Iterator[str]:
        del self._pasts[number]
        self._disk.kill()
        yield from ()

    def _power(self) -> Iterator[str]:
        self._pasts.clear()
        self._disk.watch = None
        self._disk.lose_power(NothingMore())
        yield from ()

    # --- what a process does -----------------------------------------------------------------

    def _vote(self, number: str, *words: str) -> Iterator[str]:
        said = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        whom = said.get("for")
        vote = None if whom is None else ReplicaKey(ReplicaId(whom), NO_DIRECTORY)
        yield from self._tried(
            lambda: self._pasts[number].elections.write(ElectionState(Epoch(said["epoch"]), vote))
        )

    def _append(self, number: str, *words: str) -> Iterator[str]:
        *values, _, epoch = words
        log = self._pasts[number].log
        batch = encode(
            [value.encode() for value in values],
            timestamp_ms=self._wall_ms,
            base_offset=log.end.offset,
            epoch=Epoch(int(epoch)),
        )
        (outline,) = log.append(batch)
        yield f"{outline} waits to be written"

    def _commit(self, number: str, *, sync: bool) -> Iterator[str]:
        log = self._pasts[number].log
        failures = list(self._tried(lambda: log.commit(sync=sync)))
        yield from failures or [f"{'on disk' if sync else 'written'} up to {log.end}"]

    def _snapshot(self, number: str, id_: str) -> Iterator[str]:
        store = self._pasts[number].store
        offset, _, epoch = id_.partition("@")
        end = OffsetAndEpoch(Epoch(int(epoch)), Offset(int(offset)))
        write_snapshot(store, end, *parts(b"state", epoch=end.epoch))
        yield f"snapshots {', '.join(str(each.id) for each in store.snapshots)}"

    def _cut(self, number: str, start: str) -> Iterator[str]:
        log = self._pasts[number].log
        log.advance_start(Offset(int(start)))
        while log.remove_obsolete():
            pass
        yield f"log [{log.start}, {log.end.offset})"

    def _tried(self, do: Callable[[], object]) -> Iterator[str]:
        try:
            do()
        except LogFailure as failure:
            yield f"the process ends: {failure}"

    # --- what is there -----------------------------------------------------------------------

    def _clock(self, ms: str) -> Iterator[str]:
        self._wall_ms += int(ms)
        yield f"at {self._wall_ms} ms by the clock on the wall"

    def _log(self, number: str) -> Iterator[str]:
        log = self._pasts[number].log
        epochs = LeaderEpochCache(log.epochs)
        records = decode(log.read(log.start, log.end.offset, 1 << 20))
        words = [
            f"{bytes(each.value or b'').decode()}@{epochs.epoch_at(Offset(each.offset))}"
            for each in records
        ]
        yield f"{number}: {' '.join(words)}"

    def _times(self, number: str) -> Iterator[str]:
        for each in all_append_times(Path(f"/{number}") / LOG_FOLDER, self._disk):
            known = f"of epoch {each.epoch}, at {each.time_ms} ms"
            unknown = "at a time that nobody knows"
            yield f"[{each.base}, {each.end}) {unknown if each.time_ms is None else known}"

    def _files(self, number: str) -> Iterator[str]:
        for folder in (Path(f"/{number}"), Path(f"/{number}") / LOG_FOLDER):
            for name in sorted(self._disk.names(folder)):
                path = folder / name
                if not self._disk.is_folder(path):
                    yield f"{path} {self._disk.size(path)} bytes"

    def _boot(self, number: str) -> Iterator[str]:
        yield str(next_boot(Path(f"/{number}"), self._wall_ms, fs=self._disk))

    # --- what is done to the disk ------------------------------------------------------------

    def _tear(self, file: str, size_bytes: str) -> Iterator[str]:
        path = self._path(file)
        self._disk.put(path, self._disk.content(path)[: -int(size_bytes)])
        yield from ()

    def _rot(self, file: str, position: str) -> Iterator[str]:
        self._disk.rot(self._path(file), int(position))
        yield from ()

    def _put(self, file: str, *text: str) -> Iterator[str]:
        self._disk.put(self._path(file), "\n".join(text).encode() + b"\n")
        yield from ()

    def _remove(self, file: str) -> Iterator[str]:
        self._disk.remove(self._path(file))
        yield from ()

    def _fail(self, _: str) -> Iterator[str]:
        def watch(operation: Operation) -> Fail | None:
            return Fail(errno.EIO) if operation.kind is Kind.SYNC else None

        self._disk.watch = watch
        yield from ()

    def _mend(self) -> Iterator[str]:
        self._disk.watch = None
        yield from ()

    @staticmethod
    def _path(file: str) -> Path:
        """`/1/name`, where the files of the log are meant by their names alone."""
        top, name = Path(file).parent, Path(file).name
        is_log = name == "quorum-state" or name[:1].isdigit()
        return top / LOG_FOLDER / name if is_log else top / name


@contextmanager
def warnings() -> Iterator[list[str]]:
    """The log lines of the quorum meanwhile."""
    heard: list[str] = []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    handler, logger = Hearing(), logging.getLogger("quorum")
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)
