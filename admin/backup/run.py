"""Make one backup: fetch what is new, check it, write it aside, and publish it by its manifest.

The first backup takes the leader's newest snapshot and the log behind it; while the leader's log
reaches back to offset 0, it takes the log alone. Each further one goes on at the end of the one
before. Once the log behind the snapshot is as long as the snapshot, a newer snapshot is taken, so
that a restore never has to replay much; the last piece of the log is written again while it is
small, so that frequent backups do not leave thousands of files.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from admin.backup.log_summary import NOWHERE, LogSummary
from admin.backup.manifest import (
    BackupDamaged,
    BackupError,
    LogFile,
    Manifest,
    StoredFile,
    encode_manifest,
    id_ms_of,
    log_name,
    make_manifest,
    manifest_name,
    snapshot_name,
    written_ms,
)
from admin.backup.storage import Storage, Writer, backup_ids, read_manifest, read_manifests
from admin.client.metadata_source import (
    PAUSE_SECONDS,
    Elsewhere,
    EpochsFell,
    Records,
    SnapshotGone,
    Source,
)
from admin.units import show_time
from quorum.clocks import monotonic_ms
from quorum.core.vocabulary import Offset, OffsetAndEpoch
from quorum.log.checkpoint import CheckpointCheck
from quorum.records.batch_stream import BatchStream

NEW_SNAPSHOT_BYTES_MIN: Final = 32 * 1024 * 1024
"""A shorter log behind a snapshot is no reason to fetch another one."""
GROWING_BYTES: Final = 4 * 1024 * 1024
"""The size up to which the last piece of the log is written again with what follows on it."""
LOG_FILE_BYTES: Final = 64 * 1024 * 1024
"""The size from which on the log goes on in another file."""
OTHERS_MS_MAX: Final = 24 * 3_600_000
"""The time that another run into the same place may take, where the place cannot keep it out."""
SNAPSHOT_TRIES: Final = 5
"""Attempts to fetch a snapshot while the leader changes, or replaces it."""


CREDIT_MS_MAX: Final = 500
"""A fetch that was held up may be made up for by this much of time."""


class Pace:
    """A limit on bytes per second; 0 is none."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._next_ms = 0.0

    async def took(self, size_bytes: int) -> None:
        """Wait until the next bytes may be asked for."""
        if not self._rate:
            return
        now_ms = float(monotonic_ms())
        # The time that a fetch has taken counts, up to a bound.
        since_ms = max(self._next_ms, now_ms - CREDIT_MS_MAX)
        self._next_ms = since_ms + size_bytes * 1_000 / self._rate
        if self._next_ms > now_ms:
            await asyncio.sleep((self._next_ms - now_ms) / 1_000)


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of `metaquorum backup`; without one, everything is kept."""

    count: int | None = None
    """`--keep`: the newest ones that are kept."""
    age_ms: int | None = None
    """`--keep-for`: older ones are not kept."""


def expired(taken_ms: Sequence[tuple[str, int]], retention: Retention, *, now_ms: int) -> list[str]:
    """The ids of the backups that need not be kept, of these with their times, in their order.

    A backup goes if either limit says so, but never the last one.
    """
    gone: list[str] = []
    newest_first = list(reversed(taken_ms))
    for place, (id_, taken) in enumerate(newest_first):
        is_surplus = retention.count is not None and place >= retention.count
        is_old = retention.age_ms is not None and now_ms - taken > retention.age_ms
        if place > 0 and (is_surplus or is_old):
            gone.append(id_)
    return gone[::-1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A backup that was made."""

    manifest: Manifest
    previous: Manifest | None
    """The backup that it goes on from; None if it was made anew."""
    fetched_bytes: int
    removed: tuple[str, ...]
    """The ids of the backups that were removed because of their age or number."""
    remarks: tuple[str, ...]
    """Sentences for the operator."""


@dataclass(slots=True)
class _Chain:
    """The files of the backup in the making, and the facts of their log."""

    snapshot: StoredFile | None = None
    log: list[LogFile] = field(default_factory=list)
    summary: LogSummary = field(default_factory=LogSummary)

    @property
    def replayed_bytes(self) -> int:
        """The bytes of the log behind the snapshot."""
        return sum(each.size_bytes for each in self.log)


async def back_up(
    source: Source,
    storage: Storage,
    *,
    now_ms: int,
    retention: Retention,
    pace: Pace,
    patience_ms: int,
) -> Outcome:
    """Make a backup of the cluster of `source`, as of now; raises `AdminError`.

    A leader that has nothing new to give for `patience_ms`, although it knows of more, is given up.
    """
    with storage.locked():
        run = _Run(source, storage, pace, patience_ms)
        return await run.back_up(now_ms, retention)


class _Run:
    """One backup."""

    def __init__(self, source: Source, storage: Storage, pace: Pace, patience_ms: int) -> None:
        self._source = source
        self._storage = storage
        self._pace = pace
        self._patience_ms = patience_ms
        self._fetched_bytes = 0
        self._remarks = [*source.remarks]
        self._id_ms = 0
        """The time in the id of the backup, and in the names of its files."""

    async def back_up(self, now_ms: int, retention: Retention) -> Outcome:
        ids = backup_ids(self._storage)
        previous = self._previous(ids)
        # Ids rise even if the clock was put back; the time of the backup does not.
        self._id_ms = max(now_ms, id_ms_of(ids[-1]) + 1) if ids else now_ms
        chain, previous = await self._continued(previous)
        manifest = make_manifest(
            chain.summary,
            id_ms=self._id_ms,
            cluster_id=self._source.cluster_id,
            taken_ms=now_ms,
            snapshot=chain.snapshot,
            log=chain.log,
        )
        with self._storage.create(manifest.name) as writer:
            writer.write(encode_manifest(manifest))
        self._check_published(manifest)
        removed = self._remove(retention, manifest)
        return Outcome(
            manifest, previous, self._fetched_bytes, tuple(removed), tuple(self._remarks)
        )

    def _check_published(self, manifest: Manifest) -> None:
        """Take a backup back whose files another run has removed meanwhile; raises `BackupError`.

        That run had older manifests only, and removed what none of those names.
        """
        if self._storage.is_exclusive:
            return
        sizes = self._storage.sizes()
        gone = [each.name for each in manifest.files if sizes.get(each.name) != each.size_bytes]
        if gone:
            self._storage.remove(manifest.name)
            raise BackupError(
                f"{self._storage}: {', '.join(gone)} was removed while backup {manifest.id} was "
                "made, by another backup into the same place: let one process make them"
            )

    def _previous(self, ids: Sequence[str]) -> Manifest | None:
        """The newest backup that can be continued, or None.

        Raises `BackupError` if the place holds backups of another cluster.
        """
        if not ids:
            return None
        try:
            manifest = read_manifest(self._storage, ids[-1])
        except BackupDamaged as error:
            self._remarks.append(f"{error}. This backup was made anew")
            return None
        if manifest.cluster_id != self._source.cluster_id:
            raise BackupError(
                f"{self._storage} holds backups of cluster {manifest.cluster_id}, this one is "
                f"{self._source.cluster_id}: name another place with --to"
            )
        sizes = self._storage.sizes()
        for each in manifest.files:
            if sizes.get(each.name) != each.size_bytes:
                self._remarks.append(
                    f"{self._storage}: {each.name} of backup {manifest.id} is missing or cut "
                    "short, so this backup was made anew"
                )
                return None
        return manifest

    async def _continued(self, previous: Manifest | None) -> tuple[_Chain, Manifest | None]:
        """Fetch what is new since `previous`, or everything; return the files and what they
        continue."""
        if previous is not None:
            chain = _Chain(previous.snapshot, list(previous.log), previous.summary())
            first = await self._fetch(chain.summary.end)
            if isinstance(first, Records):
                first = await self._newer_snapshot(chain, first)
                await self._fetch_log(chain, first)
                return chain, previous
            if first.snapshot is None:
                self._remarks.append(
                    f"the log of the cluster no longer has what backup {previous.id} ends with, "
                    f"offset {previous.end}: the cluster was restored or recovered from an older "
                    "state. This backup was made anew; keep the older ones until you know what "
                    "was lost"
                )
        chain = _Chain()
        found = await self._fetch(NOWHERE)
        if isinstance(found, Elsewhere):
            found = await self._take_snapshot(chain, found)
        await self._fetch_log(chain, found)
        return chain, None

    async def _fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        """Fetch what follows on `end`, from a leader that knows what is committed."""
        deadline_ms = monotonic_ms() + self._patience_ms
        while True:
            try:
                found = await self._source.fetch(end)
            except EpochsFell as error:
                raise BackupError(
                    f"{error}: the last backup ends in a later epoch. If `metaquorum recover` has "
                    "let the epochs of the cluster begin again, name another place with --to"
                ) from error
            if isinstance(found, Elsewhere):
                return found
            await self._pace.took(len(found.data))
            if found.high_watermark is not None and found.high_watermark >= end.offset:
                return found
            if monotonic_ms() >= deadline_ms:
                raise BackupError(
                    f"no leader knew within {self._patience_ms} ms that everything below offset "
                    f"{end.offset} is committed: see `metaquorum doctor`"
                )
            await asyncio.sleep(PAUSE_SECONDS)

    async def _newer_snapshot(self, chain: _Chain, first: Records) -> Records:
        """Take the leader's newest snapshot, if the log behind that of the chain has become long.

        Return what to go on with.
        """
        current = 0 if chain.snapshot is None else chain.snapshot.size_bytes
        if chain.replayed_bytes + len(first.data) < max(NEW_SNAPSHOT_BYTES_MIN, current):
            return first
        found = await self._fetch(NOWHERE)
        before = 0 if chain.snapshot is None else chain.snapshot.end_offset
        if not isinstance(found, Elsewhere) or found.snapshot is None:
            return first
        if found.snapshot.offset <= before:
            return first
        anew = _Chain()
        following = await self._take_snapshot(anew, found)
        if anew.summary.end.offset > chain.summary.end.offset:
            chain.snapshot, chain.log, chain.summary = anew.snapshot, anew.log, anew.summary
            return following
        if anew.snapshot is not None:
            end = anew.snapshot.end_offset
            chain.snapshot = anew.snapshot
            chain.log = [each for each in chain.log if each.end_offset > end]
        return first

    async def _take_snapshot(self, chain: _Chain, offered: Elsewhere) -> Records:
        """Let `chain` begin with the snapshot that the leader offers; return what follows on it."""
        for _ in range(SNAPSHOT_TRIES):
            id_ = offered.snapshot
            if id_ is None:
                raise BackupError("the leader's log diverges from its own snapshot: ask again")
            try:
                await self._fetch_snapshot(chain, id_)
            except SnapshotGone:
                found = await self._fetch(NOWHERE)
            else:
                found = await self._fetch(id_)
                if isinstance(found, Records):
                    return found
                # Meanwhile the leader has removed the log behind it.
            if isinstance(found, Records):
                chain.snapshot, chain.log, chain.summary = None, [], LogSummary()
                return found
            offered = found if found.snapshot is not None else await self._offered()
        raise BackupError(
            f"the leader changed, or replaced its snapshot, {SNAPSHOT_TRIES} times while it was "
            "fetched: try again, with a higher --throttle if one is set"
        )

    async def _offered(self) -> Elsewhere:
        found = await self._fetch(NOWHERE)
        return found if isinstance(found, Elsewhere) else Elsewhere(None)

    async def _fetch_snapshot(self, chain: _Chain, id_: OffsetAndEpoch) -> None:
        """Fetch a snapshot into a file; raises `SnapshotGone`."""
        check, summary = CheckpointCheck(id_), LogSummary()
        stream = BatchStream(base=0, epoch_min=0)
        name = snapshot_name(id_, self._id_ms)
        with self._storage.create(name) as writer, _checked(f"snapshot {id_} of the leader"):
            async for data in self._parts(id_):
                for batch in stream.feed(data):
                    check.take(batch)
                    if not batch.header.is_control:
                        summary.take_values(batch)
                writer.write(data)
            stream.close()
            summary.take_checkpoint(id_, check.close())
        chain.snapshot = StoredFile(
            name=name,
            size_bytes=writer.size_bytes,
            sha256=writer.sha256,
            end_offset=id_.offset,
            epoch=id_.epoch,
        )
        chain.log, chain.summary = [], summary

    async def _parts(self, id_: OffsetAndEpoch) -> AsyncIterator[bytes]:
        position, size_bytes = 0, 1
        while position < size_bytes:
            part = await self._source.fetch_snapshot(id_, position)
            data, size_bytes = bytes(part.data), part.size_bytes
            position += len(data)
            self._fetched_bytes += len(data)
            yield data
            await self._pace.took(len(data))

    async def _fetch_log(self, chain: _Chain, found: Records) -> None:
        """Fetch the log up to what was committed at the first answer, into files."""
        target = found.high_watermark
        assert target is not None
        while chain.summary.end.offset < target:
            base, old = chain.summary.end.offset, b""
            if chain.log and chain.log[-1].size_bytes < GROWING_BYTES:
                last = chain.log[-1]
                base, old = Offset(last.base_offset), self._content(last)
            name = log_name(base, self._id_ms)
            with self._storage.create(name) as writer:
                writer.write(old)
                found = await self._fill(chain.summary, writer, found, target)
            if old:
                chain.log.pop()
            chain.log.append(
                LogFile(
                    name=name,
                    size_bytes=writer.size_bytes,
                    sha256=writer.sha256,
                    base_offset=base,
                    end_offset=chain.summary.end.offset,
                    epoch=chain.summary.end.epoch,
                )
            )

    async def _fill(
        self, summary: LogSummary, writer: Writer, found: Records, target: Offset
    ) -> Records:
        """Write the log to a file until that is full or ends at `target`; return the records that
        are left over, if any."""
        deadline_ms = monotonic_ms() + self._patience_ms
        while True:
            before = summary.end.offset
            self._take(summary, writer, found)
            if summary.end.offset > before:
                deadline_ms = monotonic_ms() + self._patience_ms
            if summary.end.offset >= target or writer.size_bytes >= LOG_FILE_BYTES:
                return Records(b"", found.high_watermark)
            if monotonic_ms() >= deadline_ms:
                raise BackupError(
                    f"the log is committed up to offset {target}, but for {self._patience_ms} ms "
                    f"no leader had what follows on offset {summary.end.offset}"
                )
            if summary.end.offset == before:
                await asyncio.sleep(PAUSE_SECONDS)
            following = await self._fetch(summary.end)
            if isinstance(following, Elsewhere):
                raise BackupError(
                    f"the leader has removed its log behind offset {summary.end.offset} while it "
                    "was fetched, or another leader has none of it: run the backup again"
                )
            found = following

    def _take(self, summary: LogSummary, writer: Writer, found: Records) -> None:
        """Check and write the committed ones of these batches."""
        committed = found.high_watermark or 0
        stream = BatchStream(base=summary.end.offset, epoch_min=summary.end.epoch)
        taken: list[bytes] = []
        with _checked(f"the leader's log behind offset {summary.end.offset}"):
            for batch in stream.feed(found.data):
                if batch.header.end_offset > committed:
                    break
                summary.take(batch)
                taken.append(batch.data)
        if taken:
            data = b"".join(taken)
            self._fetched_bytes += len(data)
            writer.write(data)

    def _content(self, file: LogFile) -> bytes:
        """The content of a small file, as it was written; raises `BackupDamaged`."""
        content = b"".join(self._storage.read(file.name))
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise BackupDamaged(
                f"{self._storage}: {file.name} does not hold what was written: its disk is not to "
                "be trusted. Name another place with --to"
            )
        return content

    def _remove(self, retention: Retention, newest: Manifest) -> list[str]:
        """Remove what need not be kept: first the manifests, then the files of none."""
        manifests, damaged = read_manifests(self._storage)
        now_ms = _surely_passed_ms(newest)
        gone = self._expired(manifests, retention, newest.taken_ms, now_ms)
        for id_ in gone:
            self._storage.remove(manifest_name(id_))
        for name in self._storage.unfinished():
            self._storage.remove(name)
        if damaged:
            # The files that they name are not known.
            self._remarks.append(
                f"{self._storage}: {', '.join(damaged)} cannot be used, and names files that are "
                "not known: no file is removed any more. Bring it back from a copy, or move it away"
            )
        else:
            named = {file.name for each in manifests if each.id not in gone for file in each.files}
            for name in self._storage.sizes():
                if name not in named and self._is_left(name, now_ms):
                    self._storage.remove(name)
        return gone

    def _expired(
        self, manifests: Sequence[Manifest], retention: Retention, clock_ms: int, now_ms: int
    ) -> list[str]:
        """The ids of the backups to remove; tell of those that only the clock calls too old."""
        # A backup is no older than its last record, whatever the clock said when it was made.
        times = [(each.id, max(each.taken_ms, each.last_record_ms)) for each in manifests]
        gone = expired(times, retention, now_ms=now_ms)
        spared = len(expired(times, retention, now_ms=clock_ms)) - len(gone)
        if spared:
            self._remarks.append(
                f"the clock of this machine says {show_time(clock_ms)}, the last record of the "
                f"cluster {show_time(now_ms)}: the backups that only the clock calls too old for "
                f"--keep-for are kept ({spared}). Check both clocks"
            )
        return gone

    def _is_left(self, name: str, now_ms: int) -> bool:
        """Check whether a file that no manifest names is one of a backup, and of none under way."""
        written = written_ms(name)
        if written is None:
            return False
        return self._storage.is_exclusive or now_ms - written > OTHERS_MS_MAX


def _surely_passed_ms(newest: Manifest) -> int:
    """The time by which others are judged: what is removed does not come back, so neither the clock
    of this machine nor that of the leader alone is believed to have gone so far."""
    if newest.last_record_ms < 0:
        return newest.taken_ms
    return min(newest.taken_ms, newest.last_record_ms)


@contextmanager
def _checked(what: str) -> Iterator[None]:
    """Turn an error in the bytes of a node into `BackupError`."""
    try:
        yield
    except ValueError as error:
        raise BackupError(
            f"{what} is not sound, and no backup was made of it: {error}. Ask another controller, "
            "and check that one with `metaquorum doctor`"
        ) from error
