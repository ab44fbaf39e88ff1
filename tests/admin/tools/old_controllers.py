"""Folders of controllers that were stopped, made from the log of a real cluster in the tree.

At its end the log names voters 2, 3 and 4; controller 1 was removed.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    ReplicaId,
    ReplicaKey,
    uuid_from_text,
)
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from quorum.records.batch import headers
from quorum.records.control import ControlType, LeaderChange, control_key
from quorum.records.encode import encode, stamp
from tests.support.real_cluster import CLUSTER_ID, IN_TREE

DIRECTORIES: Final[Mapping[int, str]] = {
    1: "Hb0r3ZQ2T0mW2bIYvQmZ1A",
    2: "k5C0uO1nQ8yJqQm8XH2mBg",
    3: "5n0Q2mJ7RyS1xWw1eEo3Kw",
    4: "r2YayKXfSImQNLiUjajxqQ",
}
LOG: Final = (IN_TREE / "00000000000000000000.log").read_bytes()
LOG_END: Final = 546
LATER_MS: Final = 1_795_236_800_000
"""A time after the last record of the log."""
EPOCH: Final = 3
CHECKPOINT: Final = "00000000000000000479-0000000003.checkpoint"
CHECKPOINT_END: Final = 479


def old(
    folder: Path,
    node_id: int,
    *,
    log: bytes = LOG,
    start: int = 0,
    checkpoints: Sequence[Path] = (),
    epoch: int = EPOCH,
    voted_for: int | None = None,
    cluster_id: str = CLUSTER_ID,
    directory: str | None = None,
) -> Path:
    """The folder of one controller, of this name in `folder`."""
    source = folder / f"old-{node_id}"
    metadata = source / LOG_FOLDER
    metadata.mkdir(parents=True)
    (source / "meta.properties").write_text(
        f"#\n#Sat Nov 21 04:48:53 UTC 2026\nnode.id={node_id}\n"
        f"directory.id={directory or DIRECTORIES[node_id]}\nversion=1\ncluster.id={cluster_id}\n"
    )
    (metadata / f"{start:020}.log").write_bytes(log)
    for checkpoint in checkpoints:
        shutil.copy(checkpoint, metadata)
    (metadata / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} {start}\n")
    (metadata / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (source / ".lock").touch()
    vote = None if voted_for is None else key(voted_for)
    QuorumStateFile(metadata).write(ElectionState(Epoch(epoch), vote, ReplicaId(3)))
    return source


def key(node_id: int) -> ReplicaKey:
    """A controller with its directory."""
    return ReplicaKey(ReplicaId(node_id), uuid_from_text(DIRECTORIES[node_id]))


def directory(node_id: int) -> UUID:
    """The directory of a controller."""
    return key(node_id).directory_id


def cut(end: int) -> bytes:
    """The log up to an offset at which a batch ends."""
    for position, header in headers(LOG):
        if header.base_offset == end:
            return LOG[:position]
    raise AssertionError(f"no batch begins at {end}")


def rest(start: int) -> bytes:
    """The log from an offset on at which a batch begins."""
    return LOG[len(cut(start)) :]


def followed_by(
    *values: bytes,
    log: bytes = LOG,
    end: int = LOG_END,
    epoch: int = EPOCH,
    time_ms: int = LATER_MS,
) -> bytes:
    """The log with one more batch."""
    batch = encode(list(values), timestamp_ms=time_ms)
    stamp(batch, Offset(end), Epoch(epoch))
    return log + bytes(batch)


def without_voters() -> bytes:
    """The log up to 493, as a cluster whose voters stand in its configuration would have it."""
    ids = (ReplicaId(1), ReplicaId(2), ReplicaId(3))
    change = LeaderChange(leader=ids[0], voters=ids, granting=ids).encode()
    keys = [control_key(ControlType.LEADER_CHANGE)] * 3
    opening = encode([change] * 3, timestamp_ms=1_795_236_537_164, control_keys=keys)
    stamp(opening, Offset(0), Epoch(1))
    return bytes(opening) + cut(493)[len(cut(3)) :]


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder in `folder`, and what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }
