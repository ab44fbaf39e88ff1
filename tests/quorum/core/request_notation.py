"""The notation of requests in transcripts that no node of the transcript would send.

fetch as 2 epoch 3 from 5@2 [waiting 500] [round 3]
vote for 2 epoch 3 log 5@2
prevote for 2 epoch 3 log 5@2
snapshot for 2 epoch 3 id 5@2 at 1000
begin epoch 3 leader 2
end epoch 3 leader 2 successors 1,3

And voter requests: `alter 4 5 6`, `alter 4/20000004`, `cancel`, `add 4`, `remove 1`. A directory
that is named after the id is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    Request,
    VoteRequest,
    VoterRequest,
)
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Endpoint, Voter

WISH_MS: Final = 5_000


def parse_request(words: Sequence[str]) -> Request:
    match list(words):
        case ["fetch", "as", replica, "epoch", epoch, "from", end, *options]:
            said = dict(zip(options[::2], map(int, options[1::2]), strict=True))
            return FetchRequest(
                replica=ReplicaKey(ReplicaId(int(replica))),
                epoch=Epoch(int(epoch)),
                log_end=_log_end(end),
                max_wait_ms=said.get("waiting", 0),
                max_bytes=1_000_000,
                round=said.get("round", 0),
            )
        case ["vote" | "prevote" as kind, "for", candidate, "epoch", epoch, "log", end]:
            return VoteRequest(
                epoch=Epoch(int(epoch)),
                candidate=ReplicaKey(ReplicaId(int(candidate))),
                log_end=_log_end(end),
                pre_vote=kind == "prevote",
            )
        case ["snapshot", "for", replica, "epoch", epoch, "id", end, "at", position]:
            return FetchSnapshotRequest(
                replica=ReplicaKey(ReplicaId(int(replica))),
                epoch=Epoch(int(epoch)),
                snapshot=_log_end(end),
                position=int(position),
                max_bytes=1_000_000,
            )
        case ["begin", "epoch", epoch, "leader", leader]:
            return BeginQuorumEpochRequest(epoch=Epoch(int(epoch)), leader=ReplicaId(int(leader)))
        case ["end", "epoch", epoch, "leader", leader, "successors", successors]:
            return EndQuorumEpochRequest(
                epoch=Epoch(int(epoch)),
                leader=ReplicaId(int(leader)),
                preferred_successors=tuple(ReplicaId(int(s)) for s in successors.split(",")),
            )
        case _:
            raise ValueError(f"no request reads {' '.join(words)!r}")


def parse_wish(words: Sequence[str], directories: Mapping[ReplicaId, UUID]) -> VoterRequest:
    """The requested voters; `directories` are those of the existing disks."""
    match list(words):
        case ["alter", *target]:
            return AlterQuorumRequest(target=tuple(map(_key, target)), timeout_ms=WISH_MS)
        case ["cancel"]:
            return AlterQuorumRequest(target=None, timeout_ms=WISH_MS)
        case ["add", replica]:
            key = ReplicaKey(_key(replica).id, directories[_key(replica).id])
            voter = Voter(key, endpoints_of(key.id))
            return AddVoterRequest(voter=voter, timeout_ms=WISH_MS)
        case ["remove", replica]:
            key = ReplicaKey(_key(replica).id, directories[_key(replica).id])
            return RemoveVoterRequest(voter=key, timeout_ms=WISH_MS)
        case _:
            raise ValueError(f"no wish reads {' '.join(words)!r}")


def endpoints_of(replica: ReplicaId) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", "127.0.0.1", 9_000 + replica),)


def directory_of(replica: ReplicaId, disks: int = 1) -> UUID:
    """The directory id of the first, second, ... disk of a replica, with its id at the front."""
    return UUID(int=(disks << 124) | (replica << 96))


def _key(text: str) -> ReplicaKey:
    number, _, directory = text.partition("/")
    directory_id = UUID(int=int(directory, 16) << 96) if directory else NO_DIRECTORY
    return ReplicaKey(ReplicaId(int(number)), directory_id)


def _log_end(text: str) -> OffsetAndEpoch:
    offset, _, epoch = text.partition("@")
    return OffsetAndEpoch(Epoch(int(epoch)), Offset(int(offset)))
