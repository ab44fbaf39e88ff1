"""The durable election state in Kafka's file `quorum-state`.

One line of JSON, replaced atomically. Written in version 1, as by a Kafka controller with
kraft.version 1; version 0 is read as well. Ours also has `clusterId`, a field of version 0, once
the cluster is known: Kafka ignores it.
"""

from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import msgspec

from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    NO_REPLICA,
    ElectionState,
    Epoch,
    ReplicaId,
    ReplicaKey,
    uuid_from_text,
    uuid_to_text,
)
from quorum.log.errors import NEW_DIRECTORY, FileDamaged, FolderForeign, FormatUnknown
from quorum.log.filesystem import (
    OS,
    FileSystem,
    read_file,
    replace_file,
    sync_folder,
    usable,
    writable,
)

FILE_NAME: Final = "quorum-state"

_VERSIONS: Final = (0, 1)
_INT32_MAX: Final = 2**31 - 1
_Id = Annotated[int, msgspec.Meta(ge=-1, le=_INT32_MAX)]
_EpochNumber = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]

_REMEDY: Final = f"A vote may be lost with it, so it is not replaced. The way back: {NEW_DIRECTORY}"


class _State(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The file, field by field and in Kafka's order."""

    cluster_id: str = msgspec.field(name="clusterId", default="")
    leader_id: _Id = msgspec.field(name="leaderId")
    leader_epoch: _EpochNumber = msgspec.field(name="leaderEpoch")
    voted_id: _Id = msgspec.field(name="votedId")
    voted_directory_id: str | None = msgspec.field(name="votedDirectoryId", default=None)
    data_version: int


class _Version(msgspec.Struct):
    """The fields of every version of the file."""

    data_version: int


class QuorumStateFile:
    """A `quorum.ports.ElectionStore`, for one thread at a time.

    `cluster_id` is None until the owner learns and sets it.
    """

    def __init__(self, folder: Path, *, cluster_id: str | None = None, fs: FileSystem = OS) -> None:
        self._fs = fs
        self.path = folder / FILE_NAME
        self.cluster_id = cluster_id

    def read(self) -> ElectionState:
        """Return the value last written, or `ElectionState()` if there is none.

        Raises `FileDamaged`, `FormatUnknown`, `FolderForeign` or `FolderUnusable`.
        """
        with usable(self.path):
            content = read_file(self.path, self._fs)
            if content is None:
                return ElectionState()
            # A crash between rename and sync leaves a name that a power failure would undo.
            sync_folder(self.path.parent, self._fs)
        try:
            version = msgspec.json.decode(content, type=_Version).data_version
            if version not in _VERSIONS:
                raise FormatUnknown(self.path, f"version {version}, only 0 and 1 are known")
            state = msgspec.json.decode(content, type=_State)
            voted_for = _voted_for(state)
        except ValueError as error:
            reason = f"not the state of an election: {error}" if content else "empty"
            raise FileDamaged(self.path, reason, _REMEDY) from error
        if state.cluster_id:
            self.cluster_id = self.cluster_id or state.cluster_id
            if state.cluster_id != self.cluster_id:
                owner = f"cluster {state.cluster_id}"
                here = f"this node is of cluster {self.cluster_id}"
                raise FolderForeign(self.path, owner=owner, here=here)
        return ElectionState(
            Epoch(state.leader_epoch),
            voted_for,
            None if state.leader_id == NO_REPLICA else ReplicaId(state.leader_id),
        )

    def write(self, election: ElectionState) -> None:
        """Replace the stored value, durably. Raises `LogFailure` or `DiskFull`."""
        # What could not be read back would cost this voter its folder.
        assert 0 <= election.epoch <= EPOCH_MAX, f"{election} is not written to {self.path}"
        voted_for = election.voted_for or ReplicaKey(NO_REPLICA, NO_DIRECTORY)
        state = _State(
            cluster_id=self.cluster_id or "",
            leader_id=NO_REPLICA if election.leader is None else election.leader,
            leader_epoch=election.epoch,
            voted_id=voted_for.id,
            voted_directory_id=uuid_to_text(voted_for.directory_id),
            data_version=1,
        )
        with writable(self.path):
            replace_file(self.path, msgspec.json.encode(state), self._fs)


def _voted_for(state: _State) -> ReplicaKey | None:
    """Return the replica voted for; raises `ValueError` for an invalid directory id."""
    directory = UUID(int=0)
    if state.voted_directory_id is not None:
        directory = uuid_from_text(state.voted_directory_id)
    elif state.data_version > 0:
        raise ValueError("it has no votedDirectoryId, which version 1 demands")
    return (
        None if state.voted_id == NO_REPLICA else ReplicaKey(ReplicaId(state.voted_id), directory)
    )
