"""The manifest of a backup: a small JSON file that names its files and what it is as of.

It is written last. A file that no manifest names is no part of any backup; manifests share the
files that their backups have in common. A checksum over the manifest itself is in it.
"""

import hashlib
import re
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from admin.backup.log_summary import LogSummary
from admin.faults import AdminError
from admin.units import parse_time_ms, show_time
from quorum.core.vocabulary import (
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
    uuid_from_text,
    uuid_to_text,
)
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.log.checkpoint import checkpoint_name


class BackupError(AdminError):
    """A backup cannot be made, read or restored; nothing that was there has been changed."""


class BackupDamaged(BackupError):
    """A stored backup lacks a file, or a file does not hold what the manifest says."""


FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024

_NAME: Final = re.compile(r"backup-(\d{8}T\d{6}\.\d{3}Z)\.json")
_FILE: Final = re.compile(r"[0-9]{20}(?:-[0-9]{10})?-([0-9]{13,})\.(?:checkpoint|log)")
_Number = Annotated[int, Meta(ge=0)]
_FileName = Annotated[str, Meta(pattern=r"^[0-9]{20}[0-9-]{0,40}\.(checkpoint|log)$")]
_Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file of a backup."""

    name: _FileName
    size_bytes: _Number
    sha256: _Sha256
    end_offset: _Number
    epoch: _Number
    """The epoch of the last record before `end_offset`."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of its contents, exclusive."""
        return OffsetAndEpoch(Epoch(self.epoch), Offset(self.end_offset))


class LogFile(StoredFile, frozen=True, kw_only=True):
    """A piece of the log: the batches of [base_offset, end_offset)."""

    base_offset: _Number


class StoredVoter(Struct, frozen=True, kw_only=True):
    """A voter, with its directory id and its listeners where the log has them."""

    id: _Number
    directory_id: str
    endpoints: list[tuple[str, str, _Number]] = []
    """Name, host and port of each listener."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A backup of a cluster as it was at `end_offset`."""

    format: int = FORMAT
    id: str
    """The time of the backup; later, if the clock was put back, because ids rise."""
    cluster_id: str
    taken_ms: _Number
    """The time of the backup, by the clock of the machine that made it: everything that the leader
    knew to be committed then is in it."""
    end_offset: _Number
    epoch: _Number
    last_record_ms: int
    """The timestamp of the last record; -1 if there is none."""
    kraft_version: _Number
    features: dict[str, int]
    voters: list[StoredVoter]
    """The voters at `end_offset`."""
    voter_ids: list[_Number]
    """The voters in the last LeaderChange record."""
    snapshot: StoredFile | None
    """None if the log reaches back to offset 0."""
    log: list[LogFile]
    """The log in order; its first file may begin before the end of the snapshot."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the backup, exclusive."""
        return OffsetAndEpoch(Epoch(self.epoch), Offset(self.end_offset))

    @property
    def size_bytes(self) -> int:
        """The bytes of all its files, without the manifest."""
        return sum(each.size_bytes for each in self.files)

    @property
    def files(self) -> list[StoredFile]:
        """All its files."""
        return [*([] if self.snapshot is None else [self.snapshot]), *self.log]

    @property
    def name(self) -> str:
        """The file name of the manifest."""
        return manifest_name(self.id)

    def summary(self) -> LogSummary:
        """The facts of the log at its end, for the next backup to go on from."""
        return LogSummary(
            end=self.end,
            time_ms=self.last_record_ms,
            kraft_version=self.kraft_version,
            voters=self.recorded_voters(),
            voter_ids=tuple(map(ReplicaId, self.voter_ids)),
            features=dict(self.features),
        )

    def recorded_voters(self) -> VoterAssignment | None:
        """The voters of the log, or None if it does not record any."""
        if not self.voters:
            return None
        return VoterAssignment(
            VoterSet(
                tuple(
                    Voter(
                        ReplicaKey(ReplicaId(each.id), _directory(each.directory_id)),
                        tuple(Endpoint(*of) for of in each.endpoints),
                    )
                    for each in self.voters
                )
            )
        )


def backup_id(id_ms: int) -> str:
    """The id of this time; ids sort like their times."""
    return show_time(id_ms, "milliseconds").replace("-", "").replace(":", "")


def id_ms_of(id_: str) -> int:
    """The time in an id; raises `ValueError` if there is no such time."""
    date, _, time = id_.partition("T")
    return parse_time_ms(f"{date[:4]}-{date[4:6]}-{date[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}")


def manifest_name(id_: str) -> str:
    """The file name of the manifest of this backup."""
    return f"backup-{id_}.json"


def manifest_id(name: str) -> str | None:
    """The id of the backup that a manifest of this file name has; None for another file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        following = backup_id(id_ms_of(match[1]) + 1)
    except ValueError:
        # No calendar has this time.
        return None
    # The next backup needs an id behind it.
    return match[1] if _NAME.fullmatch(manifest_name(following)) else None


def snapshot_name(id_: OffsetAndEpoch, id_ms: int) -> str:
    """The file name of a snapshot. Each run has its own: an earlier backup may have the file."""
    stem, _, suffix = checkpoint_name(id_).partition(".")
    return f"{stem}-{id_ms:013}.{suffix}"


def log_name(base: int, id_ms: int) -> str:
    """The file name of a piece of the log that begins at `base`; as above."""
    return f"{base:020}-{id_ms:013}.log"


def written_ms(name: str) -> int | None:
    """The time of the run that has written a file of a backup; None for another file."""
    match = _FILE.fullmatch(name)
    return None if match is None else int(match[1])


def make_manifest(
    summary: LogSummary,
    *,
    id_ms: int,
    cluster_id: str,
    taken_ms: int,
    snapshot: StoredFile | None,
    log: list[LogFile],
) -> Manifest:
    """The manifest of these files, whose log has this summary; `id_ms` is the time in its id."""
    voters = () if summary.voters is None else summary.voters.current.voters
    return Manifest(
        id=backup_id(id_ms),
        cluster_id=cluster_id,
        taken_ms=taken_ms,
        end_offset=summary.end.offset,
        epoch=summary.end.epoch,
        last_record_ms=summary.time_ms,
        kraft_version=summary.kraft_version,
        features=dict(sorted(summary.features.items())),
        voters=[
            StoredVoter(
                id=each.id,
                directory_id=uuid_to_text(each.key.directory_id),
                endpoints=[(of.name, of.host, of.port) for of in each.endpoints],
            )
            for each in voters
        ],
        voter_ids=list(summary.voter_ids),
        snapshot=snapshot,
        log=log,
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as JSON for people, with its checksum."""
    data = msgspec.to_builtins(manifest)
    data["sha256"] = _checksum(data)
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def decode_manifest(content: bytes, where: str) -> Manifest:
    """Decode a manifest; raises `BackupDamaged`, which names it by `where`."""
    try:
        data = msgspec.json.decode(content)
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        if data.get("format") != FORMAT:
            found = data.get("format")
            raise ValueError(f"its format is {found!r}, this program reads {FORMAT}")
        checksum = data.pop("sha256", None)
        if checksum != _checksum(data):
            raise ValueError("its checksum is wrong")
        manifest = msgspec.convert(data, Manifest)
        _check(manifest)
    except ValueError as error:
        raise BackupDamaged(
            f"{where} is no manifest that can be used: {error}. Take an older backup, which "
            "`metaquorum backup list` shows"
        ) from error
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise `ValueError` unless the files follow on each other, up to the end."""
    if id_ms_of(manifest.id) < manifest.taken_ms:
        raise ValueError(
            f"its id is {manifest.id}, and it was taken later, at {show_time(manifest.taken_ms)}"
        )
    start = 0 if manifest.snapshot is None else manifest.snapshot.end_offset
    if manifest.log and manifest.log[0].base_offset > start:
        raise ValueError(f"its log begins at {manifest.log[0].base_offset}, behind {start}")
    at = manifest.log[0].base_offset if manifest.log else start
    for each in manifest.log:
        if each.base_offset != at or each.end_offset <= at:
            raise ValueError(f"{each.name} does not continue the log at offset {at}")
        at = each.end_offset
    if max(at, start) != manifest.end_offset:
        raise ValueError(f"its files end at offset {max(at, start)}, not {manifest.end_offset}")
    manifest.recorded_voters()


def _checksum(data: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()


def _directory(text: str) -> UUID:
    return uuid_from_text(text)
