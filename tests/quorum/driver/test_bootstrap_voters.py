"""The voters of a replica at its start, from its folder: the log takes precedence."""

import random
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from quorum.bootstrap import Opened, open_quorum
from quorum.core.events import EndpointsUpdated
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
    uuid_to_text,
)
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.log.checkpoint import checkpoint_name
from quorum.log.errors import FileDamaged
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER, QuorumConfig
from quorum.records.control import ControlType, SnapshotBatches, control_key, encode_assignment
from quorum.records.encode import encode, stamp
from tests.quorum.driver.replicas import Diary
from tests.support.bell import Bell
from tests.support.tree import ROOT

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
KAFKAS_LOG = ROOT / "tests" / "data" / "kraft-4.2.0" / "00000000000000000000.log"


@asynccontextmanager
async def opened(folder: Path, node_id: int = 9) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:
        yield open_quorum(
            QuorumConfig(
                node_id=ReplicaId(node_id),
                cluster_id=CLUSTER,
                folder=folder,
                voters={ReplicaId(9): ("127.0.0.1", 9)},
            ),
            Diary(Bell()),
            stack,
            clock=lambda: 0,
            wall_clock=lambda: 0,
            rng=random.Random(1),
        )


def remembering(folder: Path, *, epoch: int) -> Path:
    """The folder of a log whose replica, which is 9, has heard of this epoch."""
    log_folder = folder / LOG_FOLDER
    log_folder.mkdir(parents=True)
    load_or_create(folder, CLUSTER, ReplicaId(9), rng=random.Random(1))
    QuorumStateFile(log_folder, cluster_id=CLUSTER).write(ElectionState(Epoch(epoch)))
    return log_folder


def append(log: SegmentedLog, batch: bytearray) -> None:
    stamp(batch, log.end.offset, Epoch(1))
    log.append(batch)


async def test_the_voters_of_the_log_take_precedence_over_the_configuration(
    tmp_path: Path,
) -> None:
    shutil.copy(KAFKAS_LOG, remembering(tmp_path, epoch=9))
    async with opened(tmp_path) as replica:
        voters = replica.quorum.node.voters
        assert voters.sorted() == (2, 3, 4)
        assert uuid_to_text(voters.voters[2].key.directory_id) == "r2YayKXfSImQNLiUjajxqQ"
        assert [each.port for each in voters.voters[2].endpoints] == [19004]


async def test_an_empty_log_begins_with_the_voters_that_its_folder_was_formatted_for(
    tmp_path: Path,
) -> None:
    """The files of `kafka-storage format --initial-controllers`; quorum.voters is not needed."""
    named = VoterSet(
        tuple(
            Voter(
                ReplicaKey(ReplicaId(each), UUID(int=each)),
                (Endpoint("CONTROLLER", "127.0.0.1", 19_000 + each),),
            )
            for each in (1, 2, 3)
        )
    )
    batches = SnapshotBatches(Epoch(0), 0)
    checkpoint = tmp_path / LOG_FOLDER / checkpoint_name(OffsetAndEpoch(Epoch(0), Offset(0)))
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(batches.opening(VoterAssignment(named), None) + batches.closing())
    async with opened(tmp_path, node_id=2) as replica:
        node = replica.quorum.node
        assert node.voters == named
        assert replica.addresses.address_of(ReplicaId(3)) == ("127.0.0.1", 19_003)
        # It is heard of elsewhere; it is the same voter.
        node.step(
            EndpointsUpdated(ReplicaKey(ReplicaId(1)), (Endpoint("CONTROLLER", "h", 9),)), now_ms=0
        )
        moved = node.voters.get(ReplicaId(1))
        assert moved is not None
        assert (moved.key.directory_id, moved.endpoints[0].host) == (UUID(int=1), "h")


async def test_a_log_that_names_nobody_goes_by_the_configuration(tmp_path: Path) -> None:
    async with opened(tmp_path) as replica:
        assert replica.quorum.node.voters.sorted() == (9,)


async def test_the_last_assignment_of_the_log_is_in_force(tmp_path: Path) -> None:
    with_log = remembering(tmp_path, epoch=1)
    log = SegmentedLog(with_log, segment_bytes_max=100)
    for ids in ((1,), (1, 2), (1, 2, 3)):
        assignment = VoterAssignment(VoterSet.of(*ids))
        append(log, encode_assignment(assignment, None, timestamp_ms=0))
        append(log, encode([b"word"], timestamp_ms=0))
    log.close()
    async with opened(tmp_path) as replica:
        assert replica.quorum.node.voters.sorted() == (1, 2, 3)
        assert replica.quorum.node.log_end.offset == Offset(6)


async def test_voters_that_cannot_be_read_are_named_with_their_place(tmp_path: Path) -> None:
    log = SegmentedLog(remembering(tmp_path, epoch=1))
    key = control_key(ControlType.KRAFT_VOTERS)
    append(log, encode([b"\x00\x09"], timestamp_ms=0, control_keys=[key]))
    log.close()
    damage = "at byte 0, offset 0: a kraft voters record of version 9"
    with pytest.raises(FileDamaged, match=damage):
        async with opened(tmp_path):
            pass
