"""Requests as they are written in transcripts, for those that no node of the story would send.

fetch as 2 epoch 3 from 5@2 [waiting 500] [round 3]
vote for 2 epoch 3 log 5@2
begin epoch 3 leader 2
end epoch 3 leader 2 successors 1,3
"""

from collections.abc import Sequence

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId, ReplicaKey


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
        case ["vote", "for", candidate, "epoch", epoch, "log", end]:
            return VoteRequest(
                epoch=Epoch(int(epoch)),
                candidate=ReplicaKey(ReplicaId(int(candidate))),
                log_end=_log_end(end),
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


def _log_end(text: str) -> LogEnd:
    offset, _, epoch = text.partition("@")
    return LogEnd(Epoch(int(epoch)), Offset(int(offset)))
